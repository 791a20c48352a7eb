from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from venus_env.corpus import Corpus, LocalCorpus
from venus_env.corpus.build import build_index
from venus_env.corpus.errors import CorpusDamaged


@pytest.fixture
def corpus(write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path) -> LocalCorpus:
    build_index(write(rows), tmp_path / "index")
    return LocalCorpus(tmp_path / "index")


async def test_one_hit_per_page_with_its_best_passage(corpus: LocalCorpus) -> None:
    assert isinstance(corpus, Corpus)
    first, second, third = await corpus.search(["silk weavers of Lyon", "capital of Norway", "who found radium"], 10)
    for hits in (first, second, third):
        urls = [hit.passage.url for hit in hits]
        assert len(urls) == len(set(urls))
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
    assert first[0].passage.id == "lyon-2"
    assert second[0].passage.id == "oslo"
    assert third[0].passage.id == "curie"
    assert [len(hits) for hits in await corpus.search(["city", "city"], 2)] == [2, 2]


async def test_a_whole_title_comes_first(corpus: LocalCorpus) -> None:
    hits = (await corpus.search(["sao paulo"], 3))[0]
    assert hits[0].passage.title == "São Paulo"


async def test_pages_are_found_by_any_spelling(corpus: LocalCorpus) -> None:
    page = await corpus.page("http://venus.wiki/São_Paulo")
    assert page is not None
    assert page.url == "https://venus.wiki/S%C3%A3o_Paulo"
    lyon = await corpus.page("https://venus.wiki/Lyon")
    assert lyon is not None
    assert [passage.id for passage in lyon.passages] == ["lyon", "lyon-2"]
    assert await corpus.page("https://venus.wiki/Paris") is None


async def test_odd_queries(corpus: LocalCorpus) -> None:
    assert await corpus.search([], 5) == []
    assert await corpus.search([""], 5) == [[]]
    for hits in await corpus.search(['"', "x" * 5000, "日本", "a\ufffdb", "the"], 3):
        assert len(hits) <= 3
    with pytest.raises(ValueError, match="k must be at least 1"):
        await corpus.search(["a"], 0)


def test_long_pages_do_not_crowd_out_others(write: Callable[..., Path], tmp_path: Path) -> None:
    crowd = [
        {"id": f"long{i}", "url": "https://a/long", "title": "Long", "text": "zebra zebra zebra"} for i in range(900)
    ]
    others = [
        {"id": f"page{i}", "url": f"https://a/{i}", "title": f"Page {i}", "text": "one zebra among many other words"}
        for i in range(20)
    ]
    build_index(write(crowd + others), tmp_path / "index")
    hits = LocalCorpus(tmp_path / "index").search_now(["zebra"], 10)[0]
    assert len(hits) == 10


def test_threads_and_loops_agree(wiki7k_index: Path) -> None:
    corpus = LocalCorpus(wiki7k_index)
    queries = ["director of Ed Wood", "capital of Norway", "Princeton High School", "queen of Lotharingia"]
    alone = [corpus.search_now([query], 10)[0] for query in queries]
    assert corpus.search_now(queries, 10) == alone
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: asyncio.run(corpus.search(queries, 10)), range(8)):
            assert result == alone


def _search_in_child(corpus: LocalCorpus, query: str, results: Any) -> None:
    results.put([hit.passage.id for hit in corpus.search_now([query], 5)[0]])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_works_in_forked_and_spawned_processes(wiki7k_index: Path, method: str) -> None:
    corpus = LocalCorpus(wiki7k_index)
    expected = [hit.passage.id for hit in corpus.search_now(["director of Ed Wood"], 5)[0]]
    context = multiprocessing.get_context(method)
    results = context.Queue()
    process = context.Process(target=_search_in_child, args=(corpus, "director of Ed Wood", results))
    process.start()
    assert results.get(timeout=60) == expected
    process.join(timeout=60)
    assert process.exitcode == 0


def test_opening_is_fast(wiki7k_index: Path) -> None:
    LocalCorpus(wiki7k_index)
    durations = []
    for _ in range(3):
        started = time.perf_counter()
        LocalCorpus(wiki7k_index)
        durations.append(time.perf_counter() - started)
    assert min(durations) < 0.5  # 0.01 s on an idle machine; importing the rankers alone would take more


def test_rebuild_under_an_open_index_is_named(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "index"
    build_index(write(rows), out)
    before_first_search, warm = LocalCorpus(out), LocalCorpus(out)
    expected = warm.search_now(["Lyon"], 3)
    rows[1]["text"] = "Oslo has trams."
    build_index(write(rows), out)
    assert warm.search_now(["Lyon"], 3) == expected  # its files stay mapped
    with pytest.raises(CorpusDamaged, match="open it anew"):
        before_first_search.search_now(["Lyon"], 3)
    with pytest.raises(CorpusDamaged, match="open it anew"):
        before_first_search.unigram_counts()
