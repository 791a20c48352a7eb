"""Building an index from any input: one builder at a time, resumable, and never a half-written index."""

from __future__ import annotations

import json
import logging
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from venus_env.corpus.dense import DenseWriter
from venus_env.corpus.document import Passage
from venus_env.corpus.encoders import WORDLLAMA, encoder_name, resolved_spec
from venus_env.corpus.errors import CorpusDamaged, CorpusError
from venus_env.corpus.ingest import BuildOptions, Collection, ingest, read_shard
from venus_env.corpus.lexical import AUTO, choose_lexical, kind_of, lexical_name, lexical_writer
from venus_env.corpus.loaders.plan import Plan, plan_input
from venus_env.corpus.manifest import MANIFEST, Manifest, check_files, describe_files, read_manifest
from venus_env.corpus.store import PassageStore, StoreWriter
from venus_env.corpus.text import index_terms, words
from venus_env.corpus.workers import ordered_map

logger = logging.getLogger(__name__)

COUNTS = "words.json"
SKIPPED = "skipped.jsonl"
DUPLICATES = "duplicates.jsonl"
_LOCK = ".lock"
_STAGING = ".staging"
_DATA_PREFIX = "data-"


def build_index(
    source: str | Path,
    out: str | Path,
    *,
    options: BuildOptions | None = None,
    encoder: str = WORDLLAMA,
    lexical: str = AUTO,
    workers: int = 1,
    force: bool = False,
) -> Manifest:
    """Build the index of an input, or keep the one that is there when nothing changed.

    Interrupted builds resume: what was read is kept in a staging folder inside ``out`` until the index is complete. The
    index is the same whatever the number of workers. Rows left out and duplicates are listed in ``skipped.jsonl`` and
    ``duplicates.jsonl`` of the data folder.

    Args:
        source: A file of rows or a document, or a folder of them; see :mod:`venus_env.corpus.loaders`.
        out: Folder of the index; made if absent, replaced in one step if it holds an index.
        options: How the input becomes passages.
        encoder: Model of the dense vectors: ``wordllama``, ``minilm``, or the folder or Hugging Face name of a
            sentence-embedding model, followed by ``[onnx]`` to run its ONNX file.
        lexical: Library of the lexical index: ``bm25s``, ``tantivy``, or ``auto``, which keeps that of a
            current index and otherwise chooses by size (:func:`venus_env.corpus.lexical.choose_lexical`).
        workers: Number of processes that read the input and split it into words.
        force: Build even if the index is current and sound.

    Raises:
        CorpusError: The source cannot be read as it is, ``out`` holds something that is no index, or the lexical index
            needs a library that is not installed.
    """
    from filelock import FileLock

    source, out = Path(source), Path(out)
    if workers < 1:
        raise ValueError(f"build_index: workers must be at least 1, got {workers}")
    options = options or BuildOptions()
    plan = plan_input(source, options.format)
    options = options.resolved(plan.format)
    encoder = resolved_spec(encoder)
    choose_lexical(lexical, 0)  # what cannot work is refused before the input is read
    if source.is_dir() and source.resolve() in (out.resolve(), *out.resolve().parents):
        raise CorpusError(f"{out}: lies inside the input {source}, which would then hold its own index; choose another")
    try:
        _claim(out)
        with FileLock(out / _LOCK):
            current = None if force else _current(out, plan, options, encoder, lexical)
            if current is None:
                collection = ingest(plan, options, out / _STAGING, workers)
                current = _index(plan, options, encoder, lexical, collection, out, workers)
                shutil.rmtree(out / _STAGING)
            _sweep(out, keep=current.data)
    except OSError as error:
        raise CorpusError(f"{out}: cannot write the index here ({error}); choose another folder") from error
    return current


def _claim(out: Path) -> None:
    """Make the folder, or make sure that it is ours to write in."""
    out.mkdir(parents=True, exist_ok=True)
    names = {path.name for path in out.iterdir()}
    strangers = {name for name in names if name != MANIFEST and not name.startswith((".", _DATA_PREFIX))}
    if strangers and MANIFEST not in names:
        raise CorpusError(f"{out}: holds other files ({min(strangers)}) and no index; choose an empty folder")


def _current(out: Path, plan: Plan, options: BuildOptions, encoder: str, lexical: str) -> Manifest | None:
    """Give the manifest in place if it is sound and was made from this very source, in this way, by this version."""
    if not (out / MANIFEST).exists():
        return None
    try:
        manifest = read_manifest(out)
        made_from = (manifest.source_sha256, manifest.options, manifest.encoder, manifest.lexical)
        kind = kind_of(manifest.lexical) if lexical == AUTO else choose_lexical(lexical, manifest.passages)
        if made_from != (plan.digest, options, encoder_name(encoder), lexical_name(kind)):
            return None
        check_files(out, manifest, full=True)
    except CorpusDamaged as error:
        logger.warning("rebuilding a damaged index: %s", error)
        return None
    return manifest


def _index(
    plan: Plan, options: BuildOptions, encoder: str, lexical: str, collection: Collection, out: Path, workers: int
) -> Manifest:
    kind = choose_lexical(lexical, collection.passages)
    data = out / f"{_DATA_PREFIX}{secrets.token_hex(6)}"
    data.mkdir()
    store, postings, counts = StoreWriter(data), lexical_writer(kind, data), Counter[str]()
    # Nothing is drawn where stderr is no terminal.
    analysed = closing(ordered_map(_analyse, collection.shards, workers))
    with analysed as analyses, tqdm(desc=f"{plan.name}: words", unit="passage", disable=None) as bar:
        for shard, analysis in zip(collection.shards, analyses, strict=True):
            for passage in read_shard(*shard):
                store.add(passage)
                bar.update()
            for stems in analysis.stems():
                postings.add(stems)
            counts.update(analysis.words)
    content_hash = store.close()
    postings.close()
    del postings  # with bm25s its token lists are the largest thing in memory
    (data / COUNTS).write_text(json.dumps(dict(sorted(counts.items())), ensure_ascii=False), encoding="utf-8")

    stored, dense = PassageStore(data), DenseWriter(data, encoder)
    for passage in tqdm(stored.passages(), desc=f"{plan.name}: vectors", total=len(stored), disable=None):
        dense.add(indexed_text(passage))
    dense.close()

    _write_reports(data, collection)
    manifest = Manifest(
        content_hash=content_hash,
        source=plan.name,
        source_sha256=plan.digest,
        options=options,
        encoder=encoder_name(encoder),
        encoder_spec=encoder,
        lexical=lexical_name(kind),
        documents=collection.documents,
        passages=len(stored),
        pages=store.pages,
        words=counts.total(),
        skipped=len(collection.skipped),
        duplicates=len(collection.duplicates),
        data=data.name,
        files=describe_files(data),
    )
    manifest.write(out)
    return manifest


def indexed_text(passage: Passage) -> str:
    """Give the text by which a passage is found: title and heading count like the passage itself."""
    return "\n".join(filter(None, (passage.title, passage.section, passage.text)))


@dataclass(frozen=True, slots=True)
class _Analysis:
    """Words and stems of a shard, small enough to send from one process to another.

    Attributes:
        words: Count of every word.
        vocabulary: Every stem once.
        tokens: Stems of all passages, as positions in the vocabulary.
        ends: Where in ``tokens`` each passage ends.
    """

    words: dict[str, int]
    vocabulary: list[str]
    tokens: npt.NDArray[np.int32]
    ends: list[int]

    def stems(self) -> Iterator[list[str]]:
        """Stems of one passage after another."""
        start = 0
        for end in self.ends:
            yield [self.vocabulary[token] for token in self.tokens[start:end].tolist()]
            start = end


def _analyse(shard: tuple[Path, list[bool]]) -> _Analysis:
    counts = Counter[str]()
    vocabulary: dict[str, int] = {}
    tokens: list[int] = []
    ends: list[int] = []
    for passage in read_shard(*shard):
        found = words(indexed_text(passage))
        counts.update(found)
        tokens += [vocabulary.setdefault(one, len(vocabulary)) for one in index_terms(found)]
        ends.append(len(tokens))
    return _Analysis(dict(counts), list(vocabulary), np.asarray(tokens, dtype=np.int32), ends)


def _write_reports(data: Path, collection: Collection) -> None:
    skipped = [asdict(row) for row in collection.skipped]
    duplicates = [dict(zip(("id", "of", "kind", "similarity"), one, strict=True)) for one in collection.duplicates]
    for name, records in ((SKIPPED, skipped), (DUPLICATES, duplicates)):
        if records:
            lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            (data / name).write_text("".join(lines), encoding="utf-8", errors="replace")


def _sweep(out: Path, keep: str) -> None:
    """Remove what earlier or killed builds left; those who have an old index open keep their mapped files."""
    for path in out.iterdir():
        if path.is_dir() and path.name.startswith(_DATA_PREFIX) and path.name != keep:
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith(f".{MANIFEST}-"):
            path.unlink(missing_ok=True)
