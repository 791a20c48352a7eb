import asyncio
import itertools
import math
import random
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.env.testing.reports import assert_clean, assert_first
from venus_env.beliefs.base import score_incrementally
from venus_env.beliefs.lexical import LexicalBelief
from venus_env.corpus import open_corpus
from venus_env.protocol.turns import Message
from venus_env.testing import check_belief


class CountingState:
    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = answers
        self.text = ""

    async def update(self, new_messages: Sequence[Message]) -> Any:
        self.text += "".join(message["content"] for message in new_messages)
        return [-1.0 / (1 + self.text.count(answer)) for answer in self.answers]


class Counting:
    """A sound belief: how often has the answer been mentioned? The wrong ones below differ in one way."""

    state: Any = CountingState

    def open(self, question: str, answers: Sequence[str]) -> Any:
        return self.state(answers)

    async def score(self, trajectory: Any, boundaries: Sequence[int], answers: Sequence[str]) -> Any:
        return await score_incrementally(self, trajectory, boundaries, answers)


def with_state(**methods: Any) -> Any:
    """A belief whose states differ from the sound ones in some methods."""
    return type("Wrong", (Counting,), {"state": type("State", (CountingState,), methods)})()


def with_belief(**methods: Any) -> Any:
    return type("Wrong", (Counting,), methods)()


async def best_only(self: Any, new: Any) -> Any:
    return [max(await CountingState.update(self, new))]


async def probabilities(self: Any, new: Any) -> Any:
    return [-value for value in await CountingState.update(self, new)]


async def not_a_number(self: Any, new: Any) -> Any:
    return [float("nan") for _ in await CountingState.update(self, new)]


def synchronous(self: Any, new: Any) -> Any:
    return [-1.0, -1.0]


async def consuming(self: Any, new: Any) -> Any:
    scores = await CountingState.update(self, new)
    new[0]["content"] = ""
    return scores


async def noisy(self: Any, new: Any) -> Any:
    return [value - random.random() for value in await CountingState.update(self, new)]


async def last_message_only(self: Any, new: Any) -> Any:
    return await CountingState.update(self, new[-1:])


async def best_answer_first(self: Any, new: Any) -> Any:
    return sorted(await CountingState.update(self, new), reverse=True)


async def relative_to_the_others(self: Any, new: Any) -> Any:
    scores = await CountingState.update(self, new)
    return [value - len(scores) for value in scores]


async def blind(self: Any, new: Any) -> Any:
    return [-1.0 for _ in self.answers]


async def certain_of_nothing(self: Any, new: Any) -> Any:
    return [-math.inf for _ in self.answers]


async def contrary(self: Any, new: Any) -> Any:
    return [-1.0 - value for value in await CountingState.update(self, new)]


async def waits(self: Any, new: Any) -> Any:
    """The shared text is written before, and read after, somebody else had a turn."""
    Shared.text += "".join(message["content"] for message in new)
    await asyncio.sleep(0)
    return [-1.0 / (1 + Shared.text.count(answer)) for answer in self.answers]


class Shared:
    text = ""


def open_shared(self: Any, question: str, answers: Sequence[str]) -> Any:
    Shared.text = ""  # fine as long as one episode ends before the next begins
    return type("State", (CountingState,), {"update": waits})(answers)


class GatherTrouble(CountingState):
    busy = 0

    async def update(self, new_messages: Sequence[Message]) -> Any:
        GatherTrouble.busy += 1
        await asyncio.sleep(0)
        alone, GatherTrouble.busy = GatherTrouble.busy == 1, GatherTrouble.busy - 1
        scores = await super().update(new_messages)
        return scores if alone else [value - 1 for value in scores]


def slow_open(self: Any, question: str, answers: Sequence[str], opened: Any = itertools.count(1)) -> Any:  # noqa: B008
    if next(opened) == 3:  # the one that is timed, after one for each conversation
        time.sleep(0.25)
    return CountingState(answers)


async def score_less(self: Any, trajectory: Any, boundaries: Sequence[int], answers: Sequence[str]) -> Any:
    return (await Counting.score(self, trajectory, boundaries, answers))[1:]


async def score_late(self: Any, trajectory: Any, boundaries: Sequence[int], answers: Sequence[str]) -> Any:
    return await Counting.score(self, trajectory, [boundary + 1 for boundary in boundaries], answers)


@pytest.mark.parametrize(
    ("belief", "failing", "message"),
    [
        (with_belief(open=None), "open", "no method 'open'"),
        (with_belief(score=None), "open", "no method 'score'"),
        (with_state(update=synchronous), "open", "async def update"),
        (with_state(update=best_only), "update", "one log-probability for each of 2 answers"),
        (with_state(update=probabilities), "update", "mean of log p"),
        (with_state(update=not_a_number), "update", "got nan"),
        (with_state(update=consuming), "messages unchanged", "copy them first"),
        (with_state(update=noisy), "determinism", "sample nothing"),
        (with_state(update=last_message_only), "several turns at once", "one after the other"),
        (with_belief(open=open_shared), "interleaving", "in the state that open"),
        (with_belief(state=GatherTrouble), "concurrency", "in the state that open"),
        (with_state(update=best_answer_first), "answer order", "in their order"),
        (with_state(update=relative_to_the_others), "answer order", "score each by itself"),
        (with_belief(score=score_less), "score", "one list per boundary"),
        (with_belief(score=score_late), "score", "number of leading messages"),
    ],
)
def test_a_wrong_belief_fails_where_it_is_wrong(belief: Any, failing: str, message: str) -> None:
    assert_first(check_belief(belief), "failed", failing, message)


@pytest.mark.parametrize(
    ("belief", "doubtful", "message"),
    [
        (with_belief(open=slow_open), "cheap open", "leave the work to update"),
        (with_state(update=blind), "evidence", "rewards nothing"),
        (with_state(update=certain_of_nothing), "evidence", "rewards nothing"),
        (with_state(update=contrary), "evidence", "rewards the wrong turns"),
    ],
)
def test_a_doubtful_belief_is_warned_of(belief: Any, doubtful: str, message: str) -> None:
    report = check_belief(belief)
    assert report.ok
    assert_first(report, "warning", doubtful, message)


def test_sound_beliefs() -> None:
    assert_clean(check_belief(Counting()))
    assert_clean(check_belief(LexicalBelief.from_corpus(open_corpus("embedded"))))
