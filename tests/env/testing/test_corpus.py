import copy
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.env.testing.reports import assert_clean, assert_first
from venus_env.corpus import open_corpus
from venus_env.corpus.document import Hit, Page, Passage
from venus_env.corpus.text import words
from venus_env.testing import check_corpus

TEXTS = {
    "https://x/lund": ("Lund", ["Lund is a city in southern Sweden.", "Its university is old."]),
    "https://x/malmo": ("Malmö", ["Malmö is a city opposite Copenhagen.", "A bridge leads there."]),
    "https://x/elbe": ("Elbe", ["The Elbe is a river. No city is named after it."]),
}
QUERIES = ["city", "Elbe river city", "university"]


class Small:
    """A sound corpus in memory; the wrong ones below differ from it in one way."""

    def __init__(self) -> None:
        self.pages = {
            url: Page(
                url, title, tuple(Passage(f"{title}-{number}", url, title, text) for number, text in enumerate(texts))
            )
            for url, (title, texts) in TEXTS.items()
        }

    @property
    def content_hash(self) -> str:
        return "small"

    def one(self, query: str, k: int) -> list[Hit]:
        wanted = set(words(query))
        hits = []
        for page in self.pages.values():
            best = max((len(wanted & set(words(p.text))), -number) for number, p in enumerate(page.passages))
            if best[0]:
                hits.append(Hit(page.passages[-best[1]], float(best[0])))
        return sorted(hits, key=lambda hit: -hit.score)[:k]

    async def search(self, queries: Sequence[str], k: int) -> Any:
        return [self.one(query, k) for query in queries]

    async def page(self, url: str) -> Any:
        return self.pages.get(url)

    def unigram_counts(self) -> Mapping[Any, Any]:
        found = [word for page in self.pages.values() for passage in page.passages for word in words(passage.text)]
        return {word: found.count(word) for word in found}


class NoPages(Small):
    page = None  # type: ignore[assignment]


class NoHash(Small):
    @property
    def content_hash(self) -> Any:
        return None


class HashOfTheMoment(Small):
    @property
    def content_hash(self) -> str:
        return str(random.random())


class UpperCase(Small):
    def unigram_counts(self) -> Mapping[str, int]:
        return {"Lund": 1}


class ZeroCounts(Small):
    def unigram_counts(self) -> Mapping[str, int]:
        return {"lund": 0}


class OneListForAll(Small):
    async def search(self, queries: Sequence[str], k: int) -> Any:
        return self.one(queries[0], k) if queries else []


class BarePassages(Small):
    async def search(self, queries: Sequence[str], k: int) -> Any:
        return [[hit.passage for hit in self.one(query, k)] for query in queries]


class TooMany(Small):
    async def search(self, queries: Sequence[str], k: int) -> Any:
        return [self.one(query, k) * k for query in queries]


class TwoOfAPage(Small):
    def one(self, query: str, k: int) -> list[Hit]:
        hits = super().one(query, k)
        return (hits[:1] + hits)[:k]


class WorstFirst(Small):
    def one(self, query: str, k: int) -> list[Hit]:
        return super().one(query, k)[::-1]


class NotANumber(Small):
    def one(self, query: str, k: int) -> list[Hit]:
        return [Hit(hit.passage, float("nan")) for hit in super().one(query, k)]


class MixesUpQueries(Small):
    async def search(self, queries: Sequence[str], k: int) -> Any:
        return [self.one(query, k) for query in reversed(queries)]


class Moody(Small):
    calls = 0

    def one(self, query: str, k: int) -> list[Hit]:
        if query == "university":
            Moody.calls += 1
        return [] if Moody.calls > 2 else super().one(query, k)


class OtherRankingForOne(Small):
    def one(self, query: str, k: int) -> list[Hit]:
        hits = super().one(query, 5)
        return hits[-1:] if k == 1 else hits[:k]


class NeedsAQuery(Small):
    async def search(self, queries: Sequence[str], k: int) -> Any:
        return [[]] if not queries else await super().search(queries, k)


class BlankIsAnError(Small):
    def one(self, query: str, k: int) -> list[Hit]:
        if not query.strip():
            raise ValueError("blank query")
        return super().one(query, k)


class LostPage(Small):
    async def page(self, url: str) -> Any:
        return None


class StrayPassage(Small):
    async def page(self, url: str) -> Any:
        page = self.pages.get(url)
        return page and Page(url, page.title, (*page.passages, Passage("z", "https://x/other", "z", "z")))


class BlankPassage(Small):
    async def page(self, url: str) -> Any:
        page = self.pages.get(url)
        return page and Page(url, page.title, (*page.passages, Passage("z", url, "z", " ")))


class OtherPassage(Small):
    async def page(self, url: str) -> Any:
        page = self.pages.get(url)
        return page and Page(url, page.title, (Passage("z", url, "z", "z"),))


class PageForEverything(Small):
    async def page(self, url: str) -> Any:
        return self.pages.get(url) or next(iter(self.pages.values()))


class Unpicklable(Small):
    def __init__(self) -> None:
        super().__init__()
        self.key = lambda hit: hit.score


class CopiesBadly(Small):
    name = "small"

    @property
    def content_hash(self) -> str:
        return self.name

    def __deepcopy__(self, memo: Any) -> Any:
        other = copy.copy(self)
        other.name = "copy"
        return other


@pytest.mark.parametrize(
    ("corpus", "failing", "message"),
    [
        (NoPages(), "methods", "lacks page"),
        (NoHash(), "content hash", "got None"),
        (HashOfTheMoment(), "content hash", "the same hash twice"),
        (UpperCase(), "unigram counts", "'Lund' is no lower-cased word"),
        (ZeroCounts(), "unigram counts", "positive int, got 0"),
        (OneListForAll(), "search", "one list of hits per query"),
        (BarePassages(), "search", "lists of Hit"),
        (TooMany(), "search", "at most 5 were asked for"),
        (TwoOfAPage(), "one hit per page", "more than once"),
        (WorstFirst(), "scores", "best hit first"),
        (NotANumber(), "scores", "finite"),
        (MixesUpQueries(), "batching", "in the order given"),
        (Moody(), "determinism", "a second time"),
        (OtherRankingForOne(), "k", "cut the same ranking"),
        (NeedsAQuery(), "no queries", "must give"),
        (BlankIsAnError(), "hostile query: blank", "ValueError: blank query"),
        (LostPage(), "pages", "return its Page"),
        (StrayPassage(), "pages", "group passages by url"),
        (BlankPassage(), "pages", "is blank"),
        (OtherPassage(), "pages", "not on its page"),
        (PageForEverything(), "unknown url", "must be None"),
        (Unpicklable(), "pickle", "cannot be pickled"),
        (CopiesBadly(), "deepcopy", "has hash 'copy' instead of 'small'"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Small) else None,
)
def test_a_wrong_corpus_fails_where_it_is_wrong(corpus: Any, failing: str, message: str) -> None:
    assert_first(check_corpus(corpus, QUERIES), "failed", failing, message)


def test_nothing_found_is_doubtful() -> None:
    report = check_corpus(Small(), ["zebra"])
    assert report.ok
    assert_first(report, "warning", "search", "queries=.*--query")
    assert report.named("skipped") == ["one hit per page", "scores", "pages"]


def test_sound_corpora() -> None:
    assert_clean(check_corpus(Small()))
    assert_clean(check_corpus(open_corpus("embedded")))
