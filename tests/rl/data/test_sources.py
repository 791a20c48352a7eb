from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from venus_rl.data import sources
from venus_rl.data.sources import Unreadable, raw_rows


def rows(path: Path) -> list[Any]:
    return [value for _, value in raw_rows(path)]


VALUES: list[Any] = [{"a": "x" * 50, "ü": [1, 2.5]}, {}, [], "text ]", 12345, None]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_lists_are_decoded_item_by_item(
    tmp_path: Path, chunk: int, indent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_CHUNK", chunk)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(VALUES, indent=indent, ensure_ascii=False) + "\n", encoding="utf-8")
    assert rows(path) == VALUES


@pytest.mark.parametrize(
    ("name", "content", "whole", "message"),
    [
        ("a.json", b'[{"a": 1}, {"a": 2}, {"a": ', 2, "not valid JSON after row 2"),
        ("a.json", b'[{"a": 1}', 0, "not valid JSON after row 0"),
        ("a.json", b'[{"a": 1} {"a": 2}]', 0, "expected ',' or ']'"),
        ("a.json", b'[{"a": 1}] x', 1, "more text after the list"),
        ("a.json", b'[{"a": 1},]', 1, "not valid JSON"),
        ("a.json", b'{"a"', 0, "not valid JSON"),
        ("a.json", b"", 0, "not valid JSON"),
        ("a.json", b'[{"a": "\xe9"}]', 0, "not UTF-8"),
        ("a.json", '{"a": 1}'.encode("utf-16"), 0, "UTF-16"),
        ("a.jsonl", '{"a": 1}\n'.encode("utf-16"), 0, "UTF-16"),
        ("a.jsonl", b'{"a": 1}\n{"a": "\xe9"}\n', 1, "line 2: not UTF-8 .byte 7"),
        ("a.jsonl", b'{"a": 1}\n{"a": ', 1, "line 2: not valid JSON.*may break off"),
        ("a.jsonl.gz", b"no gzip", 0, "cannot be read after line 0"),
        ("a.parquet", b"no parquet", 0, "cannot be read as parquet"),
        ("a.txt", b"", 0, "accepted are .json"),
    ],
)
def test_damage_comes_in_its_place(tmp_path: Path, name: str, content: bytes, whole: int, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    *good, last = rows(path)
    assert len(good) == whole
    assert isinstance(last, Unreadable)
    assert last.message.startswith(str(path))
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(last.message)


def test_lines_after_a_broken_one_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n{\n{"a": 2}\n')
    assert [number for number, _ in raw_rows(path)] == [1, 3, 4]
    first, broken, last = rows(path)
    assert (first, last) == ({"a": 1}, {"a": 2})
    assert isinstance(broken, Unreadable)
