from collections.abc import Sequence

import pytest

from venus_env.policies import OraclePolicy, Policy, RandomPolicy, next_turn, start_episode
from venus_env.protocol.turns import Message
from venus_env.tasks import Task

TASK = Task(id="t", question="Q?", answers=("gold",))


class Curious:
    """Keeps whatever it is given at the start of an episode."""

    def __init__(self) -> None:
        self.given: object = "nothing yet"

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> Policy:
        self.given = task
        return RandomPolicy(seed or 0)


class Slow:
    """A policy with an asynchronous ``act``."""

    async def act(self, messages: Sequence[Message]) -> str:
        return "slow"


class Quick:
    """A policy with a plain ``act`` and no episodes."""

    def act(self, messages: Sequence[Message]) -> str:
        return "quick"


async def test_plain_and_async_policies_act() -> None:
    assert await next_turn(Quick(), []) == "quick"
    assert await next_turn(Slow(), []) == "slow"


def test_a_policy_without_episodes_plays_itself() -> None:
    policy = Quick()
    assert start_episode(policy, TASK) is policy


def test_the_task_goes_to_the_oracle_only() -> None:
    curious = Curious()
    start_episode(curious, TASK, seed=3)
    assert curious.given is None
    assert start_episode(OraclePolicy(), TASK) is not None
    with pytest.raises(ValueError, match="call new_episode"):
        OraclePolicy().new_episode()
