from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from venus_rl.checkpoints import mark_complete
from venus_rl.config import Config, ConfigError
from venus_rl.run_folder import RunFolder
from venus_rl.stages import sft
from venus_rl.stages.data import TrainData

DATA = TrainData(Path("sft.parquet"), rows=50, longest=300, fingerprint="data")


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_metrics_of_interrupted_attempts_are_merged_by_step(tmp_path: Path) -> None:
    raw, metrics = tmp_path / "verl-metrics.jsonl", tmp_path / "metrics.jsonl"
    raw.write_text(lines(*({"step": n, "data": {"train/loss": n}} for n in (1, 2, 3))) + '{"step": 4, "da')
    sft._collect(raw, metrics)
    assert not raw.exists()
    # The second attempt resumes from the checkpoint of step 2 and repeats step 3.
    raw.write_text(lines(*({"step": n, "data": {"train/loss": 10 * n}} for n in (3, 4))))
    sft._collect(raw, metrics)
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [(row["step"], row["train/loss"]) for row in rows] == [(1, 1), (2, 2), (3, 30), (4, 40)]
    sft._collect(raw, metrics)  # nothing new
    assert [json.loads(line) for line in metrics.read_text().splitlines()] == rows


@pytest.mark.parametrize(
    ("groups", "batch", "steps"),
    [
        ({"sft": {"batch_size": 8}}, 8, 6),  # 50 // 8
        ({"sft": {"batch_size": 8, "epochs": 3}}, 8, 18),  # 150 // 8
        ({"sft": {"batch_size": 8, "steps": 100}}, 8, 100),
        ({"sft": {"batch_size": 64}}, 50, 1),  # all there is
        ({"sft": {"batch_size": 64}, "run": {"processes": 4}}, 48, 1),  # all that divides
    ],
)
def test_batch_and_steps(
    make_config: Callable[..., Config], policy_folder: Path, groups: dict[str, Any], batch: int, steps: int
) -> None:
    assert sft._plan(make_config(**groups), policy_folder, DATA)[:2] == (batch, steps)


def test_too_few_conversations_are_named(make_config: Callable[..., Config], policy_folder: Path) -> None:
    folder = RunFolder(make_config(run={"processes": 51}))
    with pytest.raises(ConfigError, match=r"50 conversations are too few for run\.processes=51: raise data\.oracle"):
        sft.check(folder, policy_folder, DATA)


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Takes the place of the training process: notes how it was called and leaves what verl leaves."""
    calls: list[dict[str, Any]] = []

    def train(command: list[str], **options: Any) -> None:
        calls.append({"command": command, **options})
        value = dict(pairwise(command))
        checkpoint = Path(value["--out"]) / "checkpoints" / f"global_step_{value['--steps']}" / "huggingface"
        checkpoint.mkdir(parents=True)
        save_file({"w": torch.ones(1)}, checkpoint / "model.safetensors")
        (checkpoint / "config.json").write_text("{}")
        mark_complete(checkpoint.parent)
        rows = lines(*({"step": n, "data": {"train/loss": 1.0}} for n in range(1, int(value["--steps"]) + 1)))
        options["metrics"].write_text(rows)

    monkeypatch.setattr(sft, "run_stage", train)
    return calls


def test_run_trains_once_and_collects(
    make_config: Callable[..., Config], policy_folder: Path, trainer: list[dict[str, Any]]
) -> None:
    folder = RunFolder(make_config(sft={"batch_size": 8}))
    target = sft.run(folder, policy_folder, DATA)
    (call,) = trainer
    assert (call["total"], call["environment"]["OMP_NUM_THREADS"]) == (6, "1")
    assert call["command"][call["command"].index("--longest") + 1] == "300"
    assert target == folder.root / "sft" / "model"
    assert load_file(target / "model.safetensors")["w"] == 1
    metrics = (folder.root / "sft" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in metrics] == [1, 2, 3, 4, 5, 6]
    assert sft.run(folder, policy_folder, DATA) == target
    assert len(trainer) == 1
    sft.check(folder, policy_folder, DATA)


@pytest.mark.parametrize(("key", "value"), [("lr", 0.5), ("epochs", 2), ("batch_size", 16)])
def test_other_settings_are_refused_and_bookkeeping_is_not(
    make_config: Callable[..., Config], policy_folder: Path, trainer: list[dict[str, Any]], key: str, value: float
) -> None:
    folder = RunFolder(make_config(sft={"batch_size": 8}))
    sft.run(folder, policy_folder, DATA)
    folder.config.sft.save_every, folder.config.sft.keep = 3, 5
    sft.check(folder, policy_folder, DATA)
    setattr(folder.config.sft, key, value)
    with pytest.raises(ConfigError, match="made with other settings"):
        sft.run(folder, policy_folder, DATA)
    assert len(trainer) == 1


def test_other_conversations_are_refused(
    make_config: Callable[..., Config], policy_folder: Path, trainer: list[dict[str, Any]]
) -> None:
    folder = RunFolder(make_config())
    sft.run(folder, policy_folder, DATA)
    with pytest.raises(ConfigError, match="made with other settings"):
        sft.check(folder, policy_folder, TrainData(DATA.file, DATA.rows, DATA.longest, "other"))
