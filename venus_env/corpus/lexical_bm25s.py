"""BM25 by bm25s: every score is computed when the index is built, and kept in memory-mapped arrays."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from venus_env.corpus.lexical import inverse_document_frequency

# Robertson's usual values; on HotpotQA leads recall moves by less than .02 anywhere near them.
_K1 = 1.5
_B = 0.75


class Bm25sWriter:
    """Collects the terms of all passages in memory; ``close`` writes the index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._vocabulary: dict[str, int] = {}
        # Lists share the integer objects of the vocabulary, so a token costs one pointer.
        self._rows: list[list[int]] = []

    def add(self, terms: Sequence[str]) -> None:
        """Append one passage, given its terms."""
        vocabulary = self._vocabulary
        self._rows.append([vocabulary.setdefault(term, len(vocabulary)) for term in terms])

    def close(self) -> None:
        """Write the index."""
        import bm25s

        # The library sets its own logger to DEBUG, which would pass any handler of the application.
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        # The backend is named: what is installed besides must not change a ranking.
        index = bm25s.BM25(k1=_K1, b=_B, method="lucene", backend="numpy", csc_backend="numpy")
        index.index((self._rows, self._vocabulary), show_progress=False)
        index.save(self._folder)


class Bm25sIndex:
    """Adds up the scores of a query's terms for every row."""

    def __init__(self, folder: Path) -> None:
        import bm25s

        self._index = bm25s.BM25.load(folder, mmap=True, load_corpus=False)

    def rarity(self, terms: Sequence[str]) -> npt.NDArray[np.float64]:
        """Inverse document frequency of terms (Lucene's form); the highest there is for a term that no row has."""
        starts = self._index.scores["indptr"]
        ids = [self._index.vocab_dict.get(term, -1) for term in terms]
        held = [int(starts[one + 1] - starts[one]) if one >= 0 else 0 for one in ids]
        return inverse_document_frequency(held, int(self._index.scores["num_docs"]))

    def rank_terms(self, terms: Sequence[str], limit: int) -> npt.NDArray[np.int64]:
        """Return up to ``limit`` rows that hold one of the terms, best first, the earlier row on ties."""
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
