"""Expert trajectories from the environment itself: the oracle plays training questions through the real tools.

Only episodes whose answer is right are kept; the others are counted. The result is ``venus.trajectory/1``, which
:mod:`venus_rl.data.build` reads like any other source.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import venus_env
from venus_env.evaluation.runner import evaluate
from venus_env.policies.scripted import OracleEpisode, OraclePolicy
from venus_env.protocol.trajectory import Trajectory
from venus_env.seeding import derive_seed
from venus_env.setting import Setting
from venus_env.tasks.task import Task
from venus_rl.data.artifact import Artifact, produce, source_hash, summary

TRAJECTORIES_FILE = "trajectories.jsonl"


class OracleMix:
    """Oracles of which a share opens a wrong page once and comes back, so that the policy learns to recover.

    Args:
        recover: That share, in [0, 1].
        seed: Fixes which episodes they are and everything the oracle draws.
    """

    needs_task: ClassVar[bool] = True

    def __init__(self, recover: float, seed: int) -> None:
        if not 0 <= recover <= 1:
            raise ValueError(f"recover must be a share in [0, 1], not {recover}")
        self._recover = recover
        self._seed = seed

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> OracleEpisode:
        """Draw the style of the episode and start it."""
        drawn = derive_seed(self._seed, "style", task.id if task else "", -1 if seed is None else seed)
        style = "recover" if random.Random(drawn).random() < self._recover else "direct"
        return OraclePolicy("recover" if style == "recover" else "direct", self._seed).new_episode(task, seed=seed)


def record_oracle(
    setting: Setting,
    tasks: Sequence[Task],
    out: str | Path,
    *,
    episodes: int | None = None,
    recover: float = 0.2,
    seed: int = 0,
    concurrency: int = 64,
    progress: bool = True,
) -> Artifact:
    """Record oracle episodes; reuse the result of an earlier run with the same inputs.

    Must be called outside of a running event loop.

    Args:
        setting: Corpus, tools and rules to play in; the trained policy should see the same ones.
        tasks: Training questions.
        out: Folder under which the result's own folder lies.
        episodes: Number of episodes; one per task if None. Beyond the number of tasks they are played again with other
            seeds.
        recover: Share of episodes with a detour.
        seed: Fixes the order of tasks and all that the oracle draws.
        concurrency: Episodes at the same time.
        progress: Show progress.

    Returns:
        The result: ``trajectories.jsonl`` and a report on what was kept.

    Raises:
        ValueError: No episode was answered correctly.
    """
    wanted = len(tasks) if episodes is None else episodes
    records = "\n".join(task.model_dump_json() for task in tasks)
    inputs = {
        "code": source_hash(venus_env),
        "setting": setting.config.model_dump(mode="json"),
        "corpus": setting.corpus.content_hash,
        "tasks": hashlib.sha256(records.encode()).hexdigest(),
        "episodes": wanted,
        "recover": recover,
        "seed": seed,
    }

    def write(folder: Path) -> Mapping[str, Any]:
        kept: list[Trajectory] = []
        dropped: Counter[str] = Counter()
        policy = OracleMix(recover, seed)
        for number, batch in enumerate(_passes(tasks, wanted, seed)):
            played = evaluate(
                policy,
                batch,
                setting.session,
                concurrency=concurrency,
                seed=derive_seed(seed, "oracle", number),
                progress=progress,
            )
            for trajectory in asyncio.run(played):
                if trajectory.score == 1.0:
                    kept.append(trajectory)
                else:
                    dropped["wrong_answer" if trajectory.end == "answered" else trajectory.end] += 1
        if not kept:
            raise ValueError(f"the oracle answered none of {wanted} episodes correctly: {dict(dropped)}")
        with (folder / TRAJECTORIES_FILE).open("w", encoding="utf-8") as file:
            file.writelines(trajectory.model_dump_json(by_alias=True) + "\n" for trajectory in kept)
        return {
            "episodes": wanted,
            "kept": len(kept),
            "dropped": dict(sorted(dropped.items())),
            "turns": summary([len(trajectory.turns) for trajectory in kept]),
        }

    return produce(Path(out), "oracle", inputs, write)


def _passes(tasks: Sequence[Task], episodes: int, seed: int) -> Iterator[list[Task]]:
    """Go through the tasks as often as needed, in a new order each time."""
    number = 0
    while episodes > 0:
        order = list(tasks)
        random.Random(derive_seed(seed, "order", number)).shuffle(order)
        yield order[:episodes]
        episodes -= len(order)
        number += 1
