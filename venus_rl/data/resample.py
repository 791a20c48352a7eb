"""Stage ``resample``: long trajectories are seen more often, and the copies of one are kept apart."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np


def copies(turns: int, thresholds: Sequence[int], multipliers: Sequence[int]) -> int:
    """How often a trajectory of that many turns is written.

    Args:
        turns: Its turns.
        thresholds: Ascending; a bucket reaches up to its threshold inclusive, the last one has no end.
        multipliers: Copies per bucket, one more than there are thresholds.
    """
    return multipliers[bisect_left(thresholds, turns)]


def bucket(turns: int, thresholds: Sequence[int]) -> str:
    """Name of the bucket that a number of turns falls into, such as ``0-50`` or ``>100``."""
    place = bisect_left(thresholds, turns)
    if place == len(thresholds):
        return f">{thresholds[-1]}" if thresholds else "all"
    return f"{thresholds[place - 1] + 1 if place else 0}-{thresholds[place]}"


def spread(counts: Sequence[int], seed: int) -> list[tuple[int, int]]:
    """Order rows so that the copies of one lie evenly apart, and rows lie at random.

    A row with k copies gets the places ``(offset + copy) / k`` of the whole, with an offset drawn from ``[0, 1)``.
    Training that reads the file in order therefore sees the copies in k different parts of an epoch, where a plain
    shuffle now and then puts two of them into one batch.

    Args:
        counts: Copies of each row; 0 leaves a row out.
        seed: Fixes the order.

    Returns:
        ``(row, copy)`` in the order to write.
    """
    drawn = random.Random(seed)
    places = []
    for row, count in enumerate(counts):
        offset = drawn.random()
        places += [((offset + copy) / count, row, copy) for copy in range(count)]
    return [(row, copy) for _, row, copy in sorted(places)]


def consecutive(counts: Sequence[int], shuffle_seed: int | None = None) -> list[tuple[int, int]]:
    """Order rows as the reference does: copies one after the other, or shuffled as pandas does it.

    Args:
        counts: Copies of each row.
        shuffle_seed: Shuffle like ``DataFrame.sample(frac=1, random_state=shuffle_seed)``.
    """
    order = [(row, copy) for row, count in enumerate(counts) for copy in range(count)]
    if shuffle_seed is None:
        return order
    return [order[place] for place in np.random.RandomState(shuffle_seed).permutation(len(order))]
