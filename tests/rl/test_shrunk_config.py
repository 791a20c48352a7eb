"""The configuration for GPU nodes on a CPU: only the model's shape is shrunk, every other setting stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from venus_env.protocol.trajectory import Trajectory
from venus_rl.config import load_config

pytest.importorskip("verl")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "dr-venus-4b.yaml"
# How much is done; nothing of how. 128 rollouts take several minutes.
PROMPTS, GROUP = 8, 2
AMOUNT = [
    "run.threads=1",
    "sft.enabled=false",
    "rl.steps=1",
    f"rl.prompts={PROMPTS}",
    f"rl.group={GROUP}",
    "eval.stages=[]",
]


def test_one_rl_step_of_the_4b_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "venus_rl.train", "--config", str(CONFIG), "model.shrink=16", f"run.dir={folder}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *AMOUNT], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]

    (row,) = [json.loads(line) for line in (folder / "rl" / "metrics.jsonl").read_text().splitlines()]
    assert row["step"] == 1
    lines = (folder / "rl" / "trajectories" / "step-00001.jsonl").read_text(encoding="utf-8").splitlines()
    episodes = [Trajectory.model_validate_json(line) for line in lines]
    config = load_config(folder / "config.yaml", [])
    assert len(episodes) == PROMPTS * GROUP
    assert config.run.device == "cpu"
    assert config.env.max_context_tokens == 261_000
    shape = json.loads((folder / "rl" / "model" / "config.json").read_text())
    assert (shape["num_hidden_layers"], shape["hidden_size"], shape["max_position_embeddings"]) == (2, 160, 262_144)
