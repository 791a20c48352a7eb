"""``check_belief``: does a belief keep the contract of :class:`venus_env.beliefs.base.Belief`?"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Sequence
from typing import Any

from venus_env.beliefs.base import Belief, turn_boundaries
from venus_env.envs.portal import portal
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.testing import conversations
from venus_env.testing.report import Doubtful, Report, expect, require_object, short

_OPEN_S = 0.2  # seconds that opening may take before it counts as work
_OWN_STATE = "keep what belongs to an episode in the state that open() returns"


def check_belief(belief: Belief, *, tolerance: float = 1e-4, timeout_s: float = 120.0) -> Report:
    """Check a belief on two short conversations.

    Args:
        belief: The belief.
        tolerance: Largest difference between log-probabilities that should be equal, absolute and relative.
        timeout_s: Seconds after which a single check is given up as failed.

    Raises:
        TypeError: ``belief`` is a class.
    """
    require_object(belief, "check_belief")
    report = Report(f"belief {type(belief).__name__}", timeout_s)
    portal().run(_BeliefChecks(belief, tolerance).run(report))
    return report


class _BeliefChecks:
    def __init__(self, belief: Belief, tolerance: float) -> None:
        self.belief = belief
        self.tolerance = tolerance
        self.episodes = (conversations.lund(), conversations.elbe())
        self.alone: list[list[list[float]]] = []  # per episode, boundary, answer

    async def run(self, report: Report) -> None:
        await report.run_async("open", self.open)
        await report.run_async("cheap open", self.cheap_open, needs=("open",))
        await report.run_async("update", self.update, needs=("open",))
        for check in (
            self.messages_unchanged,
            self.determinism,
            self.several_turns_at_once,
            self.interleaving,
            self.concurrency,
            self.answer_order,
            self.score,
            self.evidence,
        ):
            await report.run_async(check.__name__.replace("_", " "), check, needs=("update",))

    def open(self) -> None:
        for method in ("open", "score"):
            expect(callable(getattr(self.belief, method, None)), f"it has no method {method!r}; see Belief")
        for episode in self.episodes:
            state = self._open(episode)
            expect(
                inspect.iscoroutinefunction(getattr(state, "update", None)),
                f"open() must give a state with `async def update`, got {short(state)}",
            )

    def cheap_open(self) -> None:
        started = time.perf_counter()
        self._open(self.episodes[0])
        took = time.perf_counter() - started
        if took > _OPEN_S:
            raise Doubtful(f"open() took {took:.1f} s; it is called for every episode: leave the work to update()")

    async def update(self) -> None:
        for episode in self.episodes:
            scores = await self._read(episode)
            for values in scores:
                self._check_scores(values, episode.task["answers"])
            self.alone.append(scores)

    async def messages_unchanged(self) -> None:
        episode = self.episodes[0]
        expected = _messages(episode, 0, turn_boundaries(episode)[-1])
        given = [message.copy() for message in expected]
        await self._open(episode).update(given)
        expect(given == expected, "update() changed the messages, which are the episode's own; copy them first")

    async def determinism(self) -> None:
        for episode, expected in zip(self.episodes, self.alone, strict=True):
            self._same(await self._read(episode), expected, "read a second time", "sample nothing")

    async def several_turns_at_once(self) -> None:
        """A belief that is asked after some turns only, or after an episode went on from a saved state."""
        episode = self.episodes[0]
        values = await self._open(episode).update(_messages(episode, 0, turn_boundaries(episode)[-1]))
        advice = "read the messages one after the other"
        self._same([values], self.alone[0][-1:], "all turns in one update()", advice)

    async def interleaving(self) -> None:
        """Two episodes that take turns."""
        states = [self._open(episode) for episode in self.episodes]
        scores: list[list[list[float]]] = [[], []]
        done = 0
        for boundary in turn_boundaries(self.episodes[0]):
            for state, episode, values in zip(states, self.episodes, scores, strict=True):
                values.append(await state.update(_messages(episode, done, boundary)))
            done = boundary
        self._same(scores[0] + scores[1], self.alone[0] + self.alone[1], "two episodes taking turns", _OWN_STATE)

    async def concurrency(self) -> None:
        scores = await asyncio.gather(*(self._read(episode) for episode in self.episodes * 2))
        for values, expected in zip(scores, self.alone * 2, strict=True):
            self._same(values, expected, "several episodes at once", _OWN_STATE)

    async def answer_order(self) -> None:
        episode = self.episodes[0]
        answers = episode.task["answers"]
        reverse = [values[::-1] for values in await self._read(episode, answers[::-1])]
        self._same(
            reverse, self.alone[0], "the answers in reverse order", "return one score per answer, in their order"
        )
        single = await self._read(episode, answers[:1])
        self._same(single, [values[:1] for values in self.alone[0]], "the first answer alone", "score each by itself")

    async def score(self) -> None:
        for episode, expected in zip(self.episodes, self.alone, strict=True):
            boundaries = turn_boundaries(episode)
            scores = await self.belief.score(episode.model_copy(deep=True), boundaries, episode.task["answers"])
            expect(
                len(scores) == len(boundaries),
                f"score() must give one list per boundary, {len(boundaries)} of them, got {len(scores)}",
            )
            for values in scores:
                self._check_scores(values, episode.task["answers"])
            self._same(scores, expected, "one pass of score()", "a boundary is the number of leading messages known")

    def evidence(self) -> None:
        for episode, scores in zip(self.episodes, self.alone, strict=True):
            before, irrelevant, relevant = (
                max(scores[turn])
                for turn in (conversations.IRRELEVANT, conversations.IRRELEVANT + 1, conversations.RELEVANT + 1)
            )
            gain, other = _change(irrelevant, relevant), _change(before, irrelevant)
            if gain <= other:
                rewarded = "nothing" if max(abs(gain), abs(other)) <= self.tolerance else "the wrong turns"
                raise Doubtful(
                    f"task {episode.task['id']!r}: reading the answer changed its log-probability by {gain:+.3f}, "
                    f"reading about something else by {other:+.3f}; information gain from this belief rewards "
                    f"{rewarded}"
                )

    async def _read(self, episode: Trajectory, answers: Sequence[str] | None = None) -> list[list[float]]:
        """Feed an episode turn by turn; the scores at each boundary."""
        state = self._open(episode, answers)
        scores, done = [], 0
        for boundary in turn_boundaries(episode):
            scores.append(await state.update(_messages(episode, done, boundary)))
            done = boundary
        return scores

    def _open(self, episode: Trajectory, answers: Sequence[str] | None = None) -> Any:
        return self.belief.open(episode.task["question"], answers or episode.task["answers"])

    def _check_scores(self, values: Any, answers: Sequence[str]) -> None:
        expect(
            isinstance(values, list) and len(values) == len(answers),
            f"expected a list with one log-probability for each of {len(answers)} answers, got {short(values)}",
        )
        for value in values:
            expect(
                isinstance(value, float) and not math.isnan(value) and value <= self.tolerance,
                f"expected log-probabilities: floats from -inf to 0, got {value!r}; take the mean of log p per token",
            )

    def _same(self, got: list[list[float]], expected: list[list[float]], how: str, advice: str) -> None:
        for number, (values, wanted) in enumerate(zip(got, expected, strict=True)):
            expect(
                len(values) == len(wanted)
                and all(
                    math.isclose(value, want, rel_tol=self.tolerance, abs_tol=self.tolerance)
                    for value, want in zip(values, wanted, strict=True)
                ),
                f"{how} gave {values} instead of {wanted} at boundary {number % len(self.alone[0])}; {advice}",
            )


def _change(before: float, after: float) -> float:
    """The difference; none between two that are -inf."""
    return 0.0 if after == before else after - before


def _messages(episode: Trajectory, start: int, stop: int) -> list[Message]:
    """Copies, so that a belief that changes them is found out once and not everywhere."""
    return [message.copy() for message in episode.messages[start:stop]]
