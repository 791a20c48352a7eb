"""Parquet files in any of the layouts; a row group is a chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from venus_env.corpus.loaders.chunk import Chunk, Found, Unreadable
from venus_env.corpus.loaders.document import BadInput, MissingExtra
from venus_env.corpus.loaders.layouts import COLUMNS, LAYOUTS
from venus_env.corpus.loaders.source import SourceFile

_BATCH_ROWS = 512


@dataclass(frozen=True, slots=True)
class RowGroupChunk:
    """One row group of a file."""

    source: SourceFile
    group: int
    first: int
    layout: str
    url_base: str

    @property
    def file(self) -> str:
        """Name of the file."""
        return self.source.name

    def fingerprint(self) -> bytes:
        """Hash the file's content and the place in it."""
        named = f"{self.source.sha256}\n{self.group}\n{self.layout}\n{self.url_base}"
        return hashlib.sha256(named.encode()).digest()

    def documents(self) -> Iterator[Found]:
        """Read the rows, some hundreds at a time."""
        layout = LAYOUTS[self.layout]
        number = 0
        try:
            file = _open(self.source.path)
            columns = [name for name in file.schema_arrow.names if name in COLUMNS]
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[self.group], columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    try:
                        yield Found("", number, layout(row, self.url_base))
                    except ValueError as error:
                        yield Found("", number, BadInput(str(error)))
        except _arrow_errors() as error:
            yield Found("", number + 1, BadInput(f"cannot be read from about here on ({error})"))


def row_group_chunks(file: SourceFile, layout: str, url_base: str) -> Iterator[Chunk]:
    """Cut a file into its row groups."""
    first = 0
    try:
        metadata = _open(file.path).metadata
    except _arrow_errors() as error:
        yield Unreadable(file.name, 0, f"not a readable parquet file ({error})")
        return
    for group in range(metadata.num_row_groups):
        yield RowGroupChunk(file, group, first, layout, url_base)
        first += metadata.row_group(group).num_rows


def parquet_columns(path: Path) -> frozenset[str]:
    """Names of a file's columns.

    Raises:
        BadInput: It is no parquet file.
    """
    try:
        return frozenset(_open(path).schema_arrow.names)
    except _arrow_errors() as error:
        raise BadInput(f"not a readable parquet file ({error})") from error


def _open(path: Path) -> Any:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingExtra("reading parquet", "pyarrow") from error
    return ParquetFile(path)


def _arrow_errors() -> tuple[type[Exception], ...]:
    try:
        from pyarrow import ArrowException
    except ImportError as error:
        raise MissingExtra("reading parquet", "pyarrow") from error
    return (ArrowException, OSError)
