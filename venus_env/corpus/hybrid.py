"""Reciprocal rank fusion: join rankings by rank alone, since their scores share no scale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """How rankings are joined. ``docs/retrieval.md`` has the measurements; they are flat around the defaults.

    Attributes:
        words: Say of BM25.
        meaning: Say of the vectors. Exact words decide more than topical likeness in fact questions.
        title: Say of a page whose title is the whole query; of one that the query names among other words, the share
            that its title makes up. Who types a title wants that page first: it outweighs all rankings together.
        rest: Say of a second BM25 search, for the words that the best page of the first does not hold. It finds the
            other page of a question about two.
        depth: Pages of each ranking that are looked at.
        constant: Added to every rank. Cormack et al. (2009) use 60 for fusing many systems; with few, a smaller one
            lets the top ranks decide.
    """

    words: float = 1.0
    meaning: float = 0.5
    title: float = 3.0
    rest: float = 0.3
    depth: int = 100
    constant: float = 10.0


DEFAULT_WEIGHTS = Weights()


def fuse(
    rankings: Sequence[tuple[Sequence[int], float]],
    shares: Mapping[int, float] | None = None,
    constant: float = DEFAULT_WEIGHTS.constant,
) -> list[tuple[int, float]]:
    """Join rankings of the same things into one.

    Args:
        rankings: Each best first, without repetition, and its weight.
        shares: Further say of single things, in first places of a ranking with weight one: 0.5 is half of one.
        constant: Added to every rank.

    Returns:
        Things with their fused score, best first; the smaller number wins a tie.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking, weight in rankings:
        for rank, thing in enumerate(ranking if weight else (), start=1):
            scores[thing] += weight / (constant + rank)
    for thing, share in (shares or {}).items():
        if share:
            scores[thing] += share / (constant + 1)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
