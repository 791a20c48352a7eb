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

from venus_env.corpus.build import COUNTS, indexed_text
from venus_env.corpus.dense import DenseIndex
from venus_env.corpus.document import Hit, Page, Passage
from venus_env.corpus.encoders import encoder_name, open_encoder
from venus_env.corpus.errors import CorpusDamaged
from venus_env.corpus.hybrid import DEFAULT_WEIGHTS, Weights, fuse
from venus_env.corpus.lexical import LexicalIndex, kind_of, lexical_name, open_lexical, query_terms
from venus_env.corpus.manifest import Manifest, check_files, read_manifest, rebuild_hint
from venus_env.corpus.store import PassageStore
from venus_env.corpus.titles import named_pages

# Of the best passage, what is read to learn which words of the query it holds; passages are seldom longer.
_READ_CHARACTERS = 50_000


class LocalCorpus:
    """Hybrid search (titles, BM25 and vectors, joined by rank) and page lookup over one index folder.

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
        weights: Weights = DEFAULT_WEIGHTS,
        reopen: Callable[[], LocalCorpus] | None = None,
    ) -> None:
        """Open an index.

        Args:
            directory: The index folder.
            full_check: Re-hash every file; by default only where that is quick.
            weights: How rankings are joined.
            reopen: How a copy (unpickled, deep-copied) opens its corpus; by default from the same folder. Picklable.

        Raises:
            CorpusError: There is no index, or its lexical library is not installed.
            CorpusDamaged: The index is damaged, or other software versions made it.
        """
        self.directory = Path(directory).resolve()
        self.manifest = _open_manifest(self.directory, full_check)
        self._data = self.directory / self.manifest.data
        self._store = PassageStore(self._data)
        self._loading = threading.Lock()
        self._rankers: tuple[LexicalIndex, DenseIndex] | None = None
        self._weights = weights
        self._reopen = reopen or partial(LocalCorpus, self.directory, weights=weights)

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
        depth = max(self._weights.depth, 5 * k)
        return [
            self._fused(query, k, depth, lexical, self._pages(rows, partial(dense.rank, vector), depth))
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
                open_encoder(self.manifest.encoder_spec)  # a model that cannot be loaded is no damage of the index
                with self._late_read():
                    lexical = open_lexical(kind_of(self.manifest.lexical), self._data)
                    self._rankers = lexical, DenseIndex(self._data, self.manifest.encoder_spec)
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

    def _fused(self, query: str, k: int, depth: int, lexical: LexicalIndex, dense: dict[int, int]) -> list[Hit]:
        terms, weights = query_terms(query), self._weights
        by_words = self._lexical_pages(terms, depth, lexical)
        named = {page: weights.title * share for page, share in named_pages(query, self._store, lexical).items()}
        rankings = [(list(by_words), weights.words), (list(dense), weights.meaning)]
        fused = fuse(rankings, named, weights.constant)
        places = [{page: place for place, page in enumerate(found)} for found, _ in rankings]

        def row(page: int) -> int:
            """Passage to show: the one found by the ranking that likes the page better."""
            liked = places[0].get(page, len(self)) <= places[1].get(page, len(self))
            for found in (by_words, dense) if liked else (dense, by_words):
                if page in found:
                    return found[page]
            return rest.get(page, self._store.first_row(page))

        rest: dict[int, int] = {}
        if fused and weights.rest:
            best = indexed_text(self._store.passage(row(fused[0][0])))[:_READ_CHARACTERS]
            said = set(query_terms(best))
            open_terms = [term for term in terms if term not in said]
            if open_terms and len(open_terms) < len(terms):
                rest = self._lexical_pages(open_terms, depth, lexical)
                fused = fuse([*rankings, (list(rest), weights.rest)], named, weights.constant)
        return [Hit(self._store.passage(row(page)), score) for page, score in fused[:k]]

    def _lexical_pages(self, terms: Sequence[str], depth: int, lexical: LexicalIndex) -> dict[int, int]:
        return self._pages(lexical.rank_terms(terms, depth), partial(lexical.rank_terms, terms), depth)


def _open_manifest(directory: Path, full_check: bool | None) -> Manifest:
    manifest = read_manifest(directory)
    installed = {"encoder": encoder_name(manifest.encoder_spec), "lexical": lexical_name(kind_of(manifest.lexical))}
    for part, name in installed.items():
        made_with = getattr(manifest, part)
        if made_with != name:
            raise CorpusDamaged(
                f"{directory}: stale, built with {part} {made_with!r} while {name!r} is installed; "
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
