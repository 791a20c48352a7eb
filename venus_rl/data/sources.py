"""Rows of data files, one at a time: JSON, JSON lines and parquet, in files, folders and glob patterns.

Reading never stops at damage: what cannot be read comes as an :class:`Unreadable` in its place; whoever reads decides.
"""

from __future__ import annotations

import codecs
import glob
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

SUFFIXES = (".json", ".jsonl", ".jsonl.gz", ".parquet")
_CHUNK = 1 << 20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row, or the rest of a file, that cannot be read; the message names the place and the fix."""

    message: str


def find_files(sources: Iterable[str | Path]) -> list[Path]:
    """Expand files, folders (searched in depth) and glob patterns to a sorted list of data files.

    Raises:
        FileNotFoundError: A source matches no data file.
    """
    found: dict[Path, None] = {}
    for source in sources:
        path = Path(source)
        if path.is_dir():
            matches = [p for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES)]
        elif path.is_file():
            matches = [path]
        else:
            matches = [Path(p) for p in glob.glob(str(source), recursive=True) if p.endswith(SUFFIXES)]
        if not matches:
            raise FileNotFoundError(
                f"{source}: no such file, folder or pattern with data files ({', '.join(SUFFIXES)})"
            )
        found |= dict.fromkeys(sorted(matches))
    return list(found)


def raw_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Rows of one file, numbered from 1 (in JSON lines: by line); memory does not grow with their number."""
    if path.name.endswith(".parquet"):
        rows = _parquet(path)
    elif path.name.endswith(".json"):
        rows = _json(path)
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        rows = _json_lines(path)
    else:
        rows = iter([(1, Unreadable(f"{path}: cannot read this kind of file; accepted are {', '.join(SUFFIXES)}"))])
    return rows


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=16):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pyarrow.ArrowException, OSError) as error:
        yield number + 1, Unreadable(f"{path}: cannot be read as parquet after row {number}: {error}")


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.startswith(_UTF16):
                    yield number, Unreadable(f"{path}: is UTF-16; convert it to UTF-8")
                    return
                if line.strip():
                    yield number, _json_line(line, f"{path}, line {number}")
    except (OSError, EOFError, zlib.error) as error:
        yield number + 1, Unreadable(f"{path}: cannot be read after line {number}: {error}")


def _json_line(line: bytes, place: str) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return Unreadable(f"{place}: not UTF-8 (byte {error.start}); convert the file to UTF-8")
    except (ValueError, RecursionError) as error:
        hint = "" if line.endswith(b"\n") else "; the file may break off here"
        return Unreadable(f"{place}: not valid JSON: {error}{hint}")


def _json(path: Path) -> Iterator[tuple[int, Any]]:
    """The items of a JSON list, or the one value that the file holds."""
    number = 0
    try:
        with path.open("rb") as file:
            for number, value in enumerate(_items(file), start=1):
                yield number, value
    except UnicodeDecodeError as error:
        yield number + 1, Unreadable(f"{path}: not UTF-8 after row {number} ({error.reason}); convert it to UTF-8")
    except (ValueError, RecursionError) as error:
        yield number + 1, Unreadable(f"{path}: not valid JSON after row {number}: {error}")
    except OSError as error:
        yield number + 1, Unreadable(f"{path}: cannot be read: {error}")


def _items(file: IO[bytes]) -> Iterator[Any]:
    """Decode a list item by item, reading on only when an item is not complete yet."""
    head = file.read(_CHUNK)
    if head.startswith(_UTF16):
        raise ValueError("it is UTF-16; convert it to UTF-8")
    decode = codecs.getincrementaldecoder("utf-8-sig")()
    text = decode.decode(head)
    if not text.lstrip().startswith("["):
        yield json.loads(text + decode.decode(file.read(), final=True))
        return
    decoder = json.JSONDecoder()
    text, ended, separator = text.lstrip()[1:], False, ""
    while True:
        text = text.lstrip()
        try:
            if text.startswith("]") and separator != ",":
                if (text[1:] + decode.decode(file.read(), final=True)).strip():
                    raise _Broken("there is more text after the list")
                return
            value, end = decoder.raw_decode(text)
            rest = text[end:].lstrip()
            separator = rest[:1]
            if not separator:  # a number may go on in what is not read yet
                raise ValueError("the list is not closed")
            if separator not in ",]":
                raise _Broken(f"expected ',' or ']' after an item, found {separator!r}")
        except _Broken:
            raise
        except ValueError:
            if ended:
                raise
            chunk = file.read(max(_CHUNK, len(text)))  # twice as much each time, so that a huge item stays linear
            ended = not chunk
            text += decode.decode(chunk, final=ended)
            continue
        yield value
        text = rest[1:] if separator == "," else rest


class _Broken(ValueError):
    """Not JSON, however much more is read."""
