from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

import pytest

from venus_env.beliefs.lexical import LexicalBelief
from venus_env.corpus import Corpus
from venus_env.evaluation.metrics import summarise
from venus_env.evaluation.runner import evaluate
from venus_env.policies.errors import ContextFull
from venus_env.policies.random import RandomPolicy
from venus_env.policies.scripted import OraclePolicy
from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.trajectory import Trajectory
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


async def test_a_policy_whose_window_is_full_has_reached_its_limit(corpus: Corpus, tasks: list[Task]) -> None:
    class Small:
        def act(self, messages: Sequence[Message]) -> str:
            if len(messages) > 2:
                raise ContextFull("8192 tokens at most")
            return render_call("t", "search", {"query": ["Lund"]})

    (episode,) = await evaluate(Small(), tasks[:1], Sessions(corpus), progress=False)
    assert (episode.end, episode.score, episode.error, len(episode.turns)) == ("context_limit", 0.0, None, 1)
    assert summarise([episode]).graded == 1


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


async def test_a_turn_that_is_no_text_aborts_its_episode_only(corpus: Corpus, tasks: list[Task]) -> None:
    class Mute:
        async def act(self, messages: Sequence[Message]) -> str:
            return None if "Lyon" in messages[1]["content"] else render_answer("", "krone")  # type: ignore[return-value]

    trajectories = await evaluate(Mute(), tasks, Sessions(corpus), progress=False)
    assert [each.end for each in trajectories] == ["aborted", "answered", "answered"]
    assert trajectories[0].error == "the policy failed: TypeError: Mute.act returned None instead of text"
    assert trajectories[1].error is None


async def test_a_policy_that_is_cancelled_from_elsewhere_aborts_its_episode_only(
    corpus: Corpus, tasks: list[Task]
) -> None:
    class Orphaned(Answers):
        async def act(self, messages: Sequence[Message]) -> str:
            if "Lyon" in messages[1]["content"]:
                request = asyncio.get_running_loop().create_future()
                request.cancel()
                await request
            return await super().act(messages)

    trajectories = await evaluate(Orphaned(), tasks, Sessions(corpus), concurrency=1, progress=False)
    assert [each.end for each in trajectories] == ["aborted", "answered", "answered"]
    assert trajectories[0].error == "the policy failed: RuntimeError: Orphaned.act was cancelled"


async def test_one_session_that_cannot_be_made_or_started_loses_its_episode_only(
    corpus: Corpus, tasks: list[Task], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ResearchSession):
        async def start(self) -> list[Message]:
            raise ConnectionError("no start")

    sessions = Sessions(corpus)

    def make(task: Task, seed: int) -> ResearchSession:
        if task.id == "lyon":
            raise ValueError("this task cannot be asked")
        return Broken(task, sessions.tools, seed=seed) if task.id == "oslo" else sessions(task, seed)

    ended: list[Trajectory] = []
    trajectories = await evaluate(
        OraclePolicy(), tasks, make, concurrency=1, on_episode=ended.append, progress=False, seed=4
    )
    assert [each.end for each in trajectories] == ["aborted", "aborted", "answered"]
    assert trajectories[0].error == "the session cannot be made: ValueError: this task cannot be asked"
    assert trajectories[0].seed is not None
    assert trajectories[1].error == "the session failed: ConnectionError: no start"
    assert "lyon" in caplog.text
    assert [each.task["id"] for each in ended] == ["lyon", "oslo", "norway"]
    assert summarise(trajectories).graded == 1


async def test_what_no_session_can_be_made_from_is_an_error_of_the_settings(corpus: Corpus, tasks: list[Task]) -> None:
    ended: list[Trajectory] = []

    def make(task: Task, seed: int) -> ResearchSession:
        return ResearchSession(task, Sessions(corpus).tools, config=EpisodeConfig(turn_jitter=3))  # it needs a seed

    with pytest.raises(ValueError, match="turn_jitter needs a seeded generator"):
        await evaluate(OraclePolicy(), tasks, make, on_episode=ended.append, progress=False)
    assert ended == []


async def test_a_step_that_fails_loses_its_episode_only(corpus: Corpus, tasks: list[Task]) -> None:
    sessions = Sessions(corpus)

    def count(text: str) -> int:
        if "Leroy" in text:
            raise UnicodeError("cannot count this")
        return len(text)

    def make(task: Task, seed: int) -> ResearchSession:
        return ResearchSession(task, sessions.tools, seed=seed, count_tokens=count)

    trajectories = await evaluate(OraclePolicy(), tasks, make, progress=False)
    assert [each.end for each in trajectories] == ["aborted", "answered", "answered"]
    assert trajectories[0].error == "the step failed: UnicodeError: cannot count this"


class Answers:
    """Gives the answer of Oslo."""

    async def act(self, messages: Sequence[Message]) -> str:
        return render_answer("", "Kari Dahl")


async def test_episodes_are_handed_over_as_they_end(corpus: Corpus, tasks: list[Task]) -> None:
    order = ["Oslo", "Norway", "Lyon"]
    ended: list[Trajectory] = []
    turn_of = [asyncio.Event() for _ in order]
    turn_of[0].set()

    class InOrder(Answers):
        async def act(self, messages: Sequence[Message]) -> str:
            await turn_of[next(place for place, word in enumerate(order) if word in messages[1]["content"])].wait()
            return await super().act(messages)

    def hand_over(trajectory: Trajectory) -> None:
        ended.append(trajectory)
        if len(ended) < len(order):
            turn_of[len(ended)].set()

    trajectories = await evaluate(InOrder(), tasks, Sessions(corpus), on_episode=hand_over, progress=False)
    assert [each.task["id"] for each in ended] == ["oslo", "norway", "lyon"]
    assert [each.task["id"] for each in trajectories] == ["lyon", "oslo", "norway"]
    assert sorted(ended, key=str) == sorted(trajectories, key=str)


async def test_cancelling_keeps_what_has_been_handed_over(corpus: Corpus, tasks: list[Task]) -> None:
    class EndlessInLyon(Answers):
        async def act(self, messages: Sequence[Message]) -> str:
            if "Lyon" in messages[1]["content"]:
                await asyncio.Event().wait()
            return await super().act(messages)

    ended: list[Trajectory] = []
    two_are_done = asyncio.Event()

    def hand_over(trajectory: Trajectory) -> None:
        ended.append(trajectory)
        if len(ended) == 2:
            two_are_done.set()

    run = asyncio.create_task(evaluate(EndlessInLyon(), tasks, Sessions(corpus), on_episode=hand_over, progress=False))
    await two_are_done.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert {each.task["id"] for each in ended} == {"oslo", "norway"}


async def test_an_episode_that_cannot_be_handed_over_stops_the_run(corpus: Corpus, tasks: list[Task]) -> None:
    def full(trajectory: Trajectory) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        await evaluate(Answers(), tasks, Sessions(corpus), on_episode=full, progress=False)


async def test_episodes_of_an_earlier_run_are_left_out(corpus: Corpus, tasks: list[Task]) -> None:
    everything = await evaluate(RandomPolicy(), tasks, Sessions(corpus), samples=2, progress=False)
    played = {(str(each.task["id"]), each.seed or 0) for each in everything[:3]}
    rest = await evaluate(RandomPolicy(), tasks, Sessions(corpus), samples=2, skip=played, progress=False)
    assert rest == everything[3:]


async def test_what_an_episodes_policy_counts_is_recorded(corpus: Corpus, tasks: list[Task]) -> None:
    class Counting:
        usage: ClassVar = {"requests": 99}  # of all episodes

        def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> Counting.Player:
            return self.Player()

        class Player:
            def __init__(self) -> None:
                self.usage = {"requests": 0}

            def act(self, messages: Sequence[Message]) -> str:
                self.usage["requests"] += 1
                if "Oslo" in messages[1]["content"]:
                    raise ConnectionError
                return render_answer("", "x")

    trajectories = await evaluate(Counting(), tasks, Sessions(corpus), progress=False)
    assert [each.usage["policy"] for each in trajectories] == [{"requests": 1}] * 3
    assert "policy" not in (await evaluate(Answers(), tasks, Sessions(corpus), progress=False))[0].usage


async def test_the_progress_bar_shows_score_and_failures(
    corpus: Corpus, tasks: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    class Flaky(Answers):
        async def act(self, messages: Sequence[Message]) -> str:
            if "Norway" in messages[1]["content"]:
                raise ConnectionError
            return await super().act(messages)

    await evaluate(Flaky(), tasks, Sessions(corpus))
    assert "3/3" in (shown := capsys.readouterr().err)
    assert "score 0.500, infrastructure endings 1" in shown


async def test_bad_arguments_are_named(corpus: Corpus, tasks: list[Task]) -> None:
    with pytest.raises(ValueError, match="'lyon' occurs more than once"):
        await evaluate(OraclePolicy(), [*tasks, tasks[0]], Sessions(corpus), progress=False)
    with pytest.raises(ValueError, match="concurrency and samples"):
        await evaluate(OraclePolicy(), tasks, Sessions(corpus), samples=0, progress=False)
    assert await evaluate(OraclePolicy(), [], Sessions(corpus), progress=False) == []
