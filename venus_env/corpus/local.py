"""A corpus on this machine: an index folder opened for search and reading."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from venus_env.corpus.build import COUNTS
from venus_env.corpus.dense import DenseIndex, encoder_name
from venus_env.corpus.document import Hit, Page, Passage
from venus_env.corpus.errors import CorpusDamaged
from venus_env.corpus.hybrid import fuse
from venus_env.corpus.lexical import LexicalIndex
from venus_env.corpus.manifest import Manifest, check_files, read_manifest, rebuild_hint
from venus_env.corpus.store import PassageStore

# Ranks of either list below this depth cannot change the top ten of the fusion by more than ties.
_DEPTH = 100
# Say of: pages whose title is the query; BM25; vectors. Exact words decide more than topical likeness in fact questions
# (equal say costs .02 recall@10 on HotpotQA), and who types a whole title wants that page first.
_WEIGHTS = (1.0, 1.0, 0.5)


class LocalCorpus:
    """Hybrid search (whole titles, BM25 and static vectors, joined by rank) and page lookup over one index folder.

    Opening checks the files and maps them; the rankers load on the first search. Safe to share between threads and
    event loops. :func:`venus_env.corpus.open_corpus` is the way to get one.

    Attributes:
        directory: The index folder.
        manifest: What it holds.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        full_check: bool | None = None,
        reopen: Callable[[], LocalCorpus] | None = None,
    ) -> None:
        """Open an index.

        Args:
            directory: The index folder.
            full_check: Re-hash every file; by default only where that is quick.
            reopen: How a copy (unpickled, deep-copied) opens its corpus; by default from the same folder. Picklable.

        Raises:
            CorpusError: There is no index.
            CorpusDamaged: The index is damaged, or other software versions made it.
        """
        self.directory = Path(directory).resolve()
        self.manifest = _open_manifest(self.directory, full_check)
        self._data = self.directory / self.manifest.data
        self._store = PassageStore(self._data)
        self._loading = threading.Lock()
        self._rankers: tuple[LexicalIndex, DenseIndex] | None = None
        self._reopen = reopen or partial(LocalCorpus, self.directory)

    def __reduce__(self) -> tuple[Callable[..., LocalCorpus], tuple[str, Callable[[], LocalCorpus]]]:
        return _reopened, (self.content_hash, self._reopen)

    def __repr__(self) -> str:
        return f"LocalCorpus({str(self.directory)!r}, pages={self.manifest.pages})"

    def __len__(self) -> int:
        return self.manifest.pages

    @property
    def content_hash(self) -> str:
        """Hash of the passages."""
        return self.manifest.content_hash

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most ``k`` hits per query, best first, at most one per page, one list per query in order."""
        return await asyncio.to_thread(self.search_now, queries, k)

    def search_now(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Do what :meth:`search` does, on the calling thread."""
        if k < 1:
            raise ValueError(f"search: k must be at least 1, got {k}")
        if not queries:
            return []
        lexical, dense = self._ranked_by()
        vectors = dense.embed(queries)
        depth = max(_DEPTH, 5 * k)
        return [
            self._fused(
                k,
                self._store.titled(query),
                self._pages(lexical.rank(query, depth), partial(lexical.rank, query), depth),
                self._pages(rows, partial(dense.rank, vector), depth),
            )
            for query, vector, rows in zip(queries, vectors, dense.rank_batch(vectors, depth), strict=True)
        ]

    def passages(self) -> Iterator[Passage]:
        """All passages, in file order."""
        return self._store.passages()

    async def page(self, url: str) -> Page | None:
        """Return the page at ``url``, or None when the corpus has no such page."""
        return self._store.page(url)

    def unigram_counts(self) -> Mapping[str, int]:
        """Count of every lower-cased word in titles and texts, as :func:`venus_env.corpus.text.words` splits them."""
        return self._counts

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        with self._late_read():
            counts: dict[str, int] = json.loads((self._data / COUNTS).read_text(encoding="utf-8"))
        return counts

    def _ranked_by(self) -> tuple[LexicalIndex, DenseIndex]:
        with self._loading:
            if self._rankers is None:
                with self._late_read():
                    self._rankers = LexicalIndex(self._data), DenseIndex(self._data)
            return self._rankers

    @contextmanager
    def _late_read(self) -> Iterator[None]:
        """Name what it means when a file that was sound at opening is gone later."""
        try:
            yield
        except (OSError, RuntimeError) as error:  # faiss reports unreadable files as RuntimeError
            raise CorpusDamaged(
                f"{self._data}: removed or changed since it was opened, perhaps by a rebuild; open it anew ({error})"
            ) from error

    def _pages(
        self, rows: npt.NDArray[np.int64], rank: Callable[[int], npt.NDArray[np.int64]], depth: int
    ) -> dict[int, int]:
        """Rank pages by their best passage: page number to row, best first, ``depth`` pages if there are so many.

        Args:
            rows: The best ``depth`` rows.
            rank: Gives the best rows to any other limit.
            depth: Pages wanted.
        """
        limit = depth
        while True:
            best: dict[int, int] = {}
            for page, row in zip(self._store.page_of[rows].tolist(), rows.tolist(), strict=True):
                best.setdefault(page, row)
            # Long pages fill the top with their passages: look deeper, unless there is nothing deeper.
            if len(best) >= depth or len(rows) < limit or limit >= len(self._store):
                return best
            limit *= 4
            rows = rank(limit)

    def _fused(self, k: int, titled: list[int], lexical: dict[int, int], dense: dict[int, int]) -> list[Hit]:
        fused = fuse([titled, list(lexical), list(dense)], _WEIGHTS)[:k]
        place_lexical, place_dense = ({page: place for place, page in enumerate(found)} for found in (lexical, dense))
        hits = []
        for page, score in fused:
            # Shown is the passage found by the ranking that likes the page better.
            by_words = place_lexical.get(page, len(self)) <= place_dense.get(page, len(self))
            preferred, other = (lexical, dense) if by_words else (dense, lexical)
            row = preferred.get(page, other.get(page, -1))
            hits.append(Hit(self._store.passage(row if row >= 0 else self._store.first_row(page)), score))
        return hits


def _open_manifest(directory: Path, full_check: bool | None) -> Manifest:
    manifest = read_manifest(directory)
    if manifest.encoder != encoder_name():
        raise CorpusDamaged(
            f"{directory}: stale, built with {manifest.encoder!r} while {encoder_name()!r} is installed; "
            f"{rebuild_hint(directory)}"
        )
    try:
        check_files(directory, manifest, full_check)
    except CorpusDamaged:
        # A rebuild may have replaced the index between the two reads; then the new manifest is the one to check.
        replaced = read_manifest(directory)
        if replaced == manifest:
            raise
        check_files(directory, replaced, full_check)
        return replaced
    return manifest


def _reopened(content_hash: str, reopen: Callable[[], LocalCorpus]) -> LocalCorpus:
    corpus = reopen()
    if corpus.content_hash != content_hash:
        raise CorpusDamaged(
            f"{corpus.directory}: stale, the corpus changed since this copy was pickled "
            f"({content_hash[:12]} then, {corpus.content_hash[:12]} now); open it anew"
        )
    return corpus
