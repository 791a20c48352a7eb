"""Information gain: how much closer to the answer each turn brought the belief (method 4.1, 4.3).

``S_t`` is the mean log-probability of the answer's tokens given everything up to the end of turn t (``S_0``: the
question alone). The gain of turn t is ``S_t - S_(t-1)``; between unscored turns it telescopes, so the gains of an
episode always add up to the last scored ``S`` minus the first one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

GainKind = Literal["log_prob_diff", "prob_diff"]
"""``log_prob_diff``: difference of mean log-probabilities; ``prob_diff``: of their exponentials (IGPO v1)."""

GainTurns = Literal["every", "visit"]
"""Which turns are scored: every tool turn, or only those that read a page (browse-aware)."""


def best_score(scores: Sequence[float]) -> float:
    """The score of the best accepted answer; NaN entries are ignored, NaN if nothing is left.

    Taken at each boundary by itself: which answer is the best may change on the way, and a gain is then the difference
    between the best answer after and the best one before.
    """
    usable = [float(score) for score in scores if not math.isnan(score)]  # NumPy's floats are no JSON
    return max(usable) if usable else math.nan


def turn_gains(scores: Sequence[float | None], kind: GainKind = "log_prob_diff") -> list[float | None]:
    """Gains of all turns from the scores at all boundaries.

    Args:
        scores: ``S`` at boundary 0 (question only) and after each turn; None where the turn is not scored.
        kind: How two scores are compared.

    Returns:
        One entry per turn: its gain against the last usable boundary; 0.0 where the score is -inf or NaN (the baseline
        is then kept); None where the turn is not scored. If boundary 0 is unusable nothing can be scored: all None.
    """
    tracker = GainTracker(kind)
    gains: list[float | None] = []
    for index, score in enumerate(scores):
        if index == 0:
            tracker.start(score)
        else:
            gains.append(tracker.gain(score))
    return gains


def information_gain(scores: Sequence[float], kind: GainKind = "log_prob_diff") -> list[float]:
    """Gains where every boundary is scored; empty if boundary 0 is unusable (the reference's rule)."""
    return [gain for gain in turn_gains(scores, kind) if gain is not None]


class GainTracker:
    """Turns a stream of scores into gains, one turn at a time.

    Args:
        kind: How two scores are compared.
    """

    def __init__(self, kind: GainKind = "log_prob_diff") -> None:
        if kind not in ("log_prob_diff", "prob_diff"):
            raise ValueError(f"gain kind {kind!r} is unknown; use 'log_prob_diff' or 'prob_diff'")
        self._kind = kind
        self._baseline: float | None = None

    @property
    def baseline(self) -> float | None:
        """The score that the next gain is measured against; None if nothing can be scored."""
        return self._baseline

    def start(self, score: float | None) -> None:
        """Set boundary 0. An unusable score (None, NaN, -inf) leaves the whole episode unscored."""
        self._baseline = score if score is not None and math.isfinite(score) else None

    def gain(self, score: float | None) -> float | None:
        """Gain of the turn that led to ``score``; semantics as in :func:`turn_gains`."""
        if self._baseline is None or score is None:
            return None
        if not math.isfinite(score):
            return 0.0
        before, self._baseline = self._baseline, score
        if self._kind == "prob_diff":
            return math.exp(score) - math.exp(before)
        return score - before
