"""Judges: who grades a final answer where matching words is not enough."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Judge(Protocol):
    """Grades the final answer of an episode; its verdict is both the outcome reward and the score.

    A judge that cannot tell (its server is down, its reply makes no sense) raises: the episode then ends as
    ``judge_failure``, which is no verdict on the policy. It never returns 0.0 for want of an opinion.
    """

    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> float:
        """Grade one answer.

        Args:
            question: What was asked.
            answers: Accepted answers, at least one.
            prediction: The policy's final answer, stripped; possibly empty.

        Returns:
            A verdict in [0, 1]; True and False will do.
        """
        ...


def check_verdict(verdict: object) -> float:
    """Return what a judge said as a float.

    Raises:
        TypeError: It is no number.
        ValueError: It is not in [0, 1].
    """
    if not isinstance(verdict, Real | np.bool_):
        raise TypeError(f"a judge returns a number in [0, 1], got {verdict!r}")
    number = float(verdict)
    if not 0 <= number <= 1:  # nan is not either
        raise ValueError(f"a judge returns a number in [0, 1], got {verdict!r}")
    return number
