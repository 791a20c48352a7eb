"""The whole of ``python -m venus_rl.train`` on the embedded world, with a model made from scratch.

Everything is real: torchrun, Ray, verl's trainers, the transformers rollout server. One run is made, then run again,
continued, and its SFT stage repeated with an interruption.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.rl.commands import GROUP, PROMPTS, SFT_STEPS, Done, jsonl, largest_change, stamps, start, train, weights
from venus_env.evaluation.card import read_card
from venus_env.protocol.trajectory import Trajectory
from venus_rl.checkpoints import complete_steps
from venus_rl.config import load_config

pytest.importorskip("verl")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FILES = [
    *("config.yaml", "config.json", "result.json", "curve.png"),
    *("model/model.safetensors", "model/tokenizer.json", "model/finished.json"),
    *("sft/metrics.jsonl", "sft/log.txt", "sft/finished.json", "sft/model/model.safetensors"),
    *("rl/metrics.jsonl", "rl/log.txt", "rl/finished.json", "rl/model/model.safetensors", "rl/prompts.parquet"),
    *(f"eval/{stage}{kind}" for stage in ("initial", "sft", "rl") for kind in (".json", "-trajectories.jsonl")),
]


@dataclass(frozen=True)
class Next:
    """A further command in the folder of the run: policy and metrics before it, times of files before and after."""

    done: Done
    policy: dict[str, Any]
    metrics: list[dict[str, Any]]
    before: dict[str, int]
    after: dict[str, int]


EARLY = ("model/", "data/", "sft/", "eval/initial", "eval/sft")


def further(run: Done, *overrides: str) -> Next:
    policy, metrics = weights(run.folder / "rl" / "model"), jsonl(run.folder / "rl" / "metrics.jsonl")
    before = stamps(run.folder)
    done = train(run.folder, *overrides)
    return Next(done, policy, metrics, before, stamps(run.folder))


@pytest.fixture(scope="module")
def again(run: Done) -> Next:
    """The same command a second time."""
    return further(run)


@pytest.fixture(scope="module")
def continued(run: Done, again: Next) -> Next:
    """After both, one more RL step."""
    return further(run, "rl.steps=3")


def test_all_files_of_the_run_folder_exist_and_parse(run: Done) -> None:
    folder = run.folder
    assert [name for name in FILES if not (folder / name).is_file()] == []
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    config = load_config(folder / "config.yaml", [])
    assert (config.run.dir, config.rl.steps, config.sft.steps) == (folder, 2, SFT_STEPS)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert result["schema"] == "venus.result/1"
    assert set(result["evaluations"]) == {"initial", "sft", "rl"}
    for stage in ("initial", "sft", "rl"):
        card = read_card(folder / "eval" / f"{stage}.json")
        assert (card.scores.episodes, card.scores.graded) == (8, 8)
        assert set(card.baselines) == {"closed_book", "single_search"}
        played = [Trajectory.model_validate(row) for row in jsonl(folder / "eval" / f"{stage}-trajectories.jsonl")]
        assert len(played) == 8
    (report,) = folder.glob("data/sft-*/report.json")
    assert json.loads(report.read_text())["kept"] == 512


def test_the_table_has_a_column_for_every_checkpoint(run: Done) -> None:
    header = next(line for line in run.out.splitlines() if "initial" in line)
    assert header.split() == ["initial", "sft", "rl"]
    assert "8 questions, split test" in run.out
    assert "rl.steps=4\n" in run.out


@pytest.mark.parametrize(("stage", "steps"), [("sft", SFT_STEPS), ("rl", 2)])
def test_metrics_have_every_step_once_and_are_finite(run: Done, stage: str, steps: int) -> None:
    rows = jsonl(run.folder / stage / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, steps + 1))
    assert {key: value for row in rows for key, value in row.items() if not math.isfinite(value)} == {}


def test_sft_learns(run: Done) -> None:
    losses = [row["train/loss"] for row in jsonl(run.folder / "sft" / "metrics.jsonl")]
    assert losses[-1] < 0.5 * losses[0]
    assert largest_change(weights(run.folder / "model"), weights(run.folder / "sft" / "model")) > 1e-2


def test_rl_changes_the_policy_by_about_its_learning_rate(run: Done) -> None:
    change = largest_change(weights(run.folder / "sft" / "model"), weights(run.folder / "rl" / "model"))
    assert 1e-5 < change < 1e-2  # two Adam steps of 1e-4
    for row in jsonl(run.folder / "rl" / "metrics.jsonl"):
        assert row["actor/grad_norm"] > 0
        assert row["igpo/advantage_abs_mean"] > 0
        assert row["actor/kl_loss"] >= 0


def test_rollouts_are_sampled_with_the_weights_that_are_trained(continued: Next) -> None:
    """A server with stale weights would disagree with the trainer from step 2 on, or after the resume."""
    for row in jsonl(continued.done.folder / "rl" / "metrics.jsonl"):
        assert 0 <= row["training/rollout_probs_diff_max"] < 1e-4
        assert row["training/rollout_probs_diff_valid"] == 1


def test_no_sequence_exceeds_the_window(continued: Next) -> None:
    config = json.loads((continued.done.folder / "config.json").read_text(encoding="utf-8"))
    for row in jsonl(continued.done.folder / "rl" / "metrics.jsonl"):
        longest = row["response_length/max"] + row["prompt_length/min"]
        assert longest <= config["env"]["max_context_tokens"]


def test_trajectories_of_every_rl_step_are_kept(run: Done) -> None:
    files = sorted((run.folder / "rl" / "trajectories").glob("step-*.jsonl"))[:2]
    assert [path.name for path in files] == ["step-00001.jsonl", "step-00002.jsonl"]
    for path, metrics in zip(files, jsonl(run.folder / "rl" / "metrics.jsonl"), strict=False):
        episodes = [Trajectory.model_validate(row) for row in jsonl(path)]
        assert len(episodes) == PROMPTS * GROUP == metrics["igpo/rollouts"]
        per_task = {str(episode.task["id"]): 0 for episode in episodes}
        for episode in episodes:
            per_task[str(episode.task["id"])] += 1
        assert sorted(per_task.values()) == [GROUP] * PROMPTS
        assert all(episode.task["split"] == "train" and episode.task["hops"] == 1 for episode in episodes)
        assert len({episode.seed for episode in episodes}) == len(episodes)
        mean = sum(episode.score or 0.0 for episode in episodes) / len(episodes)
        assert metrics["episode/score"] == pytest.approx(mean)


def test_tool_turns_earned_information_gain(run: Done) -> None:
    rows = jsonl(run.folder / "rl" / "metrics.jsonl")
    assert sum(row["igpo/gain_count"] for row in rows) > 0
    assert sum(row["igpo/gain_abs_mean"] for row in rows) > 0


def test_the_trained_policy_loads_with_transformers(run: Done) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = run.folder / "rl" / "model"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        assert torch.isfinite(model(**ids).logits).all()


def test_the_same_command_again_skips_everything_and_says_the_same(run: Done, again: Next) -> None:
    assert again.done.out == run.out
    assert again.done.seconds < 60
    assert again.after == again.before


def test_more_steps_continue_where_rl_ended(continued: Next) -> None:
    folder = continued.done.folder
    rows = jsonl(folder / "rl" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert rows[:2] == continued.metrics
    assert 1e-5 < largest_change(continued.policy, weights(folder / "rl" / "model")) < 1e-2
    assert json.loads((folder / "rl" / "finished.json").read_text())["steps"] == 3
    assert len(jsonl(folder / "rl" / "trajectories" / "step-00003.jsonl")) == PROMPTS * GROUP
    early = [
        {path: time for path, time in each.items() if path.startswith(EARLY)}
        for each in (continued.before, continued.after)
    ]
    assert early[0] == early[1]
    assert load_config(folder / "config.yaml", []).rl.steps == 3


def test_sft_interrupted_after_a_checkpoint_ends_as_if_nothing_had_happened(run: Done, tmp_path: Path) -> None:
    folder = tmp_path / "interrupted"
    keep_all = "sft.keep=4"
    process = start(folder, "stage=sft", keep_all)
    deadline = time.monotonic() + 240
    checkpoints = folder / "sft" / "checkpoints"
    while not complete_steps(checkpoints):
        assert process.poll() is None, process.communicate()[1][-4000:]
        assert time.monotonic() < deadline, "no checkpoint"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # what Ctrl-C sends
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; the same command goes on from the last checkpoint" in err
    left = [p.info for p in psutil.process_iter(["pid", "cmdline"]) if str(folder) in " ".join(p.info["cmdline"] or [])]
    assert left == []
    assert not (folder / "sft" / "model").exists()

    whole = {f"global_step_{step}" for step in complete_steps(checkpoints)}  # the next one may have been in the making
    first = {path: stamp for path, stamp in stamps(checkpoints).items() if path.split("/")[0] in whole}
    assert first
    train(folder, "stage=sft", keep_all)
    later = stamps(checkpoints)
    assert {path: later[path] for path in first} == first  # it went on from there
    rows, expected = (jsonl(where / "sft" / "metrics.jsonl") for where in (folder, run.folder))
    assert [row["step"] for row in rows] == list(range(1, SFT_STEPS + 1))
    for key in ("train/loss", "train/lr", "train/global_tokens"):
        assert [row[key] for row in rows] == pytest.approx([row[key] for row in expected], rel=1e-4)
    assert largest_change(weights(folder / "sft" / "model"), weights(run.folder / "sft" / "model")) < 1e-4
