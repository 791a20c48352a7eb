"""What a policy is: something that reads the messages of an episode and writes the next turn."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from typing import Protocol, runtime_checkable

from venus_env.protocol.turns import Message
from venus_env.tasks.task import Task


@runtime_checkable
class Policy(Protocol):
    """Writes turns. ``act`` may be a plain function or a coroutine function."""

    def act(self, messages: Sequence[Message]) -> str | Awaitable[str]:
        """Write the next assistant turn.

        Args:
            messages: The whole conversation so far: system, user, and turns and replies in alternation.
        """
        ...


@runtime_checkable
class EpisodePolicies(Protocol):
    """Makes a policy of its own for each episode, because its policies remember something or need a seed.

    A class that must see the gold answers (only :class:`venus_env.policies.scripted.OraclePolicy`) sets
    ``needs_task = True``; every other class is never given the task.
    """

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> Policy:
        """Make the policy of one episode; equal seeds on equal conversations write equal turns."""
        ...


def start_episode(policy: Policy | EpisodePolicies, task: Task, seed: int | None = None) -> Policy:
    """The policy for one episode on ``task``, which is shown to policies that declare ``needs_task`` only."""
    if isinstance(policy, EpisodePolicies):
        return policy.new_episode(task if getattr(policy, "needs_task", False) else None, seed=seed)
    return policy


async def next_turn(policy: Policy, messages: Sequence[Message]) -> str:
    """Ask a plain or an asynchronous policy for its next turn."""
    turn = policy.act(messages)
    return await turn if inspect.isawaitable(turn) else turn
