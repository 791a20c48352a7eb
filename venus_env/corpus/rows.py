"""Rows of ``venus.passage/1``: one JSON object a line, plain or gzipped, checked row by row."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from venus_env.corpus.document import Passage
from venus_env.corpus.errors import CorpusError
from venus_env.corpus.text import scrub

SUFFIXES = (".jsonl", ".jsonl.gz")
REQUIRED = ("id", "url", "title", "text")
OPTIONAL = ("section", "date", "source")
# What reading a plain or gzipped file can raise when the file is cut or broken.
READ_ERRORS = (OSError, EOFError, zlib.error)


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
        with open_lines(path) as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    passage = check_passage(parse_row(line))
                except ValueError as error:
                    raise CorpusError(f"{path.name}, line {number}: {error}") from error
                digest = hashlib.blake2b(passage.id.encode(), digest_size=8).digest()
                if digest in seen:
                    raise CorpusError(f"{path.name}, line {number}: id {passage.id!r} was used before; ids are unique")
                seen.add(digest)
                yield passage
    except READ_ERRORS as error:
        raise CorpusError(f"{path}: cannot be read as {' or '.join(SUFFIXES)}: {error}") from error
    if not seen:
        raise CorpusError(f"{path}: holds no passage")


def passage_record(passage: Passage) -> dict[str, str]:
    """Give the plain JSON value of a passage: every required key, optional ones only where known."""
    record = {key: getattr(passage, key) for key in REQUIRED}
    return record | {key: value for key in OPTIONAL if (value := getattr(passage, key)) is not None}


def stored_line(passage: Passage) -> bytes:
    """Give the line that an index stores for a passage; the content hash is taken over these."""
    return json.dumps(passage_record(passage), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def parse_record(record: dict[str, Any]) -> Passage:
    """Inverse of :func:`passage_record`."""
    return Passage(**record)


def open_lines(path: Path) -> IO[bytes]:
    """Open a ``.jsonl`` or ``.jsonl.gz`` file for reading bytes.

    Raises:
        CorpusError: The name ends in something else.
    """
    if not path.name.endswith(SUFFIXES):
        raise CorpusError(f"{path}: a corpus file ends in {' or '.join(SUFFIXES)}")
    return io.BufferedReader(gzip.open(path)) if path.name.endswith(".gz") else path.open("rb")


def parse_row(line: bytes) -> Mapping[str, Any]:
    """Read one line as a JSON object.

    Raises:
        ValueError: It is none; the message is the reason, without the place.
    """
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason} at byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, got {type(row).__name__}")
    return row


def check_passage(row: Mapping[str, Any]) -> Passage:
    """Check a row of ``venus.passage/1``.

    Raises:
        ValueError: It is none; the message names the key, without the place.
    """
    values: dict[str, str] = {}
    for key in REQUIRED:
        value = row.get(key)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(
                f"{key!r} must be a non-blank string, got {value!r:.80}; "
                f"a passage needs {', '.join(REQUIRED)} and may have {', '.join(OPTIONAL)}; found {sorted(row)}"
            )
        values[key] = _storable(value)
    for key in OPTIONAL:
        value = row.get(key)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{key!r} must be a string or absent, got {value!r:.80}")
        if value:
            values[key] = _storable(value)
    return Passage(**values)


def _storable(text: str) -> str:
    """Keep a text as it is, apart from what no file and no tokenizer takes: lone surrogates and NUL."""
    return scrub(text).replace("\x00", "\ufffd")
