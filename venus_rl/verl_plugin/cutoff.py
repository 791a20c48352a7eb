"""The end of waiting for stragglers: counts the finished episodes of a step over all workers (method 1.4).

Upstream counts per worker, so that which episode is cut short depends on how many workers there are. One Ray actor
counts for the whole batch here. Which episodes are late depends on the clock of the machine: a run with a cut-off is
not repeatable, which is why there is none by default.
"""

from __future__ import annotations

from typing import Any

import ray

_NAME = "venus_cutoff"


class FinishedEpisodes:
    """Counts the finished episodes of one step at a time (a Ray actor).

    Args:
        episodes: Episodes of a step.
        share: Share of them that has to be finished before the others are asked for their answers.
    """

    def __init__(self, episodes: int, share: float) -> None:
        self._needed = share * episodes
        self._step = 0
        self._finished = 0

    def finished(self, step: int) -> None:
        """Count an episode of ``step``."""
        if step > self._step:
            self._step, self._finished = step, 0
        self._finished += step == self._step

    def reached(self, step: int) -> bool:
        """Whether enough episodes of ``step`` are finished."""
        return step == self._step and self._finished >= self._needed


def start(episodes: int, share: float) -> Any:
    """Start the counter; it lives as long as the handle that is returned."""
    return ray.remote(FinishedEpisodes).options(name=_NAME, num_cpus=0).remote(episodes, share)


def counter() -> Any:
    """Handle of the counter, from any process of the run."""
    return ray.get_actor(_NAME)
