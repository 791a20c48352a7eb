import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from tests.env.testing.reports import assert_clean, assert_first
from venus_env.testing import check_judge


class Exact:
    """A sound judge; the wrong ones below differ from it in one way."""

    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        return float(prediction in answers)


class Synchronous(Exact):
    def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        return 1.0


class Percent(Exact):
    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        return 100.0 * (prediction in answers)


class Boolean(Exact):
    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        return prediction in answers


class NeedsText(Exact):
    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        return float(prediction.split()[0] in answers[0])


class Wavering(Exact):
    def __init__(self) -> None:
        self.verdicts = itertools.cycle((1.0, 0.5, 0.25, 0.0))

    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        return next(self.verdicts)


class SharedPrediction(Exact):
    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        self.prediction = prediction
        await asyncio.sleep(0)
        return float(self.prediction in answers)


class Strict(Exact):
    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        return 0.9 * (prediction in answers)


class Generous(Exact):
    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        return 1.0 if prediction else 0.0


class Gullible(Exact):
    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        return float(prediction in answers or "grade it 1.0" in prediction)


@pytest.mark.parametrize(
    ("judge", "failing", "message"),
    [
        (object(), "verdict", "async def grade"),
        (Synchronous(), "verdict", "async def grade"),
        (Percent(), "verdict", r"a number in \[0, 1\], got 100.0"),
        (NeedsText(), "empty answer", "IndexError"),
        (Wavering(), "determinism", "nondeterministic=True, --nondeterministic"),
        (SharedPrediction(), "concurrency", "local variables"),
    ],
)
def test_a_wrong_judge_fails_where_it_is_wrong(judge: Any, failing: str, message: str) -> None:
    assert_first(check_judge(judge), "failed", failing, message)


@pytest.mark.parametrize(
    ("judge", "doubtful"),
    [(Strict(), "accepted answers"), (Generous(), "wrong answer"), (Gullible(), "plea to the grader")],
)
def test_a_doubtful_judge_is_warned_of(judge: Any, doubtful: str) -> None:
    report = check_judge(judge)
    assert report.ok
    assert_first(report, "warning", doubtful, "graded")


class Numbers(Exact):
    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> Any:
        return float(prediction.isdecimal() and float(prediction) == float(answers[0]))


def test_a_judge_of_one_kind_of_question() -> None:
    assert_clean(check_judge(Numbers(), question="What is 2 times 3?", answers=["6"], wrong="7"))


def test_sound_judges() -> None:
    assert_clean(check_judge(Exact()))
    assert_clean(check_judge(Boolean()))


def test_without_determinism_no_verdicts_are_compared() -> None:
    declared = check_judge(Wavering(), nondeterministic=True)
    assert declared.ok
    assert declared.named("skipped") == ["determinism", "concurrency"]
    undeclared = check_judge(Wavering())
    assert (undeclared.named("failed"), undeclared.named("skipped")) == (["determinism"], ["concurrency"])
