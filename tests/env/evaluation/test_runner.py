from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from venus_env.beliefs.lexical import LexicalBelief
from venus_env.corpus import Corpus
from venus_env.evaluation.metrics import summarise
from venus_env.evaluation.runner import evaluate
from venus_env.policies.random import RandomPolicy
from venus_env.policies.scripted import OraclePolicy
from venus_env.protocol.episode import EpisodeConfig
from venus_env.protocol.prompt import render_answer
from venus_env.protocol.turns import Message
from venus_env.session import ResearchSession
from venus_env.tasks.task import Task
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool


class Sessions:
    """Makes real sessions over the small corpus and remembers how many ran at a time."""

    def __init__(self, corpus: Corpus, top_k: int = 2) -> None:
        self.tools = [SearchTool(corpus, top_k=top_k, snippet_words=6), VisitTool(corpus)]
        self.belief = LexicalBelief.from_corpus(corpus, mu=20)  # a corpus of forty words

    def __call__(self, task: Task, seed: int) -> ResearchSession:
        return ResearchSession(task, self.tools, config=EpisodeConfig(max_turns=8), belief=self.belief, seed=seed)


async def test_oracle_reaches_every_answer_and_gains_information(corpus: Corpus, tasks: list[Task]) -> None:
    trajectories = await evaluate(OraclePolicy(), tasks, Sessions(corpus), progress=False)
    assert [trajectory.task["id"] for trajectory in trajectories] == ["lyon", "oslo", "norway"]
    summary = summarise(trajectories)
    assert summary.exact_match.mean == summary.score.mean == 1.0
    assert summary.exact_match_by_hops[1].questions == 3
    assert summary.format_error_rate == 0.0
    assert summary.gain_coverage == 1.0
    assert summary.ends == {"answered": 3}
    for trajectory in trajectories:
        # The page names the answer, the snippets do not: the visit is what brings the gain.
        gains = {turn.tool: turn.reward_terms["information_gain"] for turn in trajectory.turns if turn.kind == "tool"}
        assert gains["visit"] > 0.05
        assert gains["visit"] > gains["search"]


async def test_results_depend_on_seeds_only(corpus: Corpus, tasks: list[Task]) -> None:
    sessions = Sessions(corpus)
    policy = RandomPolicy(seed=1)
    first = await evaluate(policy, tasks, sessions, samples=3, seed=5, progress=False)
    other_order = await evaluate(policy, tasks[::-1], sessions, samples=3, seed=5, concurrency=2, progress=False)
    assert {(each.task["id"], each.seed): each for each in first} == {
        (each.task["id"], each.seed): each for each in other_order
    }
    assert len({each.seed for each in first}) == 9
    assert await evaluate(policy, tasks, sessions, samples=3, seed=6, progress=False) != first


async def test_a_failing_policy_aborts_its_episode_only(
    corpus: Corpus, tasks: list[Task], caplog: pytest.LogCaptureFixture
) -> None:
    class Flaky:
        def act(self, messages: Sequence[Message]) -> str:
            if "Lyon" in messages[1]["content"]:
                raise ConnectionError("server gone")
            return render_answer("", "Kari Dahl")

    trajectories = await evaluate(Flaky(), tasks, Sessions(corpus), progress=False)
    assert [(each.end, each.score) for each in trajectories] == [
        ("aborted", None),
        ("answered", 1.0),
        ("answered", 0.0),
    ]
    summary = summarise(trajectories)
    assert (summary.graded, summary.exact_match.mean) == (2, 0.5)
    assert "server gone" in caplog.text


async def test_a_policy_that_cannot_start_aborts(corpus: Corpus, tasks: list[Task]) -> None:
    class NeverReady:
        def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> RandomPolicy:
            raise RuntimeError("no model")

    (trajectory, *_) = await evaluate(NeverReady(), tasks, Sessions(corpus), progress=False)
    assert (trajectory.end, trajectory.turns) == ("aborted", [])


async def test_a_failing_belief_ends_the_episode_before_it_is_played(corpus: Corpus, tasks: list[Task]) -> None:
    sessions = Sessions(corpus)

    class Broken:
        def open(self, question: str, answers: Sequence[str]) -> None:
            raise ConnectionError("no server")

    sessions.belief = Broken()  # type: ignore[assignment]
    trajectories = await evaluate(OraclePolicy(), tasks[:1], sessions, progress=False)
    assert (trajectories[0].end, trajectories[0].score) == ("judge_failure", None)


async def test_concurrency_is_bounded_and_used(corpus: Corpus, tasks: list[Task]) -> None:
    class Slow:
        running = most = 0

        async def act(self, messages: Sequence[Message]) -> str:
            Slow.running += 1
            Slow.most = max(Slow.most, Slow.running)
            await asyncio.sleep(0.01)
            Slow.running -= 1
            return render_answer("", "x")

    await evaluate(Slow(), tasks, Sessions(corpus), samples=4, concurrency=5, progress=False)
    assert Slow.most == 5


async def test_bad_arguments_are_named(corpus: Corpus, tasks: list[Task]) -> None:
    with pytest.raises(ValueError, match="'lyon' occurs more than once"):
        await evaluate(OraclePolicy(), [*tasks, tasks[0]], Sessions(corpus), progress=False)
    with pytest.raises(ValueError, match="concurrency and samples"):
        await evaluate(OraclePolicy(), tasks, Sessions(corpus), samples=0, progress=False)
    assert await evaluate(OraclePolicy(), [], Sessions(corpus), progress=False) == []
