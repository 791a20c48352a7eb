from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from venus_env.beliefs.base import score_incrementally
from venus_env.cli import main
from venus_env.corpus import Corpus, open_corpus
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.tasks.loaders import load_tasks

Run = Callable[..., int]


class NewestWords:
    """A belief that finds an answer the likelier, the longer the newest message."""

    def open(self, question: str, answers: Sequence[str]) -> NewestWords:
        return self

    async def update(self, new_messages: Sequence[Message]) -> list[float]:
        return [-1 / len(new_messages[-1]["content"])]

    async def score(
        self, trajectory: Trajectory, boundaries: Sequence[int], answers: Sequence[str]
    ) -> list[list[float]]:
        return await score_incrementally(self, trajectory, boundaries, answers)


@pytest.fixture(scope="session", autouse=True)
def _embedded() -> Corpus:
    """Keeps the embedded corpus open, so that no command has to open it anew."""
    return open_corpus("embedded")


@pytest.fixture(scope="session")
def task_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few tasks of the embedded world, of two splits."""
    tasks = load_tasks("embedded")
    chosen = [task for split in ("dev", "test") for task in [task for task in tasks if task.split == split][:12]]
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    path.write_text("".join(task.model_dump_json(exclude_defaults=True) + "\n" for task in chosen), encoding="utf-8")
    return path


@pytest.fixture
def rollout(tmp_path: Path, task_file: Path) -> Run:
    """Run ``rollout`` into ``x.jsonl`` on six tasks; of an argument given twice the last one counts."""

    def run(policy: str, *arguments: str, out: str = "x.jsonl") -> int:
        tasks = ["--tasks", str(task_file), "--split", "dev", "--episodes", "6"]
        return main(["rollout", "--policy", policy, *tasks, "--out", str(tmp_path / out), *arguments])

    return run
