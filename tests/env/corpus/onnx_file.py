"""Writes the smallest ONNX encoder, a table of token vectors; the protobuf is written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

FLOAT, INT64 = 1, 7


def write_token_table(path: Path, tokens: int, dimensions: int = 8) -> npt.NDArray[np.float32]:
    """Write a model that gives each token its row of a random table; returns the table."""
    table = np.random.default_rng(0).standard_normal((tokens, dimensions)).astype(np.float32)
    tensor = _number(1, tokens) + _number(1, dimensions) + _number(2, FLOAT)
    tensor += _text(8, "table") + _field(9, table.tobytes())
    node = _text(1, "table") + _text(1, "input_ids") + _text(2, "states") + _text(4, "Gather")
    graph = _field(1, node) + _text(2, "lookup") + _field(5, tensor)
    graph += _field(11, _value("input_ids", INT64, ["batch", "tokens"]))
    graph += _field(12, _value("states", FLOAT, ["batch", "tokens", dimensions]))
    path.write_bytes(_number(1, 8) + _field(7, graph) + _field(8, _text(1, "") + _number(2, 13)))
    return table


def _value(name: str, kind: int, shape: list[str | int]) -> bytes:
    sizes = b"".join(_field(1, _number(1, size) if isinstance(size, int) else _text(2, size)) for size in shape)
    return _text(1, name) + _field(2, _field(1, _number(1, kind) + _field(2, sizes)))


def _varint(value: int) -> bytes:
    low, high = value & 127, value >> 7
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, content: str) -> bytes:
    return _field(field, content.encode())
