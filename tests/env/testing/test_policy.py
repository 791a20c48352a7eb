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


class PlainDice(Plain):
    act = dice  # type: ignore[assignment]


class PlainCounter(Plain):
    """Searches in every other call, whichever episode that belongs to."""

    calls = 0

    def act(self, messages: Sequence[Message]) -> Any:
        self.calls += 1
        return SEARCH if self.calls % 2 else ANSWER


class PlainMemory(Plain):
    """Remembers the question since the opening, so two episodes must not take turns."""

    def act(self, messages: Sequence[Message]) -> Any:
        if len(messages) == 2:
            self.question = messages[1]["content"]
            return SEARCH
        return render_answer("t", self.question)


class Asking(Plain):
    def __init__(self, query: str) -> None:
        self.query = query

    def act(self, messages: Sequence[Message]) -> Any:
        return render_call("t", "search", {"query": self.query}) if len(messages) == 2 else ANSWER


class EveryOther(Seeded):
    """Every other episode searches for something else, whatever its seed."""

    episodes = 0

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> Any:
        self.episodes += 1
        return Asking(str(self.episodes % 2))


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
        (seeded(dice), "seeds", "derive all randomness .*nondeterministic=True, --nondeterministic"),
        (EveryOther(), "seeds", "keep no state between episodes"),
        (PlainDice(), "determinism", "draws at random without a seed"),
        (PlainCounter(), "determinism", "keeps state between calls .*nondeterministic=True, --nondeterministic"),
        (PlainMemory(), "interleaving", "what new_episode returns"),
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
        (seeded(never_answers), "forced answer", "answer \\('You have used all your tool calls.*scores 0"),
    ],
)
def test_a_doubtful_policy_is_warned_of(env: ResearchEnv, policy: Any, doubtful: str, message: str) -> None:
    report = check_policy(policy, env)
    assert report.ok
    assert_first(report, "warning", doubtful, message)


def test_sound_policies(env: ResearchEnv) -> None:
    for policy in (Seeded(), Plain(), Awaited()):
        assert_clean(check_policy(policy, env))


@pytest.mark.parametrize(("policy", "compared"), [(seeded(dice), "seeds"), (PlainDice(), "determinism")])
def test_without_determinism_no_turns_are_compared(env: ResearchEnv, policy: Any, compared: str) -> None:
    declared = check_policy(policy, env, nondeterministic=True)
    assert declared.ok
    assert declared.named("skipped") == [compared, "interleaving"]
    undeclared = check_policy(policy, env)
    assert (undeclared.named("failed"), undeclared.named("skipped")) == ([compared], ["interleaving"])


def test_one_task_is_played_beside_itself() -> None:
    single = ResearchEnv(tasks=TASKS[:1], tools=[Lookup(), Read()], belief=None, max_turns=6)
    assert_first(check_policy(OneForAll(), single), "failed", "interleaving", "what new_episode returns")
    single.close()


def test_who_answers_early_is_not_asked(env: ResearchEnv) -> None:
    report = check_policy(seeded(lambda self, messages: ANSWER), env)
    assert_first(report, "skipped", "forced answer", "answered before it was asked")


@pytest.mark.parametrize("policy", [OraclePolicy(), OraclePolicy("mixed"), RandomPolicy()])
def test_the_policies_of_the_package(embedded: ResearchEnv, policy: Any) -> None:
    assert_clean(check_policy(policy, embedded))


@pytest.fixture(scope="module")
def embedded() -> ResearchEnv:
    return ResearchEnv(belief=None, max_turns=8)
