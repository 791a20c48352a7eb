"""Reciprocal rank fusion: join rankings by rank alone, since their scores share no scale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

# Cormack et al. (2009) use 60 for fusing many systems; with two, a smaller constant lets the top ranks decide.
RANK_CONSTANT = 10


def fuse(rankings: Sequence[Sequence[int]], weights: Sequence[float]) -> list[tuple[int, float]]:
    """Join rankings of the same things into one.

    Args:
        rankings: Each best first, without repetition.
        weights: Say of each ranking.

    Returns:
        Things with their fused score, best first; the smaller number wins a tie.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, thing in enumerate(ranking, start=1):
            scores[thing] += weight / (RANK_CONSTANT + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
