"""What the Gymnasium environments are made of: a source of episodes, and slots in which they are played.

:class:`venus_env.envs.research.ResearchEnv` is one slot behind a synchronous interface,
:class:`venus_env.envs.vector.ResearchVectorEnv` many slots on one event loop. What an episode is, and
what is said about it, is decided here for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from pydantic import BaseModel, ConfigDict

from venus_env.beliefs.base import Belief
from venus_env.envs.spaces import UnicodeText
from venus_env.envs.transcript import transcript
from venus_env.protocol.turns import Message, Turn, Usage
from venus_env.rewards.judge import Judge
from venus_env.session import ResearchSession, SessionState
from venus_env.setting import Setting
from venus_env.tasks.task import Task
from venus_env.viewer.page import page

ObservationKind = Literal["text", "messages"]
Observation: TypeAlias = str | tuple[Message, ...]
Transition: TypeAlias = tuple[Observation, float, bool, bool, dict[str, Any]]

MAX_CHARACTERS = 10_000_000
"""Longest text that counts as an action or observation."""

_MAX_ROLE_CHARACTERS = 16
_USAGE = tuple(field.name for field in fields(Usage))


class EpisodeFailedToStart(RuntimeError):
    """The belief failed on the question itself, so there is no episode to play."""


class EnvState(BaseModel):
    """State of an environment between two turns; a JSON value through ``model_dump_json``.

    It holds accepted answers and evidence: no policy may see it.

    Attributes:
        np_random: State of the generator that draws the next tasks; None if it has not been seeded.
        session: The episode under way; None before the first reset.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    np_random: dict[str, Any] | None
    session: SessionState | None


@dataclass(frozen=True)
class EpisodeSource:
    """Where an environment's episodes come from.

    Attributes:
        setting: Corpus, tools, rules and rewards.
        tasks: Tasks to draw from, at least one.
        belief: Scores the accepted answers; None for no information gain.
        judge: Grades answers; None for the rules of ``setting.config.rewards``.
        clock: Seconds from any fixed point, for a time limit.
        count_tokens: Length of a text in tokens, for budgets; None to estimate it.
        observation: What an observation is.
    """

    setting: Setting
    tasks: Sequence[Task]
    belief: Belief | None
    judge: Judge | None
    clock: Callable[[], float]
    count_tokens: Callable[[str], int] | None
    observation: ObservationKind

    @cached_property
    def _by_id(self) -> dict[str, Task]:
        return {task.id: task for task in self.tasks}

    def observation_space(self) -> spaces.Space[Any]:
        """A text; or the messages added, as a tuple of ``{"role", "content"}``."""
        if self.observation == "text":
            return UnicodeText(MAX_CHARACTERS)
        return spaces.Sequence(spaces.Dict(role=UnicodeText(_MAX_ROLE_CHARACTERS), content=UnicodeText(MAX_CHARACTERS)))

    def action_space(self) -> UnicodeText:
        """The text of a turn."""
        return UnicodeText(MAX_CHARACTERS)

    def draw(self, rng: np.random.Generator, options: Mapping[str, Any] | None = None) -> tuple[Task, int]:
        """Draw a task and the seed of an episode.

        Both draws happen whether or not ``options`` name a task, so that naming one changes nothing else.

        Raises:
            ValueError: An option is unknown, or names no task.
        """
        named = self.named_task(options)
        drawn = self.tasks[int(rng.integers(len(self.tasks)))]
        seed = int(rng.integers(2**31))
        return named or drawn, seed

    def named_task(self, options: Mapping[str, Any] | None) -> Task | None:
        """Give the task that the options of a reset name, if they name one.

        Raises:
            ValueError: An option is unknown, or names no task.
        """
        options = options or {}
        unknown = set(options) - {"task_id"}
        if unknown:
            raise ValueError(f"reset: unknown options {sorted(unknown)}; the only one is 'task_id'")
        task_id = options.get("task_id")
        if task_id is None:
            return None
        if task_id not in self._by_id:
            raise ValueError(
                f"reset: there is no task {task_id!r} among the {len(self.tasks)} tasks of this environment"
            )
        return self._by_id[task_id]

    def session(self, task: Task, seed: int | None, state: SessionState | None = None) -> ResearchSession:
        """Make the session of one episode."""
        return self.setting.session(
            task,
            seed,
            belief=self.belief,
            judge=self.judge,
            count_tokens=self.count_tokens,
            clock=self.clock,
            state=state,
        )


class Slot:
    """The place of one episode at a time.

    Args:
        source: Where the episodes come from.
    """

    def __init__(self, source: EpisodeSource) -> None:
        self.source = source
        self._session: ResearchSession | None = None

    @property
    def session(self) -> ResearchSession:
        """The episode under way."""
        if self._session is None:
            raise ResetNeeded("call reset() first")
        return self._session

    async def reset(
        self, rng: np.random.Generator, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; returns its first observation and info.

        Raises:
            EpisodeFailedToStart: The belief failed on the question.
        """
        session = self.source.session(*self.source.draw(rng, options))
        opening = await session.start()
        if session.done:
            raise EpisodeFailedToStart(
                f"task {session.task.id!r} could not start ({session.episode.end}); the log tells why"
            )
        self._session = session
        return self._observation(opening), self._info(opening, None, {})

    async def step(self, action: str) -> Transition:
        """Play one turn; returns what ``gymnasium.Env.step`` does."""
        check_action(action)
        if self.session.done:
            raise ResetNeeded(f"the episode has ended ({self.session.episode.end}); call reset()")
        outcome = await self.session.step(action)
        terminated = outcome.end == "answered"
        # No dict: vector environments of Gymnasium spread a dict over arrays, one per key and of one type each. That
        # fails where slots differ in what a value is: after a reset there is no turn, and arguments may be anything.
        turn = replace(outcome.turn, arguments=deepcopy(outcome.turn.arguments))
        info = self._info(outcome.new_messages, turn, outcome.reward_terms)
        observation = self._observation(outcome.new_messages)
        return observation, outcome.reward, terminated, outcome.done and not terminated, info

    def render(self, mode: str | None) -> str | None:
        """Show the conversation so far: in mode ``ansi`` as text, in mode ``html`` as a page; None in any other."""
        if mode == "html":
            return page(self.session.trajectory())
        return transcript(self.session.messages) if mode == "ansi" else None

    def clear(self) -> None:
        """Forget the episode."""
        self._session = None

    def get_state(self) -> SessionState | None:
        """State of the episode; None if there is none."""
        return None if self._session is None else self._session.state()

    def set_state(self, state: SessionState | None) -> None:
        """Go on from a state, taken in this or another slot with the same tools and rules."""
        self._session = None if state is None else self.source.session(state.task, state.seed, state)

    def _observation(self, new_messages: Sequence[Message]) -> Observation:
        if self.source.observation == "messages":
            return tuple(message.copy() for message in new_messages)
        # What the policy wrote itself is no news to it: an episode that ends without a reply ends on an empty text.
        last = new_messages[-1]
        return last["content"] if last["role"] == "user" else ""

    def _info(self, new_messages: list[Message], turn: Turn | None, reward_terms: dict[str, float]) -> dict[str, Any]:
        episode = self.session.episode
        return {
            "task_id": self.session.task.id,
            "new_messages": new_messages,
            "turn": turn,
            "end": episode.end,
            "forced": episode.forced,
            "score": self.session.score,
            "reward_terms": reward_terms,
            # As dataclasses.asdict would, which takes half of the time of a step.
            "usage": {name: getattr(episode.usage, name) for name in _USAGE} | {"tools": dict(episode.usage.tools)},
        }


def check_action(action: object) -> None:
    """Refuse anything but a text.

    Raises:
        TypeError: ``action`` is no ``str``.
    """
    if not isinstance(action, str):
        raise TypeError(f"an action is the text of a turn, a str; got {type(action).__name__}")
