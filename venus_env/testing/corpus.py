"""``check_corpus``: does a corpus keep the contract of :class:`venus_env.corpus.Corpus`?"""

from __future__ import annotations

import asyncio
import copy
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from venus_env.corpus.document import Corpus, Hit, Page, Passage
from venus_env.envs.portal import portal
from venus_env.testing.examples import HOSTILE_TEXTS
from venus_env.testing.report import Doubtful, Failed, NotApplicable, Report, expect, require_object, short

_K = 5
_QUERIES = 6
_UNKNOWN_URLS = ("https://unknown.invalid/no-such-page", "no address", "")
_METHODS = ("search", "page", "unigram_counts")


def check_corpus(corpus: Corpus, queries: Sequence[str] | None = None, *, timeout_s: float = 60.0) -> Report:
    """Check a corpus; it is searched some 40 times.

    Args:
        corpus: The corpus.
        queries: Searches that should find something; frequent words and titles of the corpus by default.
        timeout_s: Seconds after which a single check is given up as failed.

    Raises:
        TypeError: ``corpus`` is a class.
    """
    require_object(corpus, "check_corpus")
    report = Report(f"corpus {type(corpus).__name__}", timeout_s)
    portal().run(_CorpusChecks(corpus, queries).run(report))
    return report


class _CorpusChecks:
    def __init__(self, corpus: Corpus, queries: Sequence[str] | None) -> None:
        self.corpus = corpus
        self.queries = list(queries or ())
        self.alone: list[list[Hit]] = []  # hits of each query, searched by itself

    async def run(self, report: Report) -> None:
        await report.run_async("methods", self.methods)
        await report.run_async("content hash", self.content_hash, needs=("methods",))
        await report.run_async("unigram counts", self.unigram_counts, needs=("methods",))
        await report.run_async("queries", self.find_queries, needs=("methods",))
        await report.run_async("search", self.search, needs=("queries",))
        for check in (self.one_hit_per_page, self.scores, self.batching, self.determinism, self.concurrency):
            await report.run_async(check.__name__.replace("_", " "), check, needs=("search",))
        await report.run_async("pages", self.pages, needs=("search",))
        await report.run_async("k", self.smaller_k, needs=("search",))
        await report.run_async("no queries", self.no_queries, needs=("search",))
        for label, text in HOSTILE_TEXTS.items():
            if label != "lone surrogate":  # tools clean it away
                await report.run_async(f"hostile query: {label}", self.hostile, text, needs=("search",))
        await report.run_async("unknown url", self.unknown_url, needs=("methods",))
        copies = ("content hash", "search")
        await report.run_async("pickle", self.copied, _pickled, "pickled", needs=copies)
        await report.run_async("deepcopy", self.copied, copy.deepcopy, "deep-copied", needs=copies)

    def methods(self) -> None:
        missing = [name for name in _METHODS if not callable(getattr(self.corpus, name, None))]
        expect(not missing, f"{type(self.corpus).__name__} lacks {', '.join(missing)}; see venus_env.corpus.Corpus")

    def content_hash(self) -> None:
        value = getattr(self.corpus, "content_hash", None)
        expect(isinstance(value, str) and bool(value), f"expected a text that is not empty, got {short(value)}")
        again = self.corpus.content_hash
        expect(again == value, f"expected the same hash twice, got {value!r} and {again!r}; hash the passages only")

    def unigram_counts(self) -> None:
        counts = self.corpus.unigram_counts()
        expect(
            isinstance(counts, Mapping) and bool(counts), f"expected a mapping with words in it, got {short(counts)}"
        )
        for word, count in counts.items():
            expect(
                isinstance(word, str) and word == word.lower() and len(word.split()) == 1,
                f"{word!r} is no lower-cased word; split texts with venus_env.corpus.text.words",
            )
            expect(
                isinstance(count, int) and not isinstance(count, bool) and count > 0,
                f"the count of {word!r} must be a positive int, got {count!r}; leave out words that do not occur",
            )

    async def find_queries(self) -> str:
        """Without queries of the user: the most frequent longer words, then titles of what they find."""
        if not self.queries:
            counts = self.corpus.unigram_counts()
            words = [word for word in counts if len(word) > 4] or list(counts)
            self.queries = sorted(words, key=lambda word: (-counts[word], word))[: _QUERIES // 2]
            expect(bool(self.queries), "there is no word to search for; give queries (queries=[…], --query)")
            for hits in await self.corpus.search(self.queries, 1):
                self.queries += [hit.passage.title for hit in hits]
        return ", ".join(map(short, self.queries))

    async def search(self) -> None:
        for query in self.queries:
            self.alone += _shaped(await self.corpus.search([query], _K), [query], _K)
        if not any(self.alone):
            raise Doubtful(f"none of {self.queries} found anything; give queries that do (queries=[…], --query)")

    def one_hit_per_page(self) -> None:
        self._require_hits()
        for query, hits in zip(self.queries, self.alone, strict=True):
            urls = [hit.passage.url for hit in hits]
            twice = [url for url in urls if urls.count(url) > 1]
            expect(not twice, f"query {query!r} gave {twice[:1]} more than once; keep the best passage of each page")

    def scores(self) -> None:
        self._require_hits()
        for query, hits in zip(self.queries, self.alone, strict=True):
            scores = [hit.score for hit in hits]
            expect(all(map(math.isfinite, scores)), f"query {query!r}: scores must be finite, got {scores}")
            expect(
                scores == sorted(scores, reverse=True), f"query {query!r}: expected the best hit first, got {scores}"
            )

    async def batching(self) -> None:
        together = _shaped(await self.corpus.search(self.queries, _K), self.queries, _K)
        self._same(together, "searched together with others", "answer each query by itself, in the order given")

    async def determinism(self) -> None:
        again = [(await self.corpus.search([query], _K))[0] for query in self.queries]
        self._same(again, "searched a second time", "break ties by position in the corpus")

    async def concurrency(self) -> None:
        results = await asyncio.gather(*(self.corpus.search([query], _K) for query in self.queries))
        self._same([result[0] for result in results], "searched while others are", "share no buffers between searches")

    async def smaller_k(self) -> None:
        best = _shaped(await self.corpus.search(self.queries, 1), self.queries, 1)
        for query, hits, top in zip(self.queries, self.alone, best, strict=True):
            got, wanted = _ids(top), _ids(hits[:1])
            expect(
                got == wanted, f"query {query!r}: k=1 gave {got}, but k={_K} starts with {wanted}; cut the same ranking"
            )

    async def no_queries(self) -> None:
        result = await self.corpus.search([], _K)
        expect(result == [], f"search([], {_K}) must give [], got {short(result)}")

    async def hostile(self, text: str) -> None:
        _shaped(await self.corpus.search([text], _K), [text], _K)

    async def pages(self) -> None:
        self._require_hits()
        for hit in (hit for hits in self.alone for hit in hits):
            url = hit.passage.url
            page = await self.corpus.page(url)
            if not isinstance(page, Page):
                raise Failed(f"a search found {url!r}, but page({url!r}) gave {short(page)}; return its Page")
            expect(page.url == url, f"page({url!r}) has url {page.url!r}")
            expect(isinstance(page.passages, tuple) and bool(page.passages), f"page({url!r}) has no tuple of passages")
            for passage in page.passages:
                expect(isinstance(passage, Passage), f"page({url!r}) holds {short(passage)}; expected Passage")
                expect(passage.url == url, f"page({url!r}) holds a passage of {passage.url!r}; group passages by url")
                expect(
                    bool(passage.text.strip()), f"page({url!r}): the text of passage {passage.id!r} is blank; drop it"
                )
            expect(
                hit.passage in page.passages, f"passage {hit.passage.id!r} was found, but is not on its page {url!r}"
            )

    async def unknown_url(self) -> None:
        for url in _UNKNOWN_URLS:
            page = await self.corpus.page(url)
            expect(page is None, f"page({url!r}) must be None where there is no such page, got {short(page)}")

    async def copied(self, copier: Callable[[Any], Any], how: str) -> None:
        try:
            other = copier(self.corpus)
        except Exception as error:
            raise Failed(
                f"it cannot be {how} ({type(error).__name__}: {error}), which copies of an environment need; define "
                "__reduce__ so that a copy opens the same files again"
            ) from error
        expect(
            other.content_hash == self.corpus.content_hash,
            f"a {how} corpus has hash {other.content_hash!r} instead of {self.corpus.content_hash!r}",
        )
        again = [(await other.search([query], _K))[0] for query in self.queries[:1]]
        self._same(again, f"searched in a {how} corpus", "open the same files again")

    def _require_hits(self) -> None:
        if not any(self.alone):
            raise NotApplicable("no search found anything")

    def _same(self, results: Sequence[Sequence[Hit]], how: str, advice: str) -> None:
        for query, hits, expected in zip(self.queries, results, self.alone, strict=False):
            got, wanted = _ids(hits), _ids(expected)
            expect(got == wanted, f"query {query!r} {how} gave {got} instead of {wanted}; {advice}")


def _ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


def _pickled(corpus: Any) -> Any:
    return pickle.loads(pickle.dumps(corpus))


def _shaped(results: Any, queries: Sequence[str], k: int) -> list[list[Hit]]:
    """Check the form of what a search gave."""
    what = f"search({short(list(queries))}, {k})"
    expect(
        isinstance(results, list) and len(results) == len(queries),
        f"{what} must give a list with one list of hits per query, got {short(results)}",
    )
    for hits in results:
        expect(
            isinstance(hits, list) and all(isinstance(hit, Hit) for hit in hits),
            f"{what} must give lists of Hit (empty where nothing was found), got {short(hits)}",
        )
        expect(len(hits) <= k, f"{what} gave {len(hits)} hits for a query; at most {k} were asked for")
    return list(results)
