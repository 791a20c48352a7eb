import asyncio
import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from venus_env.corpus import Corpus, Hit, LocalCorpus, Page, Passage, open_corpus
from venus_env.corpus.batching import BatchingCorpus
from venus_env.corpus.build import build_index
from venus_env.corpus.errors import CorpusError


class Echo:
    """A corpus that finds one passage per query, named after it, and keeps a record of what it was asked."""

    content_hash = "echo"

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], int]] = []
        self.cancelled = 0

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.calls.append((list(queries), k))
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if "boom" in queries:
            raise OSError("disk on fire")
        if "stop" in queries:
            raise asyncio.CancelledError
        if "short" in queries:
            return []
        return [[Hit(Passage(query, f"https://x/{query}", query, query), float(k))] for query in queries]

    async def page(self, url: str) -> Page | None:
        return None

    def unigram_counts(self) -> Mapping[str, int]:
        return {"echo": 1}


def ids(results: list[list[Hit]]) -> list[list[str]]:
    return [[hit.passage.id for hit in hits] for hits in results]


async def test_searches_of_one_turn_are_one_call() -> None:
    inner = Echo()
    corpus = BatchingCorpus(inner)
    found = await asyncio.gather(*(corpus.search([f"q{i}", "all"], 3) for i in range(10)))
    assert [ids(results) for results in found] == [[[f"q{i}"], ["all"]] for i in range(10)]
    assert inner.calls == [(["q0", "all", *(f"q{i}" for i in range(1, 10))], 3)]  # what all ask is searched once
    found[0][1].append(found[0][0][0])
    assert len(found[1][1]) == 1  # results are not shared


async def test_another_k_or_turn_is_another_call() -> None:
    inner = Echo()
    corpus = BatchingCorpus(inner)
    await asyncio.gather(corpus.search(["a"], 1), corpus.search(["b"], 2), corpus.search(["c"], 1))
    await corpus.search(["a"], 1)
    assert sorted(inner.calls) == [(["a"], 1), (["a", "c"], 1), (["b"], 2)]


async def test_batches_are_bounded_but_calls_are_never_split() -> None:
    inner = Echo()
    corpus = BatchingCorpus(inner, max_batch=3)
    queries = [["a", "b"], ["c"], ["d"], list("efghi"), ["j"], []]
    found = await asyncio.gather(*(corpus.search(wanted, 1) for wanted in queries))
    assert [ids(results) for results in found] == [[[query] for query in wanted] for wanted in queries]
    assert [call for call, _ in inner.calls] == [["a", "b", "c"], ["d"], list("efghi"), ["j"]]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [("boom", OSError, "on fire"), ("short", ValueError, "zip"), ("stop", CorpusError, "was cancelled")],
)
async def test_an_error_reaches_exactly_the_callers_of_its_batch(
    query: str, error: type[Exception], message: str
) -> None:
    corpus = BatchingCorpus(Echo(), max_batch=2)
    outcomes = await asyncio.gather(
        *(corpus.search([wanted], 1) for wanted in ("a", "b", query, "c", "d")), return_exceptions=True
    )
    assert [isinstance(outcome, BaseException) for outcome in outcomes] == [False, False, True, True, False]
    for outcome in outcomes[2:4]:
        assert isinstance(outcome, error)
        assert message in str(outcome)
    assert ids(await corpus.search(["a"], 1)) == [["a"]]


@pytest.mark.parametrize("delay", [0, 0.005])
async def test_a_cancelled_caller_leaves_the_others_alone(delay: float) -> None:
    inner = Echo()
    corpus = BatchingCorpus(inner)
    kept, dropped = (asyncio.create_task(corpus.search([query], 1)) for query in ("kept", "dropped"))
    await asyncio.sleep(delay)
    dropped.cancel()
    assert ids(await kept) == [["kept"]]
    assert dropped.cancelled()
    assert inner.cancelled == 0


async def test_a_search_that_nobody_waits_for_is_cancelled() -> None:
    inner = Echo()
    corpus = BatchingCorpus(inner)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.003):
            await asyncio.gather(corpus.search(["a"], 1), corpus.search(["b"], 1))
    await asyncio.sleep(0)
    assert (len(inner.calls), inner.cancelled) == (1, 1)
    abandoned = asyncio.create_task(corpus.search(["a"], 1))
    await asyncio.sleep(0)  # it has joined a batch, which has not left yet
    abandoned.cancel()
    await asyncio.sleep(0.001)
    assert len(inner.calls) == 1


def test_works_from_several_event_loops() -> None:
    corpus = BatchingCorpus(Echo())

    async def many(name: str) -> list[list[list[str]]]:
        return [ids(results) for results in await asyncio.gather(*(corpus.search([f"{name}{i}"], 1) for i in range(9)))]

    with ThreadPoolExecutor(4) as pool:
        for name, found in zip("abcdefgh", pool.map(lambda name: asyncio.run(many(name)), "abcdefgh"), strict=True):
            assert found == [[[f"{name}{i}"]] for i in range(9)]


@pytest.fixture
def local(write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path) -> LocalCorpus:
    build_index(write(rows), tmp_path / "index")
    return LocalCorpus(tmp_path / "index")


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda corpus: pickle.loads(pickle.dumps(corpus))])
async def test_all_else_passes_through_copies_included(local: LocalCorpus, duplicate: Any) -> None:
    corpus = duplicate(BatchingCorpus(local, max_batch=7))
    assert isinstance(corpus, Corpus)
    assert corpus.max_batch == 7
    assert corpus.content_hash == local.content_hash
    assert corpus.unigram_counts() == local.unigram_counts()
    assert list(corpus.passages()) == list(local.passages())
    assert corpus.directory == local.directory
    assert await corpus.page("https://venus.wiki/Lyon") == await local.page("https://venus.wiki/Lyon")
    assert await corpus.search(["silk"], 2) == await local.search(["silk"], 2)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        corpus.nothing  # noqa: B018


async def test_bad_arguments_are_named(local: LocalCorpus) -> None:
    with pytest.raises(ValueError, match="max_batch must be at least 1"):
        BatchingCorpus(local, 0)
    with pytest.raises(ValueError, match="k must be at least 1"):
        await BatchingCorpus(local).search(["a"], 0)


def test_a_query_finds_the_same_alone_and_in_company(write: Callable[..., Path], tmp_path: Path) -> None:
    embedded = open_corpus("embedded")
    assert isinstance(embedded, LocalCorpus)
    passages = list(embedded.passages())
    # Long pages: their passages fill the top, so that the search has to look deeper.
    long = [
        {"id": f"{i}", "url": f"https://x/{i % 40}", "title": f"Page {i % 40}", "text": passage.text}
        for i, passage in enumerate(passages[:1200])
    ]
    build_index(write(long), tmp_path / "long")
    queries = [" ".join(passage.text.split()[:9]) for passage in passages[:1200:12]]
    queries += [passages[0].title, "", "the", "日本", "?"]
    for corpus in (embedded, LocalCorpus(tmp_path / "long")):
        together = corpus.search_now(queries, 10)
        assert together == [corpus.search_now([query], 10)[0] for query in queries]
        assert together[::-1] == corpus.search_now(queries[::-1], 10)
