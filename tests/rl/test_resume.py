"""RL on the command line, from a tuned policy: the same curve with and without a stop in between, and LoRA with GRPO.

Two questions of a step come out of eight, so that a resume falls on the end of a pass over the data, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.rl.commands import Done, jsonl, largest_change, train, weights
from venus_env.protocol.trajectory import Trajectory
from venus_env.tasks.loaders import load_tasks
from venus_rl import merge
from venus_rl.checkpoints import complete_steps, step_folder

pytest.importorskip("verl")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PROMPTS, GROUP = 4, 4
RL = [
    "stage=rl",
    "sft.enabled=false",
    "model.init=null",
    *(f"rl.prompts={PROMPTS}", f"rl.group={GROUP}", "rl.save_every=1", "rl.keep=2", "rl.kl=0.01"),
]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight questions: two steps go through all of them."""
    chosen = [task for task in load_tasks("embedded") if task.split == "train" and task.hops == 1][: 2 * PROMPTS]
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    held_out = [task for task in load_tasks("embedded") if task.split == "test"][:8]
    path.write_text("".join(task.model_dump_json() + "\n" for task in [*chosen, *held_out]), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Start:
    """What RL starts from: the tuned policy and the questions."""

    model: Path
    tasks: Path

    def train(self, folder: Path, *overrides: str) -> Done:
        return train(folder, *RL, f"model.path={self.model}", f"env.tasks={self.tasks}", *overrides)


@pytest.fixture(scope="module")
def begin(run: Done, tasks: Path) -> Start:
    return Start(run.folder / "sft" / "model", tasks)


@pytest.fixture(scope="module")
def straight(begin: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return begin.train(tmp_path_factory.mktemp("straight") / "run", "rl.steps=4").folder


@pytest.fixture(scope="module")
def stopped(begin: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped") / "run"
    begin.train(folder, "rl.steps=2")
    return begin.train(folder, "rl.steps=4").folder


CLOCK = ("timing", "perf", "memory", "scoring/")


def curve(folder: Path) -> list[dict[str, float]]:
    rows = jsonl(folder / "rl" / "metrics.jsonl")
    return [{key: value for key, value in row.items() if not any(word in key for word in CLOCK)} for row in rows]


def test_a_stop_in_between_changes_nothing(straight: Path, stopped: Path) -> None:
    expected, found = curve(straight), curve(stopped)
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    for one, other in zip(expected, found, strict=True):
        assert other == pytest.approx(one, rel=1e-3, abs=1e-5)
    last = [step_folder(folder / "rl" / "checkpoints", 4) / "actor" / "huggingface" for folder in (straight, stopped)]
    assert largest_change(*map(weights, last)) < 1e-5
    before = step_folder(straight / "rl" / "checkpoints", 3) / "actor" / "huggingface"
    assert largest_change(weights(before), weights(last[0])) > 1e-5  # there was something to get wrong


def test_the_same_episodes_are_played(straight: Path, stopped: Path) -> None:
    for step in (1, 2, 3, 4):
        name = f"rl/trajectories/step-{step:05d}.jsonl"
        one, other = ([Trajectory.model_validate(row) for row in jsonl(run / name)] for run in (straight, stopped))
        assert [t.messages for t in one] == [t.messages for t in other]
        assert [t.seed for t in one] == [t.seed for t in other]


def test_every_pass_over_the_questions_has_all_of_them(stopped: Path) -> None:
    asked = [
        {row["task"]["id"] for row in jsonl(stopped / "rl" / "trajectories" / f"step-{step:05d}.jsonl")}
        for step in (1, 2, 3, 4)
    ]
    assert asked[0] | asked[1] == asked[2] | asked[3]
    assert len(asked[0] | asked[1]) == 2 * PROMPTS


def test_the_newest_checkpoints_are_kept_over_a_restart(straight: Path, stopped: Path) -> None:
    for folder in (straight, stopped):
        root = folder / "rl" / "checkpoints"
        assert complete_steps(root) == [3, 4]
        assert sorted(path.name for path in root.glob("global_step_*")) == ["global_step_3", "global_step_4"]


def test_the_reference_is_the_policy_that_rl_started_from(straight: Path) -> None:
    losses = [row["actor/kl_loss"] for row in curve(straight)]
    assert losses[0] == pytest.approx(0, abs=1e-6)
    assert min(losses[1:]) > 1e-6


METRICS = {
    *("igpo/gain_coverage", "igpo/gain_count", "igpo/penalty_rate", "igpo/excluded_rollouts", "episode/lost"),
    *("igpo/groups_without_signal", "igpo/same_outcome_groups_ratio", "igpo/ig_scale", "train/acc"),
    *("episode/context_tokens", "episode/sampled_tokens", "episode/turns", "episode/tool_calls", "episode/score"),
    *("scoring/share_of_step", "timing_s/gen", "timing_s/update_actor", "timing_s/step"),
    *("actor/pg_loss", "actor/grad_norm", "actor/entropy", "actor/pg_clipfrac", "actor/lr", "response_length/mean"),
}


def test_what_a_step_had_to_teach_is_on_record_twice(stopped: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rows = jsonl(stopped / "rl" / "metrics.jsonl")
    for row in rows:
        assert row.keys() >= METRICS
        assert 0 <= row["scoring/share_of_step"] <= 1
    events = EventAccumulator(str(stopped / "rl" / "tensorboard"))
    events.Reload()
    for name in METRICS:
        logged = {event.step: event.value for event in events.Scalars(name)}
        assert logged == pytest.approx({row["step"]: row[name] for row in rows}, rel=1e-5)


def test_a_command_killed_while_it_published_only_publishes(begin: Start, stopped: Path) -> None:
    (stopped / "rl" / "finished.json").unlink()
    done = begin.train(stopped, "rl.steps=4")
    assert done.seconds < 60
    assert json.loads((stopped / "rl" / "finished.json").read_text())["steps"] == 4


# ---- GRPO, LoRA, importance weights and a cut-off, in one run of two legs ----


@pytest.fixture(scope="module")
def adapters(begin: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapters") / "run"
    other = [
        *("rl.algorithm=grpo", "model.lora_rank=4", "model.lora_alpha=8", "rl.lr=1e-3"),
        *("rl.rollout_is=token", "rl.completion_cutoff=0.25"),
    ]
    begin.train(folder, *other, "rl.steps=1")
    return begin.train(folder, *other, "rl.steps=2").folder


def test_rollouts_use_the_merged_adapters(adapters: Path) -> None:
    rows = jsonl(adapters / "rl" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    for row in rows:  # in step 2, after a resume, a server without adapters would disagree
        assert row["training/rollout_probs_diff_max"] < 1e-4
        assert row["actor/grad_norm"] > 0
    assert rows[0]["actor/kl_loss"] == pytest.approx(0, abs=1e-6)  # the reference is the policy without adapters
    assert rows[1]["actor/kl_loss"] > 1e-6


def test_grpo_has_the_penalties_and_no_gains(adapters: Path) -> None:
    rows = jsonl(adapters / "rl" / "metrics.jsonl")
    assert sum(row["igpo/penalty_count"] for row in rows) > 0
    assert {row["igpo/gain_count"] for row in rows} == {0}
    assert {row["scoring/share_of_step"] for row in rows} == {0}


def test_importance_weights_between_rollout_and_trainer(adapters: Path, straight: Path) -> None:
    for row in jsonl(adapters / "rl" / "metrics.jsonl"):
        assert row["rollout_corr/rollout_is_mean"] == pytest.approx(1, abs=1e-3)
        assert row["rollout_corr/rollout_is_max"] <= 2
    assert not any("rollout_is" in key for key in curve(straight)[0])


def test_late_episodes_are_asked_for_their_answers(adapters: Path, straight: Path) -> None:
    def forced(folder: Path, *steps: int) -> list[Any]:
        names = [folder / "rl" / "trajectories" / f"step-{step:05d}.jsonl" for step in steps]
        return [Trajectory.model_validate(row).forced for name in names for row in jsonl(name)]

    assert "cutoff" in forced(adapters, 1, 2)
    assert "cutoff" not in forced(straight, 1, 2, 3, 4)


def test_the_trained_adapters_are_merged_on_publication(
    adapters: Path, begin: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    out = tmp_path / "policy"
    assert merge.main([str(adapters), "--step", "2", "--out", str(out)]) == 0
    assert "global_step_2" in capsys.readouterr().out
    merged, published, base = (
        AutoModelForCausalLM.from_pretrained(folder).float() for folder in (out, adapters / "rl" / "model", begin.model)
    )
    state = merged.state_dict()
    assert all(torch.equal(state[name], value) for name, value in published.state_dict().items())
    changes = {name: float((state[name] - value).abs().max()) for name, value in base.state_dict().items()}
    assert changes["model.layers.0.self_attn.q_proj.weight"] > 0
    assert changes["model.embed_tokens.weight"] == 0
