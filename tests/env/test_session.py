import asyncio
import json
import logging
import math
from collections.abc import Sequence
from typing import Any

import pytest

from tests.env.protocol.tools import Lookup, Read
from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.rewards.compose import RewardConfig
from venus_env.session import ResearchSession, SessionState
from venus_env.tasks.task import Task

TASK = Task(id="t1", question="In which country is Lund?", answers=("Sweden", "Kingdom of Sweden"))
SEARCH = render_call("look", "search", {"query": ["Lund"]})
VISIT = render_call("read", "visit", {"url": ["https://x/lund"], "goal": "country"})


class WordBelief:
    """Belief whose score is known by heart: -4 at first, -1 once an answer's words have all been read."""

    def __init__(self, failing_update: int | None = None) -> None:
        self.failing_update = failing_update
        self.batches: list[list[Message]] = []

    def open(self, question: str, answers: Sequence[str]) -> "WordBelief.State":
        return self.State(self, answers)

    async def score(self, trajectory: Trajectory, boundaries: Sequence[int], answers: Sequence[str]) -> Any:
        raise NotImplementedError

    class State:
        def __init__(self, belief: "WordBelief", answers: Sequence[str]) -> None:
            self.belief, self.answers, self.read = belief, answers, ""

        async def update(self, new_messages: Sequence[Message]) -> list[float]:
            self.belief.batches.append(list(new_messages))
            if len(self.belief.batches) - 1 == self.belief.failing_update:
                raise ConnectionError("belief server down")
            self.read += "".join(m["content"] for m in new_messages if m["role"] == "user")
            return [-1.0 if answer in self.read else -4.0 for answer in self.answers]


def make(
    belief: WordBelief | None = None,
    *,
    rewards: RewardConfig | None = None,
    judge: Any = None,
    state: SessionState | None = None,
    **config: Any,
) -> ResearchSession:
    return ResearchSession(
        TASK,
        [Lookup(), Read()],
        config=EpisodeConfig(**config),
        rewards=rewards,
        belief=belief,
        judge=judge,
        seed=3,
        state=state,
    )


async def test_an_episode_with_information_gain() -> None:
    belief = WordBelief()
    session = make(belief)
    opening = await session.start()
    assert [message["role"] for message in opening] == ["system", "user"]

    found = await session.step(SEARCH)
    assert [message["role"] for message in found.new_messages] == ["assistant", "user"]
    assert (found.reward, found.reward_terms) == (0.0, {"information_gain": 0.0})
    assert (found.end, found.score, found.done) == ("running", None, False)

    read = await session.step(VISIT)
    assert read.reward_terms == {"information_gain": 3.0}  # from -4 to -1

    # Word F1 of "in Sweden" against "Sweden": precision 1/2, recall 1, F1 2/3; exact match 0.
    answered = await session.step(render_answer("done", "in Sweden"))
    assert answered.reward == pytest.approx(2 / 3)
    assert answered.reward_terms == {"outcome": answered.reward}
    assert (answered.end, answered.score, answered.done, answered.turn.kind) == ("answered", 0.0, True, "answer")
    assert [message["role"] for message in answered.new_messages] == ["assistant"]

    # The belief has seen every message before the answer exactly once.
    assert [m for batch in belief.batches for m in batch] == session.messages[:-1]

    trajectory = session.trajectory()
    assert trajectory.metrics["return"] == pytest.approx(3 + 2 / 3)
    assert [turn.reward_terms for turn in trajectory.turns][:2] == [
        {"information_gain": 0.0},
        {"information_gain": 3.0},
    ]
    assert trajectory.task == TASK.record()
    assert (trajectory.seed, trajectory.usage["tool_calls"], trajectory.versions["venus_env"]) == (3, 2, "0.1.0")
    line = json.dumps(trajectory.record())
    assert json.loads(line)["schema"] == "venus.trajectory/1"
    assert Trajectory.model_validate_json(line) == trajectory


async def test_visit_only_scoring_telescopes_over_searches() -> None:
    belief = WordBelief()
    session = make(belief, rewards=RewardConfig(gain_turns="visit"))
    await session.start()
    assert (await session.step(SEARCH)).reward_terms == {}
    assert (await session.step(VISIT)).reward_terms == {"information_gain": 3.0}
    assert [len(batch) for batch in belief.batches] == [2, 4]


async def test_without_information_gain_the_belief_is_never_asked() -> None:
    belief = WordBelief()
    session = make(belief, rewards=RewardConfig(information_gain=False))
    await session.start()
    assert (await session.step(VISIT)).reward_terms == {}
    assert belief.batches == []


async def test_bad_form_replaces_gain_and_outcome() -> None:
    session = make(WordBelief())
    await session.start()
    read = await session.step("chatter " + VISIT)
    assert read.turn.tool == "visit"
    assert read.reward_terms == {"format": -1.0}
    # The gain of the badly formed turn is lost, not passed on to the next one.
    assert (await session.step(SEARCH)).reward_terms == {"information_gain": 0.0}
    answered = await session.step("chatter " + render_answer("t", "Sweden"))
    assert (answered.reward, answered.score) == (-1.0, 1.0)


async def test_malformed_turn_and_limit() -> None:
    session = make(max_turns=2)
    await session.start()
    first = await session.step("x")
    assert (first.reward_terms, first.forced) == ({"format": -1.0}, "turn_limit")
    last = await session.step(SEARCH)
    assert (last.end, last.score, last.reward_terms) == ("turn_limit", 0.0, {"format": -1.0})


async def test_gain_counts_when_a_limit_ends_the_episode_without_asking() -> None:
    session = make(WordBelief(), max_turns=1, force_final_answer=False)
    await session.start()
    last = await session.step(VISIT)
    assert (last.end, last.score, last.reward_terms) == ("turn_limit", 0.0, {"information_gain": 3.0})


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("boom", "tool 'visit' failed: ToolError: the server is down"),
        ("slow", "tool 'visit' timed out (tool_timeout_s=0.05)"),
        ("odd", "tool 'visit' failed: TypeError: it returned str instead of ToolResult"),
    ],
)
async def test_tool_failure_is_no_verdict(url: str, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    belief = WordBelief()
    session = make(belief, tool_timeout_s=0.05)
    await session.start()
    with caplog.at_level(logging.ERROR):
        failed = await session.step(render_call("t", "visit", {"url": [url], "goal": "g"}))
    assert (failed.end, failed.reward, failed.reward_terms, failed.score) == ("tool_failure", 0.0, {}, None)
    assert failed.turn.error == reason
    assert len(belief.batches) == 1  # there was nothing to read
    assert "Traceback" in caplog.text
    assert "t1" in caplog.text
    assert session.trajectory().score is None
    with pytest.raises(RuntimeError, match="has ended"):
        await session.step(SEARCH)


async def test_belief_failure_is_no_verdict() -> None:
    session = make(WordBelief(failing_update=1))
    await session.start()
    failed = await session.step(VISIT)
    assert (failed.end, failed.reward_terms, failed.score) == ("judge_failure", {}, None)
    at_once = make(WordBelief(failing_update=0))
    await at_once.start()
    assert at_once.episode.end == "judge_failure"
    assert at_once.trajectory().turns == []


class Grader:
    """A judge who says what it is told to, or raises it."""

    def __init__(self, says: Any) -> None:
        self.says = says
        self.asked: list[tuple[Any, ...]] = []

    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> float:
        self.asked.append((question, tuple(answers), prediction))
        if isinstance(self.says, Exception):
            raise self.says
        return self.says  # type: ignore[no-any-return]


@pytest.mark.parametrize("verdict", [0.25, 1, 0])
async def test_a_judge_says_outcome_and_score(verdict: float) -> None:
    judge = Grader(verdict)
    session = make(judge=judge)
    await session.start()
    await session.step(SEARCH)
    answered = await session.step(render_answer("t", " Norway "))
    assert (answered.reward_terms, answered.score) == ({"outcome": float(verdict)}, float(verdict))
    assert judge.asked == [(TASK.question, TASK.answers, "Norway")]
    assert session.trajectory().score == verdict


async def test_the_judge_is_asked_about_badly_formed_answers_too() -> None:
    session = make(judge=Grader(0.75))
    await session.start()
    answered = await session.step("chatter " + render_answer("t", "Sweden"))
    assert (answered.reward_terms, answered.score) == ({"format": -1.0}, 0.75)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (ConnectionError("503"), "the judge failed: ConnectionError: 503"),
        (None, "the judge failed: TypeError: a judge returns a number in [0, 1], got None"),
        (math.nan, "the judge failed: ValueError: a judge returns a number in [0, 1], got nan"),
    ],
)
async def test_judge_failure_is_no_verdict(says: Any, reason: str) -> None:
    session = make(WordBelief(), judge=Grader(says))
    await session.start()
    await session.step(VISIT)
    failed = await session.step(render_answer("t", "Sweden"))
    assert (failed.end, failed.reward, failed.reward_terms, failed.score) == ("judge_failure", 0.0, {}, None)
    assert failed.turn.error == reason
    trajectory = session.trajectory()
    assert (trajectory.score, [turn.reward_terms for turn in trajectory.turns]) == (
        None,
        [{"information_gain": 3.0}, {}],
    )


async def test_going_on_from_a_state_asks_the_belief_once_about_everything() -> None:
    first = make(WordBelief())
    await first.start()
    await first.step(SEARCH)
    state = SessionState.model_validate_json(first.state().model_dump_json())
    belief = WordBelief()
    second = make(belief, state=state)
    assert belief.batches == []
    with pytest.raises(RuntimeError, match="already started"):
        await second.start()
    assert (await second.step(VISIT)).reward_terms == {"information_gain": 3.0}
    assert [len(batch) for batch in belief.batches] == [6]
    await first.step(VISIT)
    assert second.trajectory() == first.trajectory()
    assert second.state() == first.state()


async def test_there_is_no_state_before_the_start_or_within_a_turn() -> None:
    session = make()
    with pytest.raises(RuntimeError, match="has not started"):
        session.state()
    await session.start()
    session.episode.act(SEARCH)
    with pytest.raises(RuntimeError, match="a result of 'search' is due first"):
        session.state()


async def test_unusable_scores_follow_the_rules_of_information_gain() -> None:
    class Blind(WordBelief):
        class State(WordBelief.State):
            async def update(self, new_messages: Sequence[Message]) -> list[float]:
                await super().update(new_messages)
                return [math.nan]

    session = make(Blind())
    await session.start()
    assert (await session.step(VISIT)).reward_terms == {}


async def test_cancelling_a_step_aborts_the_episode() -> None:
    session = make()
    await session.start()
    step = asyncio.create_task(session.step(render_call("t", "visit", {"url": ["slow"], "goal": "g"})))
    await asyncio.sleep(0.01)
    assert session.trajectory().turns == []  # a snapshot in the middle of a turn
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    trajectory = session.trajectory()
    assert (trajectory.end, trajectory.score, len(trajectory.turns)) == ("aborted", None, 1)


async def test_driver_calls() -> None:
    session = make(max_context_tokens=10_000)
    with pytest.raises(RuntimeError, match="start"):
        await session.step(SEARCH)
    await session.start()
    with pytest.raises(RuntimeError, match="already started"):
        await session.start()
    await session.step(SEARCH)
    session.set_context_tokens(10_000)
    assert (session.done, session.trajectory().end, session.score) == (True, "context_limit", 0.0)
    other = make()
    await other.start()
    other.abort("the policy's server is down")
    assert (other.trajectory().end, other.score) == ("aborted", None)


async def test_sessions_run_side_by_side() -> None:
    sessions = [make(WordBelief()) for _ in range(20)]

    async def play(session: ResearchSession) -> float:
        await session.start()
        outcomes = [await session.step(text) for text in (SEARCH, VISIT, render_answer("t", "Sweden"))]
        return sum(outcome.reward for outcome in outcomes)

    assert await asyncio.gather(*map(play, sessions)) == [4.0] * 20


async def test_jitter_follows_the_seed() -> None:
    config = EpisodeConfig(max_turns=100, turn_jitter=50)

    def limit(seed: int) -> int:
        return ResearchSession(TASK, [Lookup()], config=config, seed=seed).episode.max_turns

    assert limit(1) == limit(1)
    assert len({limit(seed) for seed in range(10)}) > 5
