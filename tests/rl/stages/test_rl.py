from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from venus_env.setting import Setting
from venus_rl.checkpoints import mark_complete
from venus_rl.config import Config, ConfigError
from venus_rl.merge import MergeError
from venus_rl.run_folder import RunFolder
from venus_rl.stages import rl

pytest.importorskip("verl")


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Takes the place of the training process: notes how it was called and leaves what verl leaves."""
    calls: list[dict[str, Any]] = []

    def train(command: list[str], **options: Any) -> None:
        calls.append({"command": command, **options})
        out, steps = Path(command[command.index("--out") + 1]), options["total"]
        checkpoint = out / "checkpoints" / f"global_step_{steps}" / "actor" / "huggingface"
        checkpoint.mkdir(parents=True)
        save_file({"w": torch.tensor([steps])}, checkpoint / "model.safetensors")
        (checkpoint / "config.json").write_text("{}")
        mark_complete(checkpoint.parents[1])

    monkeypatch.setattr(rl, "run_stage", train)
    return calls


def test_run_trains_once_and_more_steps_go_on(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path, trainer: list[dict[str, Any]]
) -> None:
    folder = RunFolder(make_config(rl={"steps": 2}))
    target = rl.run(folder, setting, policy_folder)
    assert load_file(target / "model.safetensors")["w"] == 2
    assert trainer[0]["environment"]["TENSORBOARD_DIR"] == str((folder.root / "rl" / "tensorboard").resolve())
    assert rl.run(folder, setting, policy_folder) == target
    assert len(trainer) == 1

    folder.config.rl.steps = 5
    rl.check(folder, policy_folder)
    rl.run(folder, setting, policy_folder)
    assert load_file(target / "model.safetensors")["w"] == 5
    folder.config.rl.steps = 3  # fewer than were made: the policy in the folder is another one
    with pytest.raises(ConfigError, match=r"rl\.steps=3.*trained for 5: use rl\.steps=5"):
        rl.check(folder, policy_folder)


@pytest.mark.parametrize(
    "change",
    [
        {"rl": {"lr": 0.5}},
        {"rl": {"algorithm": "grpo"}},
        {"env": {"max_turns": 3}},
        {"rollout": {"temperature": 0.5}},
        {"run": {"seed": 1}},
    ],
)
def test_other_settings_are_refused(
    make_config: Callable[..., Config],
    setting: Setting,
    policy_folder: Path,
    trainer: list[dict[str, Any]],
    change: dict[str, Any],
) -> None:
    rl.run(RunFolder(make_config()), setting, policy_folder)
    rl.check(RunFolder(make_config(rl={"save_every": 3, "keep": 4}, eval={"questions": 1})), policy_folder)
    changed = RunFolder(make_config(**change))
    for refused in (lambda: rl.check(changed, policy_folder), lambda: rl.run(changed, setting, policy_folder)):
        with pytest.raises(ConfigError, match="run/rl was made with other settings"):
            refused()
    assert len(trainer) == 1


def test_a_failed_stage_is_not_finished(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rl, "run_stage", lambda *_arguments, **_options: None)  # ended well, but left nothing
    folder = RunFolder(make_config())
    with pytest.raises(MergeError, match="no Hugging Face weights"):
        rl.run(folder, setting, policy_folder)
    assert not (folder.root / "rl" / "finished.json").exists()
