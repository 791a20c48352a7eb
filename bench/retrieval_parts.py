"""Single rankings in ways that the package does not use, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import bm25s
import numpy as np
import numpy.typing as npt

from venus_env.corpus.document import Passage
from venus_env.corpus.encoders_static import WordLlama
from venus_env.corpus.text import content_words, stem, words

Rank = Callable[[str], Sequence[int]]
Floats = npt.NDArray[np.float32]


def bm25_variants(passages: Sequence[Passage], limit: int) -> Iterator[tuple[str, Rank]]:
    """BM25 with other parameters, other words, and titles that count more."""
    usual = {"k1": 1.5, "b": 0.75, "titles": 1, "stems": True, "function_words": False}
    changes: dict[str, dict[str, object]] = {
        "BM25 as used": {},
        "BM25, title twice": {"titles": 2},
        "BM25, title three times": {"titles": 3},
        "BM25, k1 0.9, b 0.4": {"k1": 0.9, "b": 0.4},
        "BM25, k1 1.2": {"k1": 1.2},
        "BM25, b 0.5": {"b": 0.5},
        "BM25, no stemming": {"stems": False},
        "BM25, function words kept": {"function_words": True},
    }
    for name, change in changes.items():
        yield name, _bm25(passages, limit, **(usual | change))  # type: ignore[arg-type]


def _bm25(
    passages: Sequence[Passage], limit: int, *, k1: float, b: float, titles: int, stems: bool, function_words: bool
) -> Rank:
    def terms(found: list[str]) -> list[str]:
        return stem(found) if stems else found

    vocabulary: dict[str, int] = {}
    rows = [
        [vocabulary.setdefault(term, len(vocabulary)) for term in terms(words(one.title) * titles + words(one.text))]
        for one in passages
    ]
    index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy", csc_backend="numpy")
    index.index((rows, vocabulary), show_progress=False)

    def rank(query: str) -> Sequence[int]:
        asked = words(query)
        ids = index.get_tokens_ids(terms(asked if function_words else content_words(asked)))
        return _best(index.get_scores_from_ids(ids), limit) if ids else []

    return rank


def vector_variants(passages: Sequence[Passage], limit: int) -> Iterator[tuple[str, Rank]]:
    """WordLlama with other weights of tokens, without common directions, and with titles that count more."""
    encoder = WordLlama()
    for titles in (1, 2, 3):
        tokens = [
            np.asarray(ids, dtype=np.int64)
            for ids in encoder.batch_tokens([f"{one.title}\n" * titles + one.text for one in passages])
        ]
        rarity = _rarity(tokens, len(encoder.table))
        weights = {"rarity as used": rarity}
        if titles == 1:
            weights |= {"no weights": np.ones_like(rarity), "SIF 0.001": _sif(tokens, len(rarity), 1e-3)}
        for name, weight in weights.items():
            table = np.stack([encoder.pool(ids, weight) for ids in tokens])
            times = f", title {titles} times" if titles > 1 else ""
            yield f"vectors, {name}{times}", _nearest(encoder, weight, table, limit)
            if titles == 1 and name == "rarity as used":
                for removed in (1, 3):
                    yield f"vectors, less {removed} common directions", _nearest(encoder, weight, table, limit, removed)


def _rarity(tokens: Sequence[npt.NDArray[np.int64]], size: int) -> Floats:
    held = np.zeros(size)
    for ids in tokens:
        held[np.unique(ids)] += 1
    return np.log((len(tokens) + 1) / (held + 1)).astype(np.float32) + np.float32(1e-3)


def _sif(tokens: Sequence[npt.NDArray[np.int64]], size: int, smooth: float) -> Floats:
    counts = np.bincount(np.concatenate(tokens), minlength=size)
    weights: Floats = (smooth / (smooth + counts / counts.sum())).astype(np.float32)
    return weights


def _nearest(encoder: WordLlama, weights: Floats, table: Floats, limit: int, removed: int = 0) -> Rank:
    common = np.linalg.svd(table[:: max(len(table) // 3000, 1)], full_matrices=False)[2][:removed]

    def clean(vectors: Floats) -> Floats:
        rest = vectors - vectors @ common.T @ common
        unit: Floats = rest / np.maximum(np.linalg.norm(rest, axis=-1, keepdims=True), 1e-9)
        return unit

    cleaned = clean(table)

    def rank(query: str) -> Sequence[int]:
        vector = encoder.pool(np.asarray(encoder.tokens(query), dtype=np.int64), weights)
        return _best(cleaned @ clean(vector), limit)

    return rank


def _best(scores: Floats, limit: int) -> Sequence[int]:
    found: list[int] = np.argsort(-scores, kind="stable")[: 2 * limit].tolist()
    return found
