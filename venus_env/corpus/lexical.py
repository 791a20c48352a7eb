"""BM25 over stemmed words (bm25s), memory-mapped."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from venus_env.corpus.text import content_stems

_FOLDER = "lexical"
# Robertson's usual values; on HotpotQA leads recall moves by less than .02 anywhere near them.
_K1 = 1.5
_B = 0.75


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

    def rank(self, query: str, limit: int) -> npt.NDArray[np.int64]:
        """Return up to ``limit`` rows that share a word with the query, best first, the earlier row on ties."""
        tokens = self._index.get_tokens_ids(content_stems(query))
        if not tokens:
            return np.empty(0, dtype=np.int64)
        scores: npt.NDArray[np.float32] = self._index.get_scores_from_ids(tokens)
        matched = np.flatnonzero(scores > 0)
        if len(matched) > limit:
            # Keep every row that ties with the last one, so that ties are cut by row and not by partition order.
            last = np.partition(scores[matched], -limit)[-limit]
            matched = matched[scores[matched] >= last]
        return matched[np.argsort(-scores[matched], kind="stable")][:limit]
