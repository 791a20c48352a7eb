"""verl on its CPU platform, whatever process these tests run in, and verl's own configuration of a run."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from venus_rl.config import Config

pytest.importorskip("verl")


@pytest.fixture(scope="session", autouse=True)
def _cpu_platform() -> Iterator[None]:
    from verl.plugin.platform import platform_manager

    from venus_rl.verl_plugin.platform_cpu import PlatformCPU

    before = platform_manager._current_platform
    platform_manager.set_platform(PlatformCPU())
    yield
    platform_manager._current_platform = before


@pytest.fixture(scope="session")
def rl_config(policy_folder: Path) -> Callable[..., Any]:
    """Compose verl's configuration of the RL stage; groups are given as dicts."""
    from venus_rl.verl_plugin.options import rl_options
    from venus_rl.verl_plugin.rl import verl_config

    @functools.cache  # a composition takes half a second
    def composed(groups: str) -> Any:
        out = Path("out")
        options = rl_options(
            Config.model_validate_json(groups),
            model=policy_folder,
            train_file=out / "prompts.parquet",
            agent_loop_file=out / "agent_loop.yaml",
            checkpoints=out / "checkpoints",
        )
        return verl_config("ppo_trainer", options)

    return lambda **groups: copy.deepcopy(composed(json.dumps(groups)))
