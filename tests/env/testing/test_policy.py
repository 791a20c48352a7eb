import asyncio
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.env.protocol.tools import Lookup, Read
from tests.env.testing.reports import assert_clean, assert_first
from venus_env.envs.research import ResearchEnv
from venus_env.policies import OraclePolicy, RandomPolicy
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.turns import Message
from venus_env.tasks.task import Task
from venus_env.testing import check_policy

TASKS = [
    Task(id="lund", question="In which country is Lund?", answers=("Sweden",)),
    Task(id="malmo", question="Which city does Malmö face?", answers=("Copenhagen",)),
]
SEARCH, ANSWER = render_call("t", "search", {"query": "Lund"}), render_answer("t", "Sweden")


@pytest.fixture(scope="module")
def env() -> Iterator[ResearchEnv]:
    env = ResearchEnv(tasks=TASKS, tools=[Lookup(), Read()], belief=None, max_turns=6)
    yield env
    env.close()


class Plain:
    """A sound policy without seeds."""

    def act(self, messages: Sequence[Message]) -> Any:
        return SEARCH if len(messages) == 2 else ANSWER


class Awaited(Plain):
    async def act(self, messages: Sequence[Message]) -> Any:
        await asyncio.sleep(0)
        return super().act(messages)


class Seeded:
    """Makes sound policies with seeds; the wrong ones below differ in one way."""

    player: Any = Plain

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> Any:
        return self.player()


def seeded(act: Any) -> Any:
    return type("Wrong", (Seeded,), {"player": type("Player", (Plain,), {"act": act})})()


class Tokens(Plain):
    def act(self, messages: Sequence[Message]) -> Any:
        return [1, 2, 3]


class Raising(Plain):
    def act(self, messages: Sequence[Message]) -> Any:
        if len(messages) > 2:
            raise KeyError("turn 1")
        return SEARCH


class Appending(Plain):
    def act(self, messages: Sequence[Message]) -> Any:
        if isinstance(messages, list):
            messages.append({"role": "user", "content": "Think!"})
        return SEARCH if len(messages) == 3 else ANSWER


class Editing(Plain):
    def act(self, messages: Sequence[Message]) -> Any:
        messages[0]["content"] = "Be brief."
        return super().act(messages)


class WantsTheTask(Seeded):
    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> Any:
        assert task is not None
        return Plain()


class NoSeed(Seeded):
    def new_episode(self, task: Task | None = None) -> Any:  # type: ignore[override]
        return Plain()


class MakesNothing(Seeded):
    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> Any:
        return None


class OneForAll(Seeded):
    """Remembers by itself how far an episode is, but has one memory for all of them."""

    turns = 0

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> Any:
        self.turns = 0
        return self

    def act(self, messages: Sequence[Message]) -> Any:
        self.turns += 1
        return SEARCH if self.turns < 3 else ANSWER


def dice(self: Any, messages: Sequence[Message]) -> str:
    return render_call("t", "search", {"query": str(random.random())})


def never_calls(self: Any, messages: Sequence[Message]) -> str:
    return "Sweden, I suppose."


def never_answers(self: Any, messages: Sequence[Message]) -> str:
    return render_call("t", "search", {"query": messages[1]["content"]})


def breaks_the_tool(self: Any, messages: Sequence[Message]) -> str:
    return render_call("t", "visit", {"url": ["boom"], "goal": "g"})


@pytest.mark.parametrize(
    ("policy", "failing", "message"),
    [
        (object(), "methods", "neither act"),
        (WantsTheTask(), "new episode", "with no task and seed=None raised AssertionError"),
        (NoSeed(), "new episode", "accept "),
        (MakesNothing(), "new episode", "gave None, which has no act"),
        (Tokens(), "act", r"got \[1, 2, 3\]"),
        (Raising(), "episodes", "KeyError in turn 1"),
        (Appending(), "messages unchanged", "copy before changing"),
        (Editing(), "messages unchanged", "copy before changing"),
        (seeded(breaks_the_tool), "episodes", r"broke down \(tool_failure\)"),
        (seeded(dice), "seeds", "derive all randomness"),
        (OneForAll(), "interleaving", "what new_episode returns"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Plain | Seeded) else None,
)
def test_a_wrong_policy_fails_where_it_is_wrong(env: ResearchEnv, policy: Any, failing: str, message: str) -> None:
    assert_first(check_policy(policy, env), "failed", failing, message)


@pytest.mark.parametrize(
    ("policy", "doubtful", "message"),
    [
        (seeded(never_calls), "form", "turns were malformed"),
        (seeded(never_answers), "forced answer", "scores 0"),
    ],
)
def test_a_doubtful_policy_is_warned_of(env: ResearchEnv, policy: Any, doubtful: str, message: str) -> None:
    report = check_policy(policy, env)
    assert report.ok
    assert_first(report, "warning", doubtful, message)


def test_sound_policies(env: ResearchEnv) -> None:
    assert_clean(check_policy(Seeded(), env))
    for policy in (Plain(), Awaited()):
        report = check_policy(policy, env)
        assert report.named("failed") == report.named("warning") == []
        assert report.named("skipped") == ["seeds"]


def test_a_declared_nondeterministic_policy_is_not_compared(env: ResearchEnv) -> None:
    assert check_policy(seeded(dice), env, nondeterministic=True).ok


@pytest.mark.parametrize("policy", [OraclePolicy(), OraclePolicy("mixed"), RandomPolicy()])
def test_the_policies_of_the_package(embedded: ResearchEnv, policy: Any) -> None:
    assert_clean(check_policy(policy, embedded))


@pytest.fixture(scope="module")
def embedded() -> ResearchEnv:
    return ResearchEnv(belief=None, max_turns=8)
