"""Play tasks with a policy, many at once, through the same session as training."""

from __future__ import annotations

import asyncio
import logging
import reprlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tqdm import tqdm

from venus_env.policies.base import EpisodePolicies, Policy, next_turn, start_episode
from venus_env.policies.errors import ContextFull, PolicyError
from venus_env.protocol.parser import clean_text
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS
from venus_env.seeding import derive_seed
from venus_env.session import ResearchSession
from venus_env.tasks.task import Task

logger = logging.getLogger(__name__)

MakeSession = Callable[[Task, int], ResearchSession]
"""Makes the session of one episode from its task and its seed."""

OnEpisode = Callable[[Trajectory], None]
"""Takes an episode as soon as it has ended."""


async def evaluate(
    policy: Policy | EpisodePolicies,
    tasks: Sequence[Task],
    make_session: MakeSession,
    *,
    concurrency: int = 64,
    samples: int = 1,
    seed: int = 0,
    skip: Collection[tuple[str, int]] = (),
    on_episode: OnEpisode | None = None,
    progress: bool = True,
) -> list[Trajectory]:
    """Play every task ``samples`` times.

    Whatever goes wrong in one episode (the policy raises or returns something else than text, the session cannot be
    made, started or stepped) ends that episode as ``aborted`` and is logged; the others go on. Such episodes, like
    those that a tool failed, are returned with ``score=None``; :func:`venus_env.evaluation.metrics.summarise` counts
    them and leaves them out of the scores. If no session at all can be made, the fault is in the settings that all of
    them share, and the first error is raised instead.

    Args:
        policy: A policy, or a maker of per-episode policies.
        tasks: What to play; ids must be unique.
        make_session: Makes a session; called with the task and the episode's seed.
        concurrency: Most episodes at a time.
        samples: Episodes per task.
        seed: Together with the task's id and the number of the sample it fixes the seed of an episode, so results do
            not depend on the order of tasks or on who finishes first.
        skip: Episodes to leave out, by task id and episode seed, because an earlier run has played them.
        on_episode: Called with each episode as it ends, in order of ending; what it raises stops the evaluation. When
            the evaluation is cancelled, it has been called for every episode that had ended.
        progress: Show a progress bar with the mean score and the number of infrastructure endings so far.

    Returns:
        One trajectory per episode, in the order of the tasks, samples of a task side by side.

    Raises:
        ValueError: ``concurrency`` or ``samples`` is less than 1, or a task id occurs twice.
    """
    if concurrency < 1 or samples < 1:
        raise ValueError(f"concurrency and samples must be at least 1, got {concurrency} and {samples}")
    ids = [task.id for task in tasks]
    if len(set(ids)) < len(ids):
        twice = next(task_id for task_id in ids if ids.count(task_id) > 1)
        raise ValueError(f"task id {twice!r} occurs more than once: episodes of the two could not be told apart")
    jobs = [(task, derive_seed(seed, task.id, sample)) for task in tasks for sample in range(samples)]
    jobs = [(task, episode_seed) for task, episode_seed in jobs if (task.id, episode_seed) not in skip]
    results: list[Trajectory | None] = [None] * len(jobs)
    sessions = _Sessions(make_session)
    with _Progress(len(jobs), on_episode, show=progress) as report:

        def end(index: int, trajectory: Trajectory) -> None:
            results[index] = trajectory
            report(trajectory)

        async def work() -> None:
            for index, (task, episode_seed) in waiting:
                session = sessions.make(index, task, episode_seed)
                for unmade in sessions.settled():
                    end(*unmade)
                if session is not None:
                    end(index, await play_episode(policy, session, episode_seed))

        waiting = iter(enumerate(jobs))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(jobs))):
                    group.create_task(work())
        except ExceptionGroup as errors:  # a worker raises only what on_episode has raised
            raise errors.exceptions[0] from None
        sessions.require_one()
    return [result for result in results if result is not None]


async def play_episode(policy: Policy | EpisodePolicies, session: ResearchSession, seed: int) -> Trajectory:
    """Play one episode to its end; whatever fails on the way ends it as ``aborted``.

    Only a policy whose window is full has failed by itself: that ends as ``context_limit``.

    What a policy made for this episode has counted in an attribute ``usage`` goes into ``usage["policy"]``.
    """
    player: Policy | None = None
    failed = "the session"
    try:
        await session.start()
        failed = "the policy"
        if not session.done:  # otherwise the belief failed: there is nothing to play
            player = start_episode(policy, session.task, seed)
        while player is not None and not session.done:
            failed = "the policy"
            try:
                text = await _text(player, session)
            except ContextFull as full:
                logger.info("task %s: %s", session.task.id, full)
                session.set_context_tokens(session.episode.config.max_context_tokens)
                break
            failed = "the session"
            await session.step(text)
            await asyncio.sleep(0)  # where nothing else waits, a cancellation gets its chance here
    except Exception as trouble:
        error = clean_text(f"{failed} failed: {type(trouble).__name__}: {trouble}")
        known = isinstance(trouble, PolicyError)  # a server that is down, say: a traceback would tell nothing more
        logger.error("task %s: %s", session.task.id, error, exc_info=None if known else trouble)
        if not session.done:
            session.abort(error)
    trajectory = session.trajectory()
    usage = getattr(player, "usage", None)
    if isinstance(usage, Mapping) and player is not policy:
        trajectory.usage["policy"] = {clean_text(str(k)): v for k, v in usage.items() if isinstance(v, int | float)}
    return trajectory


async def _text(player: Policy, session: ResearchSession) -> str:
    try:
        text = await next_turn(player, tuple(message.copy() for message in session.messages))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # It waits for something that was cancelled elsewhere; let through, this would end our worker without a trace.
        raise RuntimeError(f"{type(player).__name__}.act was cancelled") from None
    if not isinstance(text, str):
        raise TypeError(f"{type(player).__name__}.act returned {reprlib.repr(text)} instead of text")
    return text


class _Sessions:
    """Makes sessions, and holds back those that cannot be made until it is known that others can."""

    def __init__(self, make_session: MakeSession) -> None:
        self._make = make_session
        self._made_one = False
        self._unmade: list[tuple[int, Trajectory]] = []
        self._first_error: Exception | None = None

    def make(self, index: int, task: Task, seed: int) -> ResearchSession | None:
        try:
            session = self._make(task, seed)
        except Exception as error:
            self._first_error = self._first_error or error
            logger.error("task %s: its session cannot be made: %s: %s", task.id, type(error).__name__, error)
            reason = clean_text(f"the session cannot be made: {type(error).__name__}: {error}")
            lost = Trajectory(task=task.record(), messages=[], turns=[], end="aborted", seed=seed, error=reason)
            self._unmade.append((index, lost))
            return None
        self._made_one = True
        return session

    def settled(self) -> Iterator[tuple[int, Trajectory]]:
        """Episodes that are lost for sure, each once."""
        while self._made_one and self._unmade:
            yield self._unmade.pop(0)

    def require_one(self) -> None:
        if not self._made_one and self._first_error is not None:
            raise self._first_error


class _Progress:
    """The progress bar; takes each episode that has ended and passes it on."""

    def __init__(self, total: int, on_episode: OnEpisode | None, *, show: bool) -> None:
        self._bar = tqdm(total=total, unit="episode", disable=not show or total == 0)
        self._on_episode = on_episode
        self._score, self._graded, self._lost = 0.0, 0, 0

    def __call__(self, trajectory: Trajectory) -> None:
        if self._on_episode is not None:
            self._on_episode(trajectory)
        self._lost += trajectory.end in INFRASTRUCTURE_ENDS
        if trajectory.score is not None:
            self._score += trajectory.score
            self._graded += 1
        mean = f"{self._score / self._graded:.3f}" if self._graded else "-"
        self._bar.set_postfix_str(f"score {mean}, infrastructure endings {self._lost}", refresh=False)
        self._bar.update()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
