"""``check_policy``: does a policy keep the contract of :class:`venus_env.policies.base.Policy`?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from venus_env.envs.portal import portal
from venus_env.envs.research import ResearchEnv
from venus_env.policies.base import EpisodePolicies, Policy, next_turn, start_episode
from venus_env.protocol.prompt import forced_answer_request
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS, Message
from venus_env.session import ResearchSession
from venus_env.tasks.task import Task
from venus_env.testing.report import (
    DECLARE,
    UNCOMPARED,
    Doubtful,
    Failed,
    NotApplicable,
    Report,
    expect,
    require_object,
    short,
)

_EPISODES = 2
_REPEATS = 2  # in a row, so that a counter of episodes or calls cannot come round to where it was
_MAX_TURNS = 8


def check_policy(
    policy: Policy | EpisodePolicies,
    env: ResearchEnv | None = None,
    *,
    seed: int = 0,
    nondeterministic: bool = False,
    timeout_s: float = 600.0,
) -> Report:
    """Check a policy on a few episodes.

    Args:
        policy: The policy.
        env: Gives tasks, tools and rules; the embedded questions, eight turns each, by default.
        seed: Seeds the choice of tasks and the episodes.
        nondeterministic: Whether equal seeds, or without ``new_episode`` equal messages, may lead to different turns,
            as with a server that samples freely.
        timeout_s: Seconds after which a single check is given up as failed.

    Raises:
        TypeError: ``policy`` is a class.
    """
    require_object(policy, "check_policy")
    env = env or ResearchEnv(belief=None, max_turns=_MAX_TURNS)
    report = Report(f"policy {type(policy).__name__}", timeout_s)
    portal().run(_PolicyChecks(policy, env, seed, nondeterministic).run(report))
    return report


class _PolicyChecks:
    def __init__(self, policy: Any, env: ResearchEnv, seed: int, nondeterministic: bool) -> None:
        self.policy = policy
        self.env = env
        self.seed = seed
        self.nondeterministic = nondeterministic
        rng = random.Random(seed)
        self.tasks = rng.sample(list(env.tasks), min(_EPISODES, len(env.tasks)))
        self.makes_players = isinstance(policy, EpisodePolicies)
        self.comparable = False  # whether equal seeds or messages have been seen to give equal turns
        self.played: list[ResearchSession] = []

    async def run(self, report: Report) -> None:
        await report.run_async("methods", self.methods)
        if self.makes_players:
            await report.run_async("new episode", self.new_episode, needs=("methods",))
        await report.run_async("act", self.act, needs=("new episode" if self.makes_players else "methods",))
        await report.run_async("episodes", self.episodes, needs=("act",))
        await report.run_async("messages unchanged", self.messages_unchanged, needs=("episodes",))
        await report.run_async("form", self.form, needs=("episodes",))
        if self.makes_players:
            await report.run_async("seeds", self.seeds, needs=("episodes",))
        else:
            await report.run_async("determinism", self.determinism, needs=("episodes",))
        await report.run_async("interleaving", self.interleaving, needs=("episodes",))
        await report.run_async("forced answer", self.forced_answer, needs=("act",))

    def methods(self) -> None:
        expect(
            callable(getattr(self.policy, "act", None)) or self.makes_players,
            f"{type(self.policy).__name__} has neither act(messages) nor new_episode(task, *, seed); write one of them",
        )

    def new_episode(self) -> None:
        needs_task = getattr(self.policy, "needs_task", False)
        expect(isinstance(needs_task, bool), f"needs_task must be a bool, got {needs_task!r}")
        task = self.tasks[0] if needs_task else None
        for seed in (None, self.seed):
            try:
                player = self.policy.new_episode(task, seed=seed)
            except Exception as error:
                given = "a task" if needs_task else "no task"
                raise Failed(
                    f"new_episode with {given} and seed={seed} raised {type(error).__name__}: {error}; accept "
                    "(task=None, *, seed=None). Only a policy that has to see the accepted answers declares needs_task"
                ) from error
            expect(
                callable(getattr(player, "act", None)), f"new_episode gave {short(player)}, which has no act(messages)"
            )

    async def act(self) -> None:
        session = self._session(self.tasks[0])
        opening = await session.start()
        turn = await next_turn(self._player(self.tasks[0]), tuple(opening))
        expect(isinstance(turn, str), f"act must give the text of a turn, got {short(turn)}")

    async def messages_unchanged(self) -> None:
        session = self._session(self.tasks[0])
        await session.start()
        player = self._player(self.tasks[0])
        while not session.done and len(session.episode.turns) < 2:
            given = [message.copy() for message in session.messages]
            turn = await next_turn(player, given)
            expect(
                given == session.messages,
                "act changed the messages that it was given; they belong to the episode: copy before changing "
                "(`[*messages, …]`)",
            )
            await session.step(turn)

    async def episodes(self) -> str:
        for task in self.tasks:
            session = self._session(task)
            await self._play(session)
            self.played.append(session)
        return ", ".join(f"{session.episode.end} after {session.episode.usage.turns} turns" for session in self.played)

    def form(self) -> None:
        turns = [turn for session in self.played for turn in session.episode.turns]
        reasons = [turn.error for turn in turns if turn.kind == "malformed"]
        if len(reasons) == len(turns):
            raise Doubtful(f"all {len(turns)} turns were malformed, the first because: {reasons[0]}")

    async def seeds(self) -> None:
        self._require_determinism()
        advice = (
            "keep no state between episodes and derive all randomness from the seed and the conversation "
            f"(venus_env.seeding.derive_seed), or {DECLARE}"
        )
        for session in self.played:
            for _ in range(_REPEATS):
                again = self._session(session.task)
                await self._play(again)
                self._same(again, session, "another episode with the same seed", advice)
        self.comparable = True

    async def determinism(self) -> None:
        """A policy without episodes of its own is asked about every turn anew."""
        self._require_determinism()
        for session in self.played:
            for number, turn in enumerate(session.episode.turns):
                messages = session.messages[: turn.message_index]
                first, *others = [await next_turn(self.policy, _copied(messages)) for _ in range(_REPEATS)]
                expect(
                    all(other == first for other in others),
                    f"task {session.task.id!r}, turn {number}: asked again on the same messages it wrote "
                    f"{short(others[-1])} instead of {short(first)}; it keeps state between calls or draws at random "
                    f"without a seed: write new_episode(task, *, seed), which gives each episode both, or {DECLARE}",
                )
        self.comparable = True

    def _require_determinism(self) -> None:
        if self.nondeterministic:
            raise NotApplicable("declared nondeterministic: not compared")

    async def interleaving(self) -> None:
        """Evaluation and training play many episodes at a time."""
        played = self.played if len(self.played) > 1 else self.played * 2
        sessions = [self._session(session.task) for session in played]
        players = [self._player(session.task) for session in sessions]
        for session in sessions:
            await session.start()
        while any(not session.done for session in sessions):
            for session, player in zip(sessions, players, strict=True):
                if not session.done:
                    await self._turn(session, player)
        if not self.comparable:
            raise NotApplicable(f"played, {UNCOMPARED}")
        for session, alone in zip(sessions, played, strict=True):
            self._same(session, alone, "an episode played beside another", "keep its state in what new_episode returns")

    async def forced_answer(self) -> None:
        config = self.env.config.model_copy(update={"max_turns": 2, "force_final_answer": True})
        task = self.tasks[0]
        session = ResearchSession(task, self.env.source.setting.tools, config=config, seed=self.seed)
        await self._play(session)
        if session.episode.forced is None:
            raise NotApplicable(f"{session.episode.end} before it was asked")
        if session.episode.end != "answered":
            asked = forced_answer_request(session.episode.forced)
            raise Doubtful(
                f"it was asked for its final answer ({asked!r}) and wrote "
                f"{short(session.messages[-1]['content'])}; an episode without an answer scores 0"
            )

    def _session(self, task: Task) -> ResearchSession:
        return self.env.source.session(task, self.seed)

    def _player(self, task: Task) -> Policy:
        return start_episode(self.policy, task, self.seed)

    async def _play(self, session: ResearchSession) -> None:
        player = self._player(session.task)
        await session.start()
        while not session.done:
            await self._turn(session, player)

    async def _turn(self, session: ResearchSession, player: Policy) -> None:
        number = len(session.episode.turns)
        try:
            turn = await next_turn(player, _copied(session.messages))
        except Exception as error:
            raise Failed(
                f"act raised {type(error).__name__} in turn {number} of task {session.task.id!r}: {error}; that ends "
                "the episode as aborted"
            ) from error
        expect(isinstance(turn, str), f"act must give the text of a turn, got {short(turn)} in turn {number}")
        await session.step(turn)
        end = session.episode.end
        if end in INFRASTRUCTURE_ENDS:
            raise Failed(f"the environment broke down ({end}) in turn {number}: {session.episode.turns[-1].error}")

    @staticmethod
    def _same(session: ResearchSession, expected: ResearchSession, how: str, advice: str) -> None:
        for got, wanted in zip(session.messages, expected.messages, strict=False):
            expect(
                got == wanted,
                f"task {session.task.id!r}: {how} has {short(got['content'])} where there was "
                f"{short(wanted['content'])}; {advice}",
            )
        expect(len(session.messages) == len(expected.messages), f"{how} has another length; {advice}")


def _copied(messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(message.copy() for message in messages)
