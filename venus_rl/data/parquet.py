"""Parquet files of trajectories, written in small row groups so that memory stays small."""

from __future__ import annotations

from itertools import accumulate
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

        text = pyarrow.string()
        columns = dict.fromkeys(("source", "stage", "reason", "detail"), text)
        return cls(path, pyarrow.schema({**columns, "row": text}))

    def add(self, **row: Any) -> None:
        """Add a row."""
        self._pending.append({name: row[name] for name in self._schema.names})
        texts = (m["content"] for m in row["messages"]) if "messages" in row else iter([row["row"]])
        self._characters += sum(map(len, texts))
        if self._characters >= _GROUP_CHARACTERS or len(self._pending) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow

        columns = [
            _messages_array([row[name] for row in self._pending], self._schema.field(name).type)
            if name == "messages"
            else pyarrow.array([_encodable(row[name]) for row in self._pending], self._schema.field(name).type)
            for name in self._schema.names
        ]
        self._writer.write_table(pyarrow.Table.from_arrays(columns, schema=self._schema))
        self._pending, self._characters = [], 0

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()


def _messages_array(conversations: list[list[dict[str, Any]]], kind: Any) -> Any:
    """Conversations as a list column; four times as fast as to let Arrow look at every dict."""
    import pyarrow

    ends = list(accumulate(map(len, conversations), initial=0))
    fields = [
        pyarrow.array([_encodable(message[field.name]) for messages in conversations for message in messages]).cast(
            field.type
        )
        for field in kind.value_type
    ]
    messages = pyarrow.StructArray.from_arrays(fields, fields=list(kind.value_type))
    return pyarrow.ListArray.from_arrays(pyarrow.array(ends, pyarrow.int32()), messages).cast(kind)


def _encodable(value: Any) -> Any:
    """Text without lone surrogates, which Arrow cannot store: they are spelt as JSON spells them."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode("utf-8")
