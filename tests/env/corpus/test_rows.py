from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from venus_env.corpus.errors import CorpusError
from venus_env.corpus.rows import parse_record, passage_record, read_passages


def test_reads_plain_and_gzipped_alike(write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path) -> None:
    plain = write(rows)
    packed = tmp_path / "pages.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    passages = list(read_passages(plain))
    assert passages == list(read_passages(packed))
    assert [passage.id for passage in passages] == ["lyon", "oslo", "curie", "lyon-2", "saopaulo"]
    assert passages[0].date == "2020-01-02"
    assert passages[1].date is None
    assert [parse_record(passage_record(passage)) for passage in passages] == passages


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"text": " "}, r"line 2: 'text' must be a non-blank string"),
        ({"url": None}, r"line 2: 'url' must be .* a passage needs id, url, title, text"),
        ({"title": ["Oslo"]}, r"line 2: 'title' must be"),
        ({"date": 2020}, r"line 2: 'date' must be a string or absent"),
        ({"id": "lyon"}, r"line 2: id 'lyon' was used before"),
    ],
)
def test_bad_row_is_named(
    write: Callable[..., Path], rows: list[dict[str, Any]], change: dict[str, Any], expected: str
) -> None:
    rows[1] |= change
    with pytest.raises(CorpusError, match=expected):
        list(read_passages(write(rows)))


def test_bad_files_are_named(write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no passage"):
        list(read_passages(write([])))
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id": \n')
    with pytest.raises(CorpusError, match="line 1: not JSON"):
        list(read_passages(broken))
    truncated = tmp_path / "cut.jsonl.gz"
    truncated.write_bytes(gzip.compress(write(rows).read_bytes())[:-10])
    with pytest.raises(CorpusError, match=r"cut\.jsonl\.gz: cannot be read"):
        list(read_passages(truncated))
    table = tmp_path / "table.csv"
    table.write_text("id,url\n")
    with pytest.raises(CorpusError, match=r"ends in \.jsonl or"):
        list(read_passages(table))


def test_lone_surrogates_do_not_reach_the_index(write: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"id": "a", "url": "u", "title": "t", "text": "x\\ud800y"}\n')
    assert next(read_passages(path)).text == "x\ufffdy"
