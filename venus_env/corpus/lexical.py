"""BM25 over stemmed words (bm25s), memory-mapped."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from venus_env.corpus.text import TERMS_VERSION, content_words, index_terms, words

_FOLDER = "lexical"
# Robertson's usual values; on HotpotQA leads recall moves by less than .02 anywhere near them.
_K1 = 1.5
_B = 0.75


def lexical_name() -> str:
    """Library, format and way to make terms; an index made with others is stale."""
    release = ".".join(importlib.metadata.version("bm25s").split(".")[:2])
    return f"bm25s {release}, terms {TERMS_VERSION}"


class LexicalWriter:
    """Collect the stems of passages in row order; ``close`` writes the index."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / _FOLDER
        self._vocabulary: dict[str, int] = {}
        # Lists share the integer objects of the vocabulary, so a token costs one pointer.
        self._rows: list[list[int]] = []

    def add(self, stems: Sequence[str]) -> None:
        """Append one passage, given its stems."""
        vocabulary = self._vocabulary
        self._rows.append([vocabulary.setdefault(stem, len(vocabulary)) for stem in stems])

    def close(self) -> None:
        """Write the index."""
        import bm25s

        # The library sets its own logger to DEBUG, which would pass any handler of the application.
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        # The backend is named: what is installed besides must not change a ranking.
        index = bm25s.BM25(k1=_K1, b=_B, method="lucene", backend="numpy", csc_backend="numpy")
        index.index((self._rows, self._vocabulary), show_progress=False)
        index.save(self._folder)


class LexicalIndex:
    """Ranks rows by BM25."""

    def __init__(self, directory: Path) -> None:
        import bm25s

        self._index = bm25s.BM25.load(directory / _FOLDER, mmap=True, load_corpus=False)

    def rarity(self, terms: Sequence[str]) -> npt.NDArray[np.float64]:
        """Inverse document frequency of terms (Lucene's form); the highest there is for a term that no row has."""
        starts, rows = self._index.scores["indptr"], int(self._index.scores["num_docs"])
        ids = [self._index.vocab_dict.get(term, -1) for term in terms]
        held = np.array([int(starts[one + 1] - starts[one]) if one >= 0 else 0 for one in ids], dtype=np.float64)
        return np.log1p((rows - held + 0.5) / (held + 0.5))

    def rank(self, query: str, limit: int) -> npt.NDArray[np.int64]:
        """Return up to ``limit`` rows that share a topic word with the query, best first, the earlier row on ties."""
        return self.rank_terms(query_terms(query), limit)

    def rank_terms(self, terms: Sequence[str], limit: int) -> npt.NDArray[np.int64]:
        """Do what :meth:`rank` does for terms that :func:`query_terms` gave."""
        tokens = self._index.get_tokens_ids(list(terms))
        if not tokens:
            return np.empty(0, dtype=np.int64)
        scores: npt.NDArray[np.float32] = self._index.get_scores_from_ids(tokens)
        matched = np.flatnonzero(scores > 0)
        if len(matched) > limit:
            # Keep every row that ties with the last one, so that ties are cut by row and not by partition order.
            last = np.partition(scores[matched], -limit)[-limit]
            matched = matched[scores[matched] >= last]
        return matched[np.argsort(-scores[matched], kind="stable")][:limit]


def query_terms(query: str) -> list[str]:
    """Terms by which a query searches the index."""
    return index_terms(content_words(words(query)))
