"""``venus.result/1``: the result card, everything needed to read a score and to get it again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from venus_env.evaluation.metrics import Estimate, Summary, summarise
from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.prompt import system_prompt
from venus_env.protocol.schema import tool_schema
from venus_env.protocol.trajectory import Trajectory
from venus_env.rewards.compose import RewardConfig
from venus_env.tools.base import Tool

_PACKAGES = ("venus-research", "gymnasium", "numpy", "bm25s", "torch", "transformers", "verl", "vllm")


class ResultCard(BaseModel):
    """The record of one evaluation. It holds no clock value: the same run writes the same card.

    Attributes:
        schema_: Name of the format.
        policy: Who answered, in words, with its sampling settings.
        versions: Python and the installed packages that matter.
        seed: Seed of the evaluation.
        samples: Episodes per question.
        corpus_hash: Content hash of the corpus.
        tasks_hash: Hash of ids, questions and answers.
        prompt_hash: Hash of the system prompt.
        tools: Tool schemas as the prompt shows them.
        judge: Name of the judging model; None where answers are compared as text.
        budgets: The rules and limits of an episode.
        rewards: What was rewarded.
        scores: The figures.
        baselines: Scores to compare with, e.g. ``closed_book`` and ``single_search``.
        notes: Anything else, e.g. the path of a checkpoint.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_: Literal["venus.result/1"] = Field(default="venus.result/1", alias="schema")
    policy: dict[str, Any]
    versions: dict[str, str]
    seed: int
    samples: int
    corpus_hash: str
    tasks_hash: str
    prompt_hash: str
    tools: list[dict[str, Any]]
    judge: str | None = None
    budgets: EpisodeConfig
    rewards: RewardConfig
    scores: Summary
    baselines: dict[str, Estimate] = Field(default_factory=dict)
    notes: dict[str, str] = Field(default_factory=dict)


def make_card(
    trajectories: Sequence[Trajectory],
    *,
    policy: dict[str, Any],
    seed: int,
    samples: int,
    corpus_hash: str,
    tools: Sequence[Tool],
    config: EpisodeConfig,
    rewards: RewardConfig,
    judge: str | None = None,
    baselines: dict[str, Estimate] | None = None,
    notes: dict[str, str] | None = None,
) -> ResultCard:
    """Sum up an evaluation; the arguments are those that the evaluation was run with."""
    return ResultCard(
        policy=policy,
        versions=installed_versions(),
        seed=seed,
        samples=samples,
        corpus_hash=corpus_hash,
        tasks_hash=_tasks_hash(trajectories),
        prompt_hash=_sha256(system_prompt(tools, config.prompt, config.current_date)),
        tools=[tool_schema(tool) for tool in tools],
        judge=judge,
        budgets=config,
        rewards=rewards,
        scores=summarise(trajectories),
        baselines=baselines or {},
        notes=notes or {},
    )


def write_card(card: ResultCard, path: str | Path) -> None:
    """Write a card as JSON; a reader sees the old file or the whole new one, never a part."""
    write_text_atomic(path, card.model_dump_json(by_alias=True, indent=2) + "\n")


def read_card(path: str | Path) -> ResultCard:
    """Read a card back.

    Raises:
        ValueError: The file is no ``venus.result/1``.
    """
    try:
        return ResultCard.model_validate_json(Path(path).read_text(encoding="utf-8"))
    except ValidationError as error:
        raise ValueError(f"{path} is no venus.result/1 card: {error}") from error


def write_text_atomic(path: str | Path, text: str) -> None:
    """Write a text file in one step: into a file beside it, flushed to disk, then renamed."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)  # mkstemp makes files that only their owner can read
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on, where installed."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _tasks_hash(trajectories: Sequence[Trajectory]) -> str:
    tasks = {str(each.task["id"]): [each.task["question"], list(each.task["answers"])] for each in trajectories}
    return _sha256(json.dumps(sorted(tasks.items()), ensure_ascii=False))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
