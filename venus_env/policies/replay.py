"""Replays recorded episodes: writes again what another policy once wrote."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from venus_env.policies.errors import PolicyError
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.tasks.task import Task


class ReplayError(PolicyError):
    """The recordings have nothing to say at this point of an episode."""


@dataclass(frozen=True, slots=True)
class _Recording:
    seed: int | None
    turns: tuple[str, ...]


class ReplayPolicy:
    """Writes the turns of recorded episodes again, whatever the tools reply this time.

    A recording belongs to an episode if the question is the same text. Of several recordings of one question the one
    with the seed of the episode is taken; where no seed fits, the n-th episode on the question takes the n-th recording
    of it, starting over after the last.

    Args:
        trajectories: The recordings; only what the policy wrote is kept. Those without a question are left out.

    Raises:
        ValueError: There is nothing to replay.
    """

    def __init__(self, trajectories: Iterable[Trajectory]) -> None:
        self._recordings: dict[str, list[_Recording]] = defaultdict(list)
        self._started: Counter[str] = Counter()
        for trajectory in trajectories:
            if len(trajectory.messages) >= 2:
                turns = tuple(message["content"] for message in trajectory.messages if message["role"] == "assistant")
                self._recordings[trajectory.messages[1]["content"]].append(_Recording(trajectory.seed, turns))
        if not self._recordings:
            raise ValueError("there is no recorded episode to replay")

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> ReplayEpisode:
        """Start an episode; its recording is chosen when it shows its question.

        Args:
            task: Not looked at: a policy learns the question from its messages.
            seed: Seed of the episode.
        """
        return ReplayEpisode(self, seed)

    def _choose(self, question: str, seed: int | None) -> _Recording:
        recordings = self._recordings.get(question)
        if recordings is None:
            raise ReplayError(f"the question {question!r} is in none of the recordings")
        if seed is not None:
            for recording in recordings:
                if recording.seed == seed:
                    return recording
        number = self._started[question]
        self._started[question] += 1
        return recordings[number % len(recordings)]


class ReplayEpisode:
    """One episode of a :class:`ReplayPolicy`."""

    def __init__(self, policy: ReplayPolicy, seed: int | None) -> None:
        self._policy = policy
        self._seed = seed
        self._recording: _Recording | None = None

    def act(self, messages: Sequence[Message]) -> str:
        """Write the recorded turn at this position of the conversation.

        Raises:
            ReplayError: The question was never recorded, or the recording has no further turn.
        """
        if self._recording is None:
            self._recording = self._policy._choose(messages[1]["content"], self._seed)
        number = sum(message["role"] == "assistant" for message in messages)
        if number >= len(self._recording.turns):
            raise ReplayError(
                f"the recording of {messages[1]['content']!r} (seed {self._recording.seed}) ends after "
                f"{len(self._recording.turns)} turns, but the episode goes on"
            )
        return self._recording.turns[number]
