"""Play tasks with a policy, many at once, through the same session as training."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tqdm import tqdm

from venus_env.policies.base import EpisodePolicies, Policy, next_turn, start_episode
from venus_env.protocol.trajectory import Trajectory
from venus_env.seeding import derive_seed
from venus_env.session import ResearchSession
from venus_env.tasks.task import Task

logger = logging.getLogger(__name__)

MakeSession = Callable[[Task, int], ResearchSession]
"""Makes the session of one episode from its task and its seed."""


async def evaluate(
    policy: Policy | EpisodePolicies,
    tasks: Sequence[Task],
    make_session: MakeSession,
    *,
    concurrency: int = 64,
    samples: int = 1,
    seed: int = 0,
    progress: bool = True,
) -> list[Trajectory]:
    """Play every task ``samples`` times.

    A policy that raises ends its episode as ``aborted``: such episodes, like those that a tool failed, are returned
    with ``score=None``; :func:`venus_env.evaluation.metrics.summarise` counts them and leaves them out of the scores.

    Args:
        policy: A policy, or a maker of per-episode policies.
        tasks: What to play; ids must be unique.
        make_session: Makes a session; called with the task and the episode's seed.
        concurrency: Most episodes at a time.
        samples: Episodes per task.
        seed: Together with the task's id and the number of the sample it fixes the seed of an episode, so results do
            not depend on the order of tasks or on who finishes first.
        progress: Show a progress bar.

    Returns:
        One trajectory per episode, in the order of the tasks, samples of a task side by side.
    """
    if concurrency < 1 or samples < 1:
        raise ValueError(f"concurrency and samples must be at least 1, got {concurrency} and {samples}")
    ids = [task.id for task in tasks]
    if len(set(ids)) < len(ids):
        twice = next(task_id for task_id in ids if ids.count(task_id) > 1)
        raise ValueError(f"task id {twice!r} occurs more than once: episodes of the two could not be told apart")
    jobs = [(task, derive_seed(seed, task.id, sample)) for task in tasks for sample in range(samples)]
    results: list[Trajectory | None] = [None] * len(jobs)
    waiting = iter(enumerate(jobs))
    with tqdm(total=len(jobs), unit="episode", disable=not progress) as bar:

        async def work() -> None:
            for index, (task, episode_seed) in waiting:
                results[index] = await play_episode(policy, make_session(task, episode_seed), episode_seed)
                bar.update()

        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(jobs))):
                group.create_task(work())
    return [result for result in results if result is not None]


async def play_episode(policy: Policy | EpisodePolicies, session: ResearchSession, seed: int) -> Trajectory:
    """Play one episode to its end."""
    await session.start()
    if session.done:  # the belief failed: there is nothing to play
        return session.trajectory()
    try:
        player = start_episode(policy, session.task, seed)
    except Exception as error:
        _abort(session, error)
    while not session.done:
        try:
            text = await next_turn(player, tuple(session.messages))
        except Exception as error:
            _abort(session, error)
        else:
            await session.step(text)
    return session.trajectory()


def _abort(session: ResearchSession, error: Exception) -> None:
    logger.error("task %s: the policy failed", session.task.id, exc_info=error)
    session.abort(f"the policy failed: {type(error).__name__}: {error}")
