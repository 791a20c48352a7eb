from __future__ import annotations

import json
import re
import tomllib
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rl.conftest import World
from venus_rl import doctor, estimate
from venus_rl.config import Config, load_config
from venus_rl.sizing import GIB

ROOT = Path(__file__).resolve().parents[2]
FOUR = ROOT / "configs" / "dr-venus-4b.yaml"
Usage = namedtuple("Usage", "total used free")

Command = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def command(world: World, policy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the doctor on the small world; returns exit status and its JSON."""

    def run(*arguments: str, config: Path | None = None) -> tuple[int, dict[str, Any]]:
        given = [
            f"env.corpus={world.corpus}",
            f"env.tasks={world.tasks}",
            f"run.dir={tmp_path / 'run'}",
            "run.threads=1",
        ]
        model = [] if config else [f"model.path={policy_folder}"]
        files = ["--config", str(config)] if config else []
        status = doctor.main([*files, *model, *given, "--json", *arguments])
        return status, json.loads(capsys.readouterr().out)

    return run


def found(result: dict[str, Any], key: str) -> dict[str, str]:
    (finding,) = [finding for finding in result["findings"] if finding["key"] == key]
    return dict(finding)


def test_a_configuration_that_works_has_no_error(command: Command, tmp_path: Path) -> None:
    status, result = command()
    assert [finding for finding in result["findings"] if finding["level"] == "error"] == []
    assert status == 0
    assert found(result, "coverage")["value"] == "8 of 8"
    assert result["estimate"]["full"]["tokens_per_step"] == 64 * 1024
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "key", "words"),
    [
        (["rl.group=1"], "rl.group", "no group to compare with"),
        (["rl.prompts=4", "rollout.workers=5", "--gpu", "h200"], "rollout.workers", "only rl.prompts=4"),
        (["env.max_context_tokens=4096"], "model.path", "more tokens than the model in"),
        (["env.corpus=/nowhere.jsonl"], "env", "/nowhere.jsonl"),
        (["model.path=/nowhere"], "tokenizer", "no tokenizer files"),
        (["run.device=cuda"], "gpu.per_node", "sees no GPU"),
        (["gpu.per_node=8", "gpu.tensor_parallel=3", "--gpu", "h200"], "gpu.tensor_parallel", "does not divide 8 GPUs"),
    ],
)
def test_errors_have_key_and_reason_and_status_1(command: Command, arguments: list[str], key: str, words: str) -> None:
    status, result = command(*arguments)
    assert status == 1
    assert found(result, key)["level"] == "error"
    assert words in found(result, key)["text"]


def test_a_full_disk_is_seen_before_the_checkpoint(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate.shutil, "disk_usage", lambda _: Usage(100, 99, 1))
    assert found(command()[1], "disk")["level"] == "error"


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_4b_configuration_fits_its_gpus(command: Command, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate.shutil, "disk_usage", lambda _: Usage(0, 0, 10_000 * GIB))
    # The small world has 8 questions to train on.
    _, result = command("--gpu", "a100-80gb", f"gpu.nodes={nodes}", "rl.prompts=8", config=FOUR)
    errors = {finding["key"] for finding in result["findings"] if finding["level"] == "error"}
    assert errors <= {"model.path", "tokenizer"}  # its weights are not here
    assert 20 * GIB < sum(result["estimate"]["training_memory"].values()) < 40 * GIB
    assert result["estimate"]["usual"]["seconds_per_step"] > 100
    assert ("run.dir" in {finding["key"] for finding in result["findings"]}) == (nodes == 2)


def test_logits_are_named_where_they_do_not_fit(command: Command) -> None:
    arguments = ["--gpu", "l40s", "gpu.fused_logits=false", "rl.prompts=8", "--tasks", "0"]
    finding = found(command(*arguments, config=FOUR)[1], "training memory")
    assert (finding["level"], finding["fix"]) == ("error", "set gpu.fused_logits=true")
    assert "the most is logits" in finding["text"]


def test_a_shrunk_model_is_checked_as_such(command: Command) -> None:
    status, result = command("model.shrink=16", "rl.prompts=8", config=FOUR)
    assert (status, found(result, "run.device")["value"]) == (0, "cpu")
    assert result["estimate"]["parameters"] < 2e6
    assert found(result, "model.path")["level"] == "ok"


def test_prices_and_fill_move_the_estimate(command: Command) -> None:
    usual = command("--gpu", "h200", "--tasks", "0")[1]["estimate"]["usual"]
    priced = command("--gpu", "h200", "--tasks", "0", "--price-tool-call", "0.5", "--fill", "1")[1]["estimate"]
    assert usual["tool_calls_per_step"] == 64 * 3
    assert priced["usual"] == priced["full"]
    assert priced["full"]["price_per_step"] == pytest.approx(64 * 9 * 0.5, abs=0.1)


def test_the_text_names_every_finding(world: World, policy_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [f"env.corpus={world.corpus}", f"env.tasks={world.tasks}", f"model.path={policy_folder}"]
    assert doctor.main([*given, "rl.group=1", "--gpu", "h200", "--tasks", "0"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "error    rl.group=1 has no group to compare with; use rl.group=2 or more" in lines
    assert any(line.startswith("  usual episodes (384 tokens, 4 turns)") for line in lines)


def test_an_unreadable_configuration_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main(["gpu.nodez=2"]) == 2
    assert "did you mean 'gpu.nodes'?" in capsys.readouterr().err


def test_pins_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["train"]
    pinned = dict(re.fullmatch(r"(.+)==(.+)", line).groups() for line in extras if "==" in line)  # type: ignore[union-attr]
    assert {name: pinned[name] for name in (*doctor.PINS, *doctor.CPU_PINS)} == doctor.PINS | doctor.CPU_PINS


def test_the_4b_configuration_has_the_papers_numbers() -> None:
    config: Config = load_config(FOUR, [])
    env, rl, sft = config.env, config.rl, config.sft
    assert (rl.prompts, rl.group, rl.lr, rl.kl, rl.gamma, rl.steps, rl.save_every) == (16, 8, 1e-6, 0.001, 0.95, 62, 5)
    assert (rl.normalisation, rl.assignment, rl.clip) == ("scaled_separate", "visit_segment", 0.2)
    assert (env.max_turns, env.turn_jitter, env.max_turn_tokens, env.max_context_tokens) == (200, 5, 8192, 261_000)
    assert (env.tool_timeout_s, env.rewards.format_penalty) == (150, 1.0)
    assert (sft.lr, sft.batch_size, sft.max_tokens, sft.warmup, sft.weight_decay) == (1e-5, 32, 200_000, 0.1, 0.01)
    assert (config.rollout.temperature, config.rollout.top_p, config.rollout.workers) == (1.0, 0.95, 8)
    assert (config.gpu.tensor_parallel, config.gpu.sequence_parallel, config.gpu.rollout_memory) == (4, 8, 0.9)
