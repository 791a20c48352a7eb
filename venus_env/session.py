"""One episode over real tools: runs what the protocol asks for, scores every turn, keeps the record.

The Gymnasium environments, the evaluation runner and the training loop all drive this class, so an episode follows the
same rules and earns the same rewards wherever it is played.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import logging
import platform
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from venus_env.beliefs.base import Belief, BeliefState
from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.episode import Episode
from venus_env.protocol.events import CallTool
from venus_env.protocol.state import EpisodeState
from venus_env.protocol.trajectory import Trajectory, TurnRecord
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS, End, Forced, Message, ToolResult, Turn
from venus_env.rewards.compose import RewardConfig, compose_turn, episode_score, outcome_reward
from venus_env.rewards.information_gain import GainTracker, best_score
from venus_env.rewards.judge import Judge, check_verdict
from venus_env.tasks.task import Task
from venus_env.tools.base import Tool

logger = logging.getLogger(__name__)

# What tools, beliefs and judges may raise without stopping more than their own episode.
_FAILURES = (Exception, asyncio.CancelledError, SystemExit)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What one turn led to.

    Attributes:
        new_messages: Messages that the turn added: the policy's own and, unless the episode ended, the reply.
        reward: Sum of ``reward_terms``; 0.0 where the infrastructure failed, which is no verdict on the policy.
        reward_terms: Named parts of the reward; a part that does not apply is absent.
        end: How the episode ended, ``running`` if it goes on.
        forced: The limit that made the environment ask for a final answer, if it has.
        score: Score of the episode in [0, 1]; None while it runs and where there is nothing to grade.
        done: Whether the episode is over.
        turn: Record of the turn.
    """

    new_messages: list[Message]
    reward: float
    reward_terms: dict[str, float]
    end: End
    forced: Forced | None
    score: float | None
    done: bool
    turn: Turn


class SessionState(BaseModel):
    """A session between two turns; a JSON value through ``model_dump_json``. It holds the task: no policy may see it.

    Attributes:
        task: The task.
        seed: Seed of the episode.
        episode: State of the protocol.
        reward_terms: Reward terms of the turns so far.
        gain_baseline: Score that the next information gain is measured against; None if nothing can be scored.
        verdict: What the judge said of the answer; None without judge or answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    schema_: Literal["venus.state/1"] = Field(default="venus.state/1", alias="schema")
    task: Task
    seed: int | None
    episode: EpisodeState
    reward_terms: list[dict[str, float]]
    gain_baseline: float | None
    verdict: float | None


class ResearchSession:
    """Async driver of one episode: ``await start()``, then ``await step(text)`` until done.

    An object serves one episode, from one task at a time; any number of sessions may share tools and a belief.

    A tool that fails ends the episode as ``tool_failure``, a belief or judge that fails as ``judge_failure``: reward
    0.0, score None. Nothing is retried here, since only a tool knows what is safe to repeat. Cancelling a step aborts
    the episode.

    Args:
        task: The question with its accepted answers, which stay in here.
        toolbox: The tools that the policy may use.
        config: Rules and budgets.
        rewards: What is rewarded.
        belief: Scores the accepted answers for information gain; None leaves information gain out.
        judge: Grades the answer, in place of the rules that ``rewards`` names for outcome and score.
        seed: Seeds everything random in the episode; needed with ``config.turn_jitter`` only.
        count_tokens: Length of a text in tokens; estimated by default.
        clock: Seconds from any fixed point, for ``config.time_limit_s``.
        state: A state to go on from, taken with the same tools and rules; such a session has started already.
    """

    def __init__(
        self,
        task: Task,
        toolbox: Mapping[str, Tool] | Iterable[Tool],
        *,
        config: EpisodeConfig | None = None,
        rewards: RewardConfig | None = None,
        belief: Belief | None = None,
        judge: Judge | None = None,
        seed: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        state: SessionState | None = None,
    ) -> None:
        self.task = task
        self.seed = seed
        self.rewards = rewards or RewardConfig()
        self._belief = belief if self.rewards.information_gain else None
        self._belief_state: BeliefState | None = None
        self._believed = 0  # messages that the belief has taken in
        self._judge = judge
        self._verdict: float | None = None
        self._gains = GainTracker(self.rewards.gain_kind)
        self._reward_terms: list[dict[str, float]] = []
        self._started = state is not None
        if state is None:
            rng = None if seed is None else random.Random(seed)
            self.episode = Episode(task.question, toolbox, config, count_tokens=count_tokens, clock=clock, rng=rng)
        else:
            self.episode = Episode.from_state(
                state.episode, task.question, toolbox, config, count_tokens=count_tokens, clock=clock
            )
            self._verdict = state.verdict
            self._gains.start(state.gain_baseline)
            self._reward_terms = [dict(terms) for terms in state.reward_terms]

    @property
    def messages(self) -> list[Message]:
        """The conversation so far; the episode's own list, not a copy."""
        return self.episode.messages

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.episode.done

    @property
    def score(self) -> float | None:
        """Score of the episode so far, None where there is nothing to grade."""
        return episode_score(self.rewards, self.episode.end, self.episode.answer, self.task.answers, self._verdict)

    async def start(self) -> list[Message]:
        """Open the belief and return the opening messages. If the belief fails, the episode is over at once."""
        if self._started:
            raise RuntimeError("the session has already started; make a new one for another episode")
        self._started = True
        if self._belief is not None:
            try:
                self._gains.start(await self._ask_belief(self._belief))
            except _FAILURES as error:
                _raise_if_cancelled(error)
                self._judgement_failed("belief", error)
        return [message.copy() for message in self.messages]

    async def step(self, text: str) -> StepOutcome:
        """Play one turn: the policy's message, then the tool it calls, then the reward.

        Raises:
            RuntimeError: The session has not started, or the episode is over.
        """
        if not self._started:
            raise RuntimeError("the session has not started: await start() first")
        before = len(self.messages)
        event = self.episode.act(text)
        turn = self.episode.turns[-1]
        try:
            if isinstance(event, CallTool):
                await self._run_tool(event)
            gain = await self._gain(turn)
            outcome = await self._outcome(turn)
        except BaseException as error:  # cancelled, the process is to stop, or the driver's own clock or counter fails
            if not self.done:
                cancelled = isinstance(error, asyncio.CancelledError)
                reason = "was cancelled" if cancelled else f"failed: {type(error).__name__}: {error}"
                self.episode.fail("aborted", f"the step {reason}")
            self._reward_terms.append({})
            raise
        terms = self._compose(turn, gain, outcome)
        self._reward_terms.append(terms)
        return StepOutcome(
            new_messages=[message.copy() for message in self.messages[before:]],
            reward=float(sum(terms.values())),
            reward_terms=dict(terms),
            end=self.episode.end,
            forced=self.episode.forced,
            score=self.score,
            done=self.done,
            turn=turn,
        )

    def set_context_tokens(self, count: int) -> None:
        """Report the conversation's exact length; ends the episode as ``context_limit`` if nothing more fits."""
        self.episode.set_context_tokens(count)

    def cut_off(self) -> None:
        """Ask for the final answer with the next reply, whatever budget is left."""
        self.episode.cut_off()

    def abort(self, reason: str) -> None:
        """End the episode because its driver cannot go on (its policy failed, say); it will not be scored."""
        self.episode.fail("aborted", reason)

    def state(self) -> SessionState:
        """State between two turns; pass it as ``state`` to go on from it, here or in another process.

        Tools and beliefs have no part in it: a belief reads the conversation again when it is next asked.
        """
        if not self._started:
            raise RuntimeError("the session has not started: await start() first")
        return SessionState(
            task=self.task,
            seed=self.seed,
            episode=self.episode.state(),
            reward_terms=[dict(terms) for terms in self._reward_terms],
            gain_baseline=self._gains.baseline,
            verdict=self._verdict,
        )

    def trajectory(self) -> Trajectory:
        """Return the whole record so far, as a snapshot."""
        # A turn that is still under way has no reward terms yet and is left out.
        turns = [
            TurnRecord(**asdict(turn), reward_terms=terms)
            for turn, terms in zip(self.episode.turns, self._reward_terms, strict=False)
        ]
        return Trajectory(
            task=self.task.record(),
            messages=[message.copy() for message in self.messages],
            turns=turns,
            end=self.episode.end,
            forced=self.episode.forced,
            score=self.score,
            usage=asdict(self.episode.usage),
            seed=self.seed,
            metrics={"return": float(sum(sum(terms.values()) for terms in self._reward_terms))},
            versions=dict(_versions()),
            error=self.episode.error,
        )

    async def _run_tool(self, call: CallTool) -> None:
        limit = self.episode.config.tool_timeout_s
        timeout = asyncio.timeout(limit)
        try:
            async with timeout:
                result = await call.tool(call.arguments)
            _check_result(result)
        except _FAILURES as error:
            _raise_if_cancelled(error)
            logger.exception("task %s: tool %r failed on %r", self.task.id, call.tool.name, call.turn.arguments)
            if timeout.expired():
                reason = f"tool {call.tool.name!r} timed out (tool_timeout_s={limit})"
            else:
                reason = f"tool {call.tool.name!r} failed: {type(error).__name__}: {error}"
            self.episode.fail("tool_failure", reason)
        else:
            self.episode.observe(result)

    async def _gain(self, turn: Turn) -> float | None:
        """Information gain of a turn that brought something to read, None if it is not scored."""
        replied = len(self.messages) > turn.message_index + 1
        if self._belief is None or not replied or not self.rewards.scores_turn(turn.kind, turn.tool):
            return None
        try:
            return self._gains.gain(await self._ask_belief(self._belief))
        except _FAILURES as error:
            _raise_if_cancelled(error)
            self._judgement_failed("belief", error)
            return None

    async def _ask_belief(self, belief: Belief) -> float:
        if self._belief_state is None:  # at the start, or after going on from a state
            self._belief_state = belief.open(self.task.question, self.task.answers)
        new, self._believed = self.messages[self._believed :], len(self.messages)
        return best_score(await self._belief_state.update(new))

    async def _outcome(self, turn: Turn) -> float | None:
        """Outcome of an answer turn, None for any other."""
        if turn.kind != "answer":
            return None
        answer = self.episode.answer or ""
        if self._judge is None:
            return outcome_reward(self.rewards, answer, self.task.answers)
        try:
            self._verdict = check_verdict(await self._judge.grade(self.task.question, self.task.answers, answer))
        except _FAILURES as error:
            _raise_if_cancelled(error)
            self._judgement_failed("judge", error)
        return self._verdict

    def _judgement_failed(self, who: str, error: BaseException) -> None:
        logger.exception("task %s: the %s failed", self.task.id, who)
        self.episode.fail("judge_failure", f"the {who} failed: {type(error).__name__}: {error}")

    def _compose(self, turn: Turn, gain: float | None, outcome: float | None) -> dict[str, float]:
        if self.episode.end in INFRASTRUCTURE_ENDS:
            return {}
        return compose_turn(self.rewards, kind=turn.kind, format_ok=turn.format_ok, gain=gain, outcome=outcome)


def _check_result(result: object) -> None:
    if not isinstance(result, ToolResult):
        raise TypeError(f"it returned {type(result).__name__} instead of ToolResult")
    if not isinstance(result.text, str) or not all(isinstance(url, str) for url in result.urls):
        raise TypeError(f"text and urls of a ToolResult are str, got {result!r:.200}")


def _raise_if_cancelled(error: BaseException) -> None:
    """Pass a cancellation on if it is this step that is cancelled, and not something that a tool waited for."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


@functools.cache
def _versions() -> Mapping[str, str]:
    return {"venus_env": importlib.metadata.version("venus-research"), "python": platform.python_version()}
