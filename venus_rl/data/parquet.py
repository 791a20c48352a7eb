"""Parquet files of trajectories, written in small row groups so that memory stays small."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

_GROUP_CHARACTERS = 16_000_000
_GROUP_ROWS = 1024


class RowWriter:
    """Writes rows to a parquet file; used as a context manager.

    Args:
        path: The file.
        schema: Its pyarrow schema; fields of rows that are not in it are left out.
    """

    def __init__(self, path: Path, schema: Any) -> None:
        import pyarrow.parquet

        self._schema = schema
        self._writer = pyarrow.parquet.ParquetWriter(path, schema, compression="zstd")
        self._pending: list[dict[str, Any]] = []
        self._characters = 0

    @classmethod
    def clean(cls, path: Path, *, bare: bool) -> RowWriter:
        """A file of trajectories: question, messages, gt, and unless ``bare`` also source, turns and copy."""
        import pyarrow

        text = pyarrow.string()
        message = pyarrow.struct({"role": text, "content": text})
        fields = {"question": text, "messages": pyarrow.list_(message), "gt": text}
        more = {} if bare else {"source": text, "turns": pyarrow.int32(), "copy": pyarrow.int32()}
        return cls(path, pyarrow.schema({**fields, **more}))

    @classmethod
    def rejected(cls, path: Path) -> RowWriter:
        """A file of dropped rows: source, stage, reason, detail, and the row as JSON."""
        import pyarrow

        # A row may be larger than the 2 GB that all strings of a chunk share: hence the large type.
        text = pyarrow.string()
        columns = dict.fromkeys(("source", "stage", "reason", "detail"), text)
        return cls(path, pyarrow.schema({**columns, "row": pyarrow.large_string()}))

    def add(self, **row: Any) -> None:
        """Add a row."""
        self._pending.append({name: row[name] for name in self._schema.names})
        texts = (m["content"] for m in row["messages"]) if "messages" in row else iter([row["row"]])
        self._characters += sum(map(len, texts))
        if self._characters >= _GROUP_CHARACTERS or len(self._pending) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow

        rows = [_encodable(row) for row in self._pending]
        self._writer.write_table(pyarrow.Table.from_pylist(rows, schema=self._schema))
        self._pending, self._characters = [], 0

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()


def _encodable(row: dict[str, Any]) -> dict[str, Any]:
    """The row with lone surrogates, which Arrow cannot store, spelt as JSON spells them."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode("utf-8")
        if isinstance(value, str) and not value.isascii()
        else value
        for name, value in row.items()
    }
