"""Reading ``venus.passage/1``: one JSON object a line, plain or gzipped, checked row by row."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from venus_env.corpus.document import Passage
from venus_env.corpus.errors import CorpusError
from venus_env.corpus.text import scrub

SUFFIXES = (".jsonl", ".jsonl.gz")
_REQUIRED = ("id", "url", "title", "text")
_OPTIONAL = ("section", "date", "source")


def file_sha256(path: Path) -> str:
    """Hash a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_passages(path: Path) -> Iterator[Passage]:
    """Read passages in file order; keys beyond those of ``venus.passage/1`` are ignored.

    Raises:
        CorpusError: The file cannot be read, or a row is not a passage; the message names file, line and key.
    """
    seen: set[bytes] = set()  # digests, so that a large corpus costs 8 bytes of payload per id
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                passage = _passage(line, f"{path.name}, line {number}")
                digest = hashlib.blake2b(passage.id.encode(), digest_size=8).digest()
                if digest in seen:
                    raise CorpusError(f"{path.name}, line {number}: id {passage.id!r} was used before; ids are unique")
                seen.add(digest)
                yield passage
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read as {' or '.join(SUFFIXES)}: {error}") from error
    if not seen:
        raise CorpusError(f"{path}: holds no passage")


def passage_record(passage: Passage) -> dict[str, str]:
    """Give the plain JSON value of a passage: every required key, optional ones only where known."""
    record = {key: getattr(passage, key) for key in _REQUIRED}
    return record | {key: value for key in _OPTIONAL if (value := getattr(passage, key)) is not None}


def parse_record(record: dict[str, Any]) -> Passage:
    """Inverse of :func:`passage_record`."""
    return Passage(**record)


def _open(path: Path) -> IO[str]:
    if not path.name.endswith(SUFFIXES):
        raise CorpusError(f"{path}: a corpus file ends in {' or '.join(SUFFIXES)}")
    if path.name.endswith(".gz"):
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8")
    return path.open(encoding="utf-8")


def _passage(line: str, where: str) -> Passage:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise CorpusError(f"{where}: not JSON ({error})") from error
    if not isinstance(row, dict):
        raise CorpusError(f"{where}: expected a JSON object with {', '.join(_REQUIRED)}, got {type(row).__name__}")
    values: dict[str, str] = {}
    for key in _REQUIRED:
        value = row.get(key)
        if not isinstance(value, str) or not value.strip():
            raise CorpusError(
                f"{where}: {key!r} must be a non-blank string, got {value!r}; "
                f"a passage needs {', '.join(_REQUIRED)} and may have {', '.join(_OPTIONAL)}; found {sorted(row)}"
            )
        values[key] = scrub(value)
    for key in _OPTIONAL:
        value = row.get(key)
        if value is not None and not isinstance(value, str):
            raise CorpusError(f"{where}: {key!r} must be a string or absent, got {value!r}")
        if value:
            values[key] = scrub(value)
    return Passage(**values)
