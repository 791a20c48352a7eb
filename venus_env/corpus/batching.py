"""Searches of many episodes, made at the same time, as one search."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from venus_env.corpus.document import Corpus, Hit, Page
from venus_env.corpus.errors import CorpusError

_Loop = asyncio.AbstractEventLoop


class BatchingCorpus:
    """A corpus that joins all searches made in the same turn of an event loop into one call of another corpus.

    What a caller gets is what the other corpus gives, and nobody waits for a batch to fill up: it leaves as soon as the
    event loop has run everything that was ready. Each query of a batch is searched once, however many callers have it.
    An error reaches exactly the callers of the batch, and a caller that is cancelled leaves the others alone. Usable
    from several event loops at once; each has batches of its own.

    Whatever else the other corpus offers is passed through.

    Args:
        corpus: The corpus to search.
        max_batch: Most queries to gather in one call. A single search of more is passed on as it is.
    """

    def __init__(self, corpus: Corpus, max_batch: int = 256) -> None:
        if max_batch < 1:
            raise ValueError(f"BatchingCorpus: max_batch must be at least 1, got {max_batch}")
        self.corpus = corpus
        self.max_batch = max_batch
        self._open: WeakKeyDictionary[_Loop, dict[int, _Batch]] = WeakKeyDictionary()  # per loop, by k

    def __reduce__(self) -> tuple[type[BatchingCorpus], tuple[Corpus, int]]:
        return BatchingCorpus, (self.corpus, self.max_batch)

    def __repr__(self) -> str:
        return f"BatchingCorpus({self.corpus!r}, max_batch={self.max_batch})"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.corpus, name)

    @property
    def content_hash(self) -> str:
        """Hash of the passages."""
        return self.corpus.content_hash

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most ``k`` hits per query, best first, at most one per page, one list per query in order."""
        loop = asyncio.get_running_loop()
        open_here = self._open.setdefault(loop, {})
        batch = open_here.get(k)
        if batch is None or batch.size + len(queries) > self.max_batch:
            # A batch that is full has been scheduled before; it just takes no more callers.
            batch = open_here[k] = _Batch(self.corpus, k)
            loop.call_soon(self._leave, loop, batch)
        return await batch.join(queries)

    async def page(self, url: str) -> Page | None:
        """Return the page at ``url``, or None when the corpus has no such page."""
        return await self.corpus.page(url)

    def unigram_counts(self) -> Mapping[str, int]:
        """Count of every lower-cased word in the corpus."""
        return self.corpus.unigram_counts()

    def _leave(self, loop: _Loop, batch: _Batch) -> None:
        open_here = self._open[loop]
        if open_here.get(batch.k) is batch:
            del open_here[batch.k]
        batch.start()


class _Batch:
    """Searches of one turn of one event loop.

    Attributes:
        k: Hits per query.
        size: Queries so far.
    """

    def __init__(self, corpus: Corpus, k: int) -> None:
        self.k = k
        self.size = 0
        self._corpus = corpus
        self._callers: dict[asyncio.Future[list[list[Hit]]], Sequence[str]] = {}
        self._search: asyncio.Task[None] | None = None

    async def join(self, queries: Sequence[str]) -> list[list[Hit]]:
        """Add queries and wait for their hits."""
        result: asyncio.Future[list[list[Hit]]] = asyncio.get_running_loop().create_future()
        self._callers[result] = queries
        self.size += len(queries)
        try:
            return await result
        finally:
            self._callers.pop(result, None)
            if not self._callers and self._search is not None:
                self._search.cancel()  # nobody is left to hear of it; does nothing to a search that is over

    def start(self) -> None:
        """Search, unless every caller has been cancelled."""
        if self._callers:
            self._search = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        unique = list(dict.fromkeys(query for queries in self._callers.values() for query in queries))
        try:
            hits = dict(zip(unique, await self._corpus.search(unique, self.k), strict=True))
        except (Exception, asyncio.CancelledError) as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            for result in self._waiting():
                # Callers have not been cancelled themselves, and must not look as if they had.
                result.set_exception(CorpusError("the search was cancelled") if cancelled else error)
            if cancelled:
                raise
        else:
            for result in self._waiting():
                result.set_result([list(hits[query]) for query in self._callers[result]])

    def _waiting(self) -> list[asyncio.Future[list[list[Hit]]]]:
        return [result for result in self._callers if not result.done()]
