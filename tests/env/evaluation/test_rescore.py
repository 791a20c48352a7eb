from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from venus_env.beliefs.base import Belief, open_belief
from venus_env.evaluation.rescore import rescore
from venus_env.evaluation.runner import evaluate
from venus_env.policies.random import RandomPolicy
from venus_env.policies.scripted import OraclePolicy
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message, ToolResult
from venus_env.rewards.compose import RewardConfig
from venus_env.rewards.judge import Judge
from venus_env.setting import EnvConfig, Setting
from venus_env.tasks.task import Task
from venus_env.tools.search import SearchTool

REWARDS = [
    RewardConfig(),
    RewardConfig(outcome="em", score="f1", format_penalty=0.25, gain_kind="prob_diff"),
    RewardConfig(gain_turns="visit"),
    RewardConfig(information_gain=False),
]


class Sloppy:
    """A random policy that often gets the form wrong, and sometimes writes no turn at all."""

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> Sloppy.Player:
        return self.Player(seed or 0)

    class Player:
        def __init__(self, seed: int) -> None:
            self._rng = random.Random(seed)
            self._policy = RandomPolicy(seed)
            self._garbage = self._rng.choice((0.1, 0.8))

        def act(self, messages: Sequence[Message]) -> str:
            if self._rng.random() < self._garbage:
                return self._rng.choice(("", "x", "<answer></answer>", render_call("", "search", {"query": 5})))
            return self._rng.choice(("", "chatter ")) + self._policy.act(messages)


class LengthJudge:
    """Prefers short answers; breaks down on those that start with a letter of ``fails``."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> float:
        assert question
        assert answers
        if prediction[:1] and prediction[0].lower() in self.fails:
            raise ConnectionError("judge down")
        return 1 / (1 + len(prediction))


class FlakySearch(SearchTool):
    """Breaks down on some queries."""

    async def __call__(self, arguments: Any) -> ToolResult:
        if len(arguments.query[0]) % 4 == 0:
            raise ConnectionError("search down")
        return await super().__call__(arguments)


class FlakyBelief:
    """The lexical belief, with a server in between that dies on long conversations."""

    def __init__(self, belief: Belief) -> None:
        self.belief = belief

    def open(self, question: str, answers: Sequence[str]) -> Any:
        state = self.belief.open(question, answers)

        class State:
            async def update(self, new_messages: Sequence[Message]) -> list[float]:
                if any(len(message["content"]) % 3 == 0 for message in new_messages if message["role"] == "user"):
                    raise ConnectionError("belief down")
                return await state.update(new_messages)

        return State()

    async def score(self, *_: Any) -> list[list[float]]:
        raise ConnectionError("belief down")


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting.open(EnvConfig(max_turns=8, turn_jitter=5, max_malformed=3, max_context_tokens=6000))


@pytest.fixture(scope="module")
def belief(setting: Setting) -> Belief:
    found = open_belief("lexical", setting.corpus)
    assert found is not None
    return found


async def play(
    setting: Setting, policy: Any, belief: Belief | None, *, rewards: RewardConfig = REWARDS[0], **options: Any
) -> list[Trajectory]:
    configured = Setting(setting.config.model_copy(update={"rewards": rewards}), setting.corpus, setting.tools)
    tasks = setting.tasks("dev")[:12]
    return await evaluate(
        policy,
        tasks,
        lambda task, seed: configured.session(task, seed, belief=belief, **options),
        samples=2,
        seed=3,
        progress=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("rewards", REWARDS)
@pytest.mark.parametrize("policy", [OraclePolicy("mixed"), RandomPolicy(), Sloppy()])
@pytest.mark.parametrize("judge", [None, LengthJudge()])
async def test_the_same_rule_gives_the_same_record(
    setting: Setting, belief: Belief, policy: Any, rewards: RewardConfig, judge: Judge | None
) -> None:
    for episode in await play(setting, policy, belief, rewards=rewards, judge=judge):
        before = episode.model_copy(deep=True)
        again = await rescore(episode, rewards=rewards, belief=belief, judge=judge)
        assert again == before
        assert episode == before  # the recording itself is left alone


async def test_the_episodes_above_end_in_every_way(setting: Setting, belief: Belief) -> None:
    episodes = await play(setting, Sloppy(), belief)
    assert {"answered", "turn_limit", "malformed_limit"} <= {episode.end for episode in episodes}
    assert {True, False} == {episode.forced is not None for episode in episodes}
    turns = [turn for episode in episodes for turn in episode.turns]
    assert {"format", "information_gain", "outcome"} <= {name for turn in turns for name in turn.reward_terms}


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(REWARDS, 2)))
async def test_another_rule_gives_the_record_of_that_rule(
    setting: Setting, belief: Belief, before: RewardConfig, after: RewardConfig
) -> None:
    recorded = await play(setting, Sloppy(), belief, rewards=before)
    wanted = await play(setting, Sloppy(), belief, rewards=after)
    assert [await rescore(episode, rewards=after, belief=belief) for episode in recorded] == wanted


async def test_infrastructure_endings_stay_what_they_are(setting: Setting, belief: Belief) -> None:
    flaky = Setting(setting.config, setting.corpus, (FlakySearch(setting.corpus), *setting.tools[1:]))
    episodes = await play(flaky, RandomPolicy(), belief)
    lost = [episode for episode in episodes if episode.end == "tool_failure"]
    assert {len(episode.turns) for episode in lost} > {1}
    for episode in episodes:
        assert await rescore(episode, rewards=REWARDS[0], belief=belief) == episode
    for episode in lost:
        assert (await rescore(episode, rewards=REWARDS[0], belief=FlakyBelief(belief))).end == "tool_failure"

    class GivesUp:
        def act(self, messages: Sequence[Message]) -> str:
            if len(messages) > 2:
                raise ConnectionError("policy down")
            return render_call("", "search", {"query": ["Paris"]})

    for episode in await play(setting, GivesUp(), belief):
        assert (episode.end, list(episode.turns[0].reward_terms)) == ("aborted", ["information_gain"])
        assert await rescore(episode, rewards=REWARDS[0], belief=belief) == episode


async def test_episodes_that_a_belief_lost_stay_lost(setting: Setting, belief: Belief) -> None:
    episodes = await play(setting, RandomPolicy(), FlakyBelief(belief))
    lost = [episode for episode in episodes if episode.end == "judge_failure"]
    assert {0, 1, 2} <= {len(episode.turns) for episode in lost}
    for episode in lost:
        assert await rescore(episode, rewards=REWARDS[0], belief=belief) == episode


async def test_an_answer_whose_judge_failed_is_graded_anew(setting: Setting, belief: Belief) -> None:
    broken = LengthJudge(fails="aeioubcdfgpqrst")
    episodes = await play(setting, RandomPolicy(), belief, judge=broken)
    graded = await play(setting, RandomPolicy(), belief, judge=LengthJudge())
    assert {"judge_failure", "answered"} <= {episode.end for episode in episodes}
    assert [await rescore(episode, rewards=REWARDS[0], belief=belief, judge=broken) for episode in graded] == episodes
    assert [await rescore(episode, rewards=REWARDS[0], belief=belief, judge=broken) for episode in episodes] == episodes
    again = [await rescore(episode, rewards=REWARDS[0], belief=belief, judge=LengthJudge()) for episode in episodes]
    assert again == graded


async def test_a_belief_that_fails_is_no_verdict(
    setting: Setting, belief: Belief, caplog: pytest.LogCaptureFixture
) -> None:
    (episode, *_) = await play(setting, OraclePolicy(), belief)
    failed = await rescore(episode, rewards=REWARDS[0], belief=FlakyBelief(belief))
    assert (failed.end, failed.score, failed.metrics["return"]) == ("judge_failure", None, 0.0)
    assert [turn.reward_terms for turn in failed.turns] == [{}] * len(episode.turns)
    assert failed.turns[-1].error == "the belief failed: ConnectionError: belief down"
    assert str(episode.task["id"]) in caplog.text
    assert await rescore(failed, rewards=REWARDS[0], belief=belief) == episode


async def test_a_verdict_out_of_range_is_a_failure(setting: Setting) -> None:
    class Generous:
        async def grade(self, question: str, answers: Sequence[str], prediction: str) -> float:
            return 7.0

    class Answers:
        def act(self, messages: Sequence[Message]) -> str:
            return render_answer("", "x")

    (episode, *_) = await play(setting, Answers(), None)
    failed = await rescore(episode, rewards=REWARDS[0], judge=Generous())
    assert (failed.end, failed.score) == ("judge_failure", None)
    assert "7.0" in str(failed.turns[-1].error)


@pytest.mark.parametrize("answers", [None, [], "Paris", [1]])
async def test_tasks_without_answers_are_refused(answers: Any) -> None:
    bare = Trajectory(task={"id": "t9", "question": "Q?", "answers": answers}, messages=[], turns=[], end="aborted")
    with pytest.raises(ValueError, match=r"'t9' of a trajectory has no accepted answers"):
        await rescore(bare, rewards=RewardConfig())
