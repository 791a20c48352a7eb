"""Queries and inputs from the edge of what is sensible: defined, and the same every time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.env.corpus.conftest import ROWS
from venus_env.corpus import CorpusDamaged, LocalCorpus, open_corpus
from venus_env.corpus.build import build_index
from venus_env.corpus.manifest import MANIFEST


@pytest.fixture(scope="module", params=["bm25s", "tantivy"])
def corpus(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> LocalCorpus:
    folder = tmp_path_factory.mktemp("edges")
    odd = [{"id": "odd", "url": "https://venus.wiki/Odd", "title": "🙂", "text": "party 🎉\x00 with\ttabs \U0001f600"}]
    (folder / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*ROWS, *odd]))
    build_index(folder / "pages.jsonl", folder / "index", lexical=request.param)
    return LocalCorpus(folder / "index")


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "...", "🙂🎉", "\x00", "\x00\x00 \x07", "()[]{}\\\"'"])
def test_queries_without_words_find_nothing(corpus: LocalCorpus, query: str) -> None:
    assert corpus.search_now([query], 5) == [[]]


@pytest.mark.parametrize("query", ["silk " * 2000, "x" * 10_000, "silk\x00weavers", "the and of", "日" * 999])
def test_odd_queries_are_answered_alike_alone_and_in_a_batch(corpus: LocalCorpus, query: str) -> None:
    (alone,) = corpus.search_now([query], 3)
    batch = corpus.search_now([query, "", query], 3)
    assert batch == [alone, [], alone]
    assert len(alone) <= 3


def test_long_and_dirty_queries_still_find(corpus: LocalCorpus) -> None:
    for query in ("silk weavers " * 800, "silk\x00weavers 🙂"):
        assert corpus.search_now([query], 1)[0][0].passage.id == "lyon-2"


def test_nul_bytes_do_not_reach_a_page(corpus: LocalCorpus) -> None:
    texts = [passage.text for passage in corpus.passages() if passage.id == "odd"]
    assert texts == ["party 🎉\ufffd with\ttabs 😀"]


async def test_urls_that_are_none_find_no_page(corpus: LocalCorpus) -> None:
    for url in ("", "\x00", "https://x/\ud800", "http://[", "x" * 10_000, "🙂", "javascript:alert(1)"):
        assert await corpus.page(url) is None


def test_an_index_of_another_version_is_refused_and_a_cached_one_rebuilt(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, cache = write(rows), tmp_path / "cache"
    cached = open_corpus(source, cache)
    assert isinstance(cached, LocalCorpus)
    manifest = cached.directory / MANIFEST
    manifest.write_text(manifest.read_text().replace("venus.index/2", "venus.index/1"))
    with pytest.raises(CorpusDamaged, match=r"format 'venus.index/1', this version reads 'venus.index/2'; build it"):
        open_corpus(cached.directory)
    assert open_corpus(source, cache).content_hash == cached.content_hash
    assert "rebuilding a cached index" in caplog.text
