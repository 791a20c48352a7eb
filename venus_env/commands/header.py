"""``venus.rollout/1``: the settings that a trajectory file was recorded with, in ``FILE.json`` beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from venus_env.commands.errors import CommandError
from venus_env.evaluation.card import write_text_atomic
from venus_env.rewards.compose import RewardConfig


class RolloutHeader(BaseModel):
    """What the episodes of a file have in common.

    Attributes:
        schema_: Name of the format.
        policy: Who played: a name, settings of generation, a hash of the weights or of the module's file.
        env: The environment (:class:`venus_env.setting.EnvConfig`) without the places of its corpus and tasks.
        rewards: What was rewarded.
        belief: Who scored information gain, as on the command line; None for nobody.
        judge: Who graded the answers, as on the command line; None for the rules in ``rewards``.
        seed: Seed of the run.
        split: Part of the tasks.
        corpus_hash: Hash of the corpus.
        tasks_hash: Hash of all tasks of that part.
        versions: Python and the packages that results depend on.
        sources: Where corpus, tasks and policy were found. They may differ between runs, what they hold may not.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_: Literal["venus.rollout/1"] = Field(default="venus.rollout/1", alias="schema")
    policy: dict[str, Any]
    env: dict[str, Any]
    rewards: RewardConfig
    belief: str | None
    judge: str | None
    seed: int
    split: str
    corpus_hash: str
    tasks_hash: str
    versions: dict[str, str]
    sources: dict[str, Any]


def header_path(trajectories: Path) -> Path:
    """Where the header of a trajectory file is, also after the file has been compressed."""
    return trajectories.with_name(f"{trajectories.name.removesuffix('.gz')}.json")


def read_header(trajectories: Path) -> RolloutHeader | None:
    """Read the header of a trajectory file; None if it has none.

    Raises:
        CommandError: It is damaged.
    """
    path = header_path(trajectories)
    try:
        return RolloutHeader.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise CommandError(
            f"{path} is no header of a trajectory file (venus.rollout/1): restore it, or name another --out"
        ) from error


def claim(trajectories: Path, header: RolloutHeader) -> None:
    """Write the header of a file that is new or empty; whoever calls this holds the file's lock.

    Raises:
        CommandError: As :func:`require_same_settings`.
    """
    require_same_settings(trajectories, header)
    if trajectories.stat().st_size == 0:
        write_text_atomic(header_path(trajectories), header.model_dump_json(by_alias=True, indent=2) + "\n")


def require_same_settings(trajectories: Path, header: RolloutHeader) -> None:
    """Check that a file, unless it is new or empty, was recorded with these settings.

    Raises:
        CommandError: The file was recorded with other settings, or nothing tells with which.
    """
    if not trajectories.exists() or trajectories.stat().st_size == 0:
        return
    recorded = read_header(trajectories)
    if recorded is None:
        raise CommandError(
            f"{trajectories} exists, but not {header_path(trajectories).name}, which tells how it was recorded: "
            "name another --out"
        )
    differences = list(_differences(_compared(recorded), _compared(header)))
    if differences:
        raise CommandError(
            f"{trajectories} was recorded with other settings ({'; '.join(differences)}): name another --out"
        )


def _compared(header: RolloutHeader) -> dict[str, Any]:
    return header.model_dump(mode="json", exclude={"sources", "schema_"})


def _differences(recorded: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name in sorted(recorded.keys() | wanted.keys()):
        before, now = recorded.get(name), wanted.get(name)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from _differences(before, now, f"{prefix}{name}.")
        elif before != now:
            yield f"{prefix}{name} was {json.dumps(before)}, now {json.dumps(now)}"
