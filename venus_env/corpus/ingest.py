"""From an input to passages: chunk by chunk, in parallel, each finished chunk kept until the index is complete.

A finished chunk is a *shard*: a file of JSON lines in the staging folder, named by the hash of everything that decides
its content. A build that was interrupted finds the shards of all chunks that have not changed and makes the others.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from tqdm import tqdm

from venus_env.corpus.document import Passage
from venus_env.corpus.duplicates import Duplicate, Sketches, find_duplicates, join_sketches, sketch
from venus_env.corpus.errors import CorpusError
from venus_env.corpus.loaders.chunk import Chunk
from venus_env.corpus.loaders.document import URL_BASE, BadInput
from venus_env.corpus.loaders.plan import AUTO, Plan
from venus_env.corpus.loaders.source import check_unchanged
from venus_env.corpus.rows import parse_record, passage_record
from venus_env.corpus.split import DEFAULT_WORDS, split_document
from venus_env.corpus.workers import ordered_map

# Part of every shard's name: raise it when a loader or the splitter comes to give other passages.
_VERSION = 1


class BuildOptions(BaseModel):
    """How an input becomes passages.

    Attributes:
        format: Layout of the input (:data:`venus_env.corpus.loaders.FORMATS`); ``auto`` tells it by names and keys.
        words: Most words of a passage. By default 250, and rows of ``venus.passage/1`` stay as they are.
        url_base: Base of the addresses of documents that have none, such as files.
        on_error: ``fail`` at the first bad row or file, or ``skip`` and report them.
        duplicates: ``keep`` documents that repeat an earlier one, ``drop`` them, or ``fail``; reported in any case.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str = AUTO
    words: int | None = Field(default=None, ge=10)
    url_base: str = Field(default=URL_BASE, pattern=r"^https?://\S+$")
    on_error: Literal["fail", "skip"] = "fail"
    duplicates: Literal["keep", "drop", "fail"] = "keep"

    def resolved(self, format: str) -> BuildOptions:
        """Fill in what depends on the format."""
        words = self.words if self.words is not None or format == "passages" else DEFAULT_WORDS
        return self.model_copy(update={"format": format, "words": words})


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row or file that was left out."""

    file: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Shard:
    """Summary of a finished chunk.

    Attributes:
        path: Its passages.
        ids: Ids of its documents.
        places: File and line of each.
        passages: Number of passages of each.
        sketches: Fingerprints of each.
        bad: Rows without a document.
    """

    path: Path
    ids: list[str]
    places: list[tuple[str, int | None]]
    passages: list[int]
    sketches: Sketches
    bad: list[BadRow]


@dataclass(slots=True)
class Collection:
    """All shards of an input, and what is left out of them.

    Attributes:
        shards: Path of each shard, and which of its documents are used.
        sizes: Number of passages of every document of every shard, used or not.
        skipped: Rows that could not be used.
        duplicates: Ids of documents that repeat an earlier one: (id, id of the earlier one, kind, similarity).
    """

    shards: list[tuple[Path, list[bool]]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    skipped: list[BadRow] = field(default_factory=list)
    duplicates: list[tuple[str, str, str, float]] = field(default_factory=list)

    @property
    def documents(self) -> int:
        """Number of documents used."""
        return sum(sum(used) for _, used in self.shards)

    @property
    def passages(self) -> int:
        """Number of passages of the documents used."""
        return sum(compress(self.sizes, chain.from_iterable(used for _, used in self.shards)))


def ingest(plan: Plan, options: BuildOptions, staging: Path, workers: int) -> Collection:
    """Turn an input into shards.

    Args:
        plan: The input.
        options: Resolved for the plan's format.
        staging: Folder of the shards; made if absent, and left to the caller.
        workers: Number of processes.

    Raises:
        CorpusError: A bad row, or a duplicate, where the options say so; an input without any document.
    """
    staging.mkdir(exist_ok=True)
    collection, seen, places, sketches = Collection(), set[str](), list[tuple[str, int | None]](), list[Sketches]()
    ids: list[str] = []
    load = partial(load_chunk, staging=staging, words=options.words)
    made = closing(ordered_map(load, plan.chunks(options.url_base), workers))
    with made as shards, tqdm(desc=f"{plan.name}: reading", unit="doc", disable=None) as bar:
        for shard in shards:
            bad = list(shard.bad)
            used = []
            for id, place in zip(shard.ids, shard.places, strict=True):
                used.append(id not in seen)
                if not used[-1]:
                    bad.append(BadRow(*place, f"id {id!r} was used before; ids are unique"))
                seen.add(id)
            bad.sort(key=lambda row: row.line or 0)  # files are in order already
            if bad and options.on_error == "fail":
                raise CorpusError(f"{bad[0]} (on_error 'skip' leaves such rows out and reports them)")
            collection.skipped += bad
            collection.shards.append((shard.path, used))
            collection.sizes += shard.passages
            ids += shard.ids
            places += shard.places
            sketches.append(shard.sketches)
            bar.update(len(shard.ids))
    check_unchanged(plan.files)
    if not collection.documents:
        bad = collection.skipped
        reason = f": all {len(bad)} rows are bad, the first: {bad[0]}" if bad else ""
        raise CorpusError(f"{plan.name}: holds no passage{reason}")
    _judge_duplicates(collection, ids, places, find_duplicates(join_sketches(sketches)), options)
    return collection


def _judge_duplicates(
    collection: Collection,
    ids: list[str],
    places: list[tuple[str, int | None]],
    found: list[Duplicate],
    options: BuildOptions,
) -> None:
    used = [flag for _, flags in collection.shards for flag in flags]
    found = [duplicate for duplicate in found if used[duplicate.number] and used[duplicate.of]]
    if found and options.duplicates == "fail":
        first = found[0]
        likeness = "repeats" if first.kind == "exact" else f"is nearly the same ({first.similarity:.2f}) as"
        row = BadRow(*places[first.number], f"{ids[first.number]!r} {likeness} {ids[first.of]!r}")
        raise CorpusError(f"{row}; {len(found)} duplicates in all (duplicates 'drop' leaves them out, 'keep' reports)")
    collection.duplicates = [(ids[one.number], ids[one.of], one.kind, one.similarity) for one in found]
    if options.duplicates == "drop":
        for duplicate in found:
            used[duplicate.number] = False
        flags = iter(used)
        collection.shards = [(path, [next(flags) for _ in old]) for path, old in collection.shards]


def load_chunk(chunk: Chunk, staging: Path, words: int | None) -> Shard:
    """Make the shard of a chunk, unless it is there already, and sum it up."""
    name = hashlib.sha256(f"{_VERSION}\n{words}\n".encode() + chunk.fingerprint()).hexdigest()[:32]
    path = staging / f"{name}.jsonl"
    if not path.exists():
        _write_shard(chunk, path, words)
    ids, places, sizes, texts, bad = [], [], [], [], []
    for record in _records(path):
        file, line = record["file"] or chunk.file, record["line"]
        line = None if line is None else chunk.first + line
        if "reason" in record:
            bad.append(BadRow(file, line, record["reason"]))
            continue
        ids.append(record["id"])
        places.append((file, line))
        sizes.append(len(record["passages"]))
        texts.append(" ".join(passage["text"] for passage in record["passages"]))
    return Shard(path, ids, places, sizes, sketch(texts), bad)


def read_shard(path: Path, used: list[bool]) -> Iterator[Passage]:
    """Passages of the documents that are used, in order."""
    flags = iter(used)
    for record in _records(path):
        if "reason" not in record and next(flags):
            yield from map(parse_record, record["passages"])


def _write_shard(chunk: Chunk, path: Path, words: int | None) -> None:
    """Write under another name first: a shard that exists is complete."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            for found in chunk.documents():
                record: dict[str, Any] = {"file": found.file, "line": found.line}
                if isinstance(found.document, BadInput):
                    record["reason"] = str(found.document)
                else:
                    record["id"] = found.document.id
                    record["passages"] = [passage_record(one) for one in split_document(found.document, words)]
                file.write(json.dumps(record, ensure_ascii=True, separators=(",", ":")) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            yield json.loads(line)
