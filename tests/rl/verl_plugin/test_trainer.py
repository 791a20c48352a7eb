from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import PPOTrainerSync

from venus_env.beliefs.probes import Probe, ProbeRequest
from venus_env.protocol.trajectory import Trajectory
from venus_rl.checkpoints import complete_steps, step_folder
from venus_rl.config import RLConfig
from venus_rl.igpo.advantage import AdvantageConfig
from venus_rl.igpo.schedule import AdvantageSchedule, GateState
from venus_rl.igpo.scoring import ScoringRecord
from venus_rl.igpo.turn_rewards import RewardEvent, TurnRewards
from venus_rl.verl_plugin import trainer as module
from venus_rl.verl_plugin.advantage import turn_advantages
from venus_rl.verl_plugin.replay import WatchfulReplayBuffer
from venus_rl.verl_plugin.rl import advantage_schedule
from venus_rl.verl_plugin.trainer import (
    TooManyExcluded,
    VenusTrainer,
    append_metrics,
    keep_earlier,
    read_gate,
    turn_rewards_from,
)
from venus_rl.verl_plugin.workers import CpuActorRolloutRefWorker


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_metrics_grow_by_a_line_and_a_resumed_run_replaces_what_it_repeats(tmp_path: Path) -> None:
    path = tmp_path / "rl" / "metrics.jsonl"
    for step in (1, 2, 3):
        append_metrics(path, step, {"a": step})
    append_metrics(path, 2, {"a": 20})
    assert rows(path) == [{"step": 1, "a": 1}, {"step": 2, "a": 20}]


def test_metrics_hold_plain_scalars_only(tmp_path: Path) -> None:
    values = {
        "float": 0.5,
        "int": 2,
        "numpy": np.float32(0.25),
        "tensor": torch.tensor([3]),
        "text": "x",
        "flag": True,
        "list": [1],
        "array": np.zeros(2),
        "many": torch.zeros(2),
        "none": None,
    }
    append_metrics(tmp_path / "m", 1, values)
    assert rows(tmp_path / "m") == [{"step": 1, "float": 0.5, "int": 2, "numpy": 0.25, "tensor": 3}]


def test_turn_rewards_survive_the_way_between_processes() -> None:
    rewards = TurnRewards((RewardEvent(3, 0.5, "information_gain", 0), RewardEvent(9, 1.0, "outcome", 1)), 1, False)
    assert turn_rewards_from(json.loads(json.dumps(asdict(rewards)))) == rewards


# ---- one step, with what the transfer queue and verl's own advantage step would hold ----


def episode(
    outcome: float, tokens: int, *, excluded: bool = False, scoring: ScoringRecord | None = None
) -> dict[str, Any]:
    events = () if excluded else (RewardEvent(tokens - 1, outcome, "outcome", 0),)
    trajectory = Trajectory.model_validate(
        {
            "task": {"id": "t"},
            "messages": [],
            "turns": [{"index": 0, "kind": "answer", "format_ok": True, "message_index": 2}],
            "end": "tool_failure" if excluded else "answered",
            "score": None if excluded else outcome,
            "usage": {"tool_calls": 0, "duplicate_calls": 0, "context_tokens": tokens},
        }
    )
    rewards = asdict(TurnRewards(events, 0, excluded))
    scored = None if scoring is None else asdict(scoring)
    record = {"rewards": rewards, "scoring": scored, "trajectory": trajectory.record(), "sampled_tokens": tokens}
    return {"venus": json.dumps(record)}


class Step:
    """A trainer at step 7 and one batch: (group, outcome, tokens, excluded) per rollout; padding rows after them."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, out: Path, config: Any, max_excluded: float = 1.0, **schedule: Any
    ) -> None:
        self.trainer = object.__new__(VenusTrainer)
        self.trainer._out, self.trainer._max_excluded = out, max_excluded
        self.trainer._schedule = AdvantageSchedule(base=AdvantageConfig(relative_std_floor=0.0), **schedule)
        self.trainer.config, self.trainer.global_steps = config, 7
        self.trainer._verified = 0
        self.metrics: dict[str, Any] = {}
        self.monkeypatch = monkeypatch

    def run(self, *rollouts: tuple[str, float, int, bool], padding: int = 0) -> list[list[float]]:
        extras = [episode(outcome, tokens, excluded=excluded) for _, outcome, tokens, excluded in rollouts]
        masks = [torch.full((tokens,), int(not excluded)) for _, _, tokens, excluded in rollouts]
        uids = [group for group, *_ in rollouts]
        extras += [{}] * padding  # verl pads to divide the batch; such rows carry nothing of ours
        masks += [torch.zeros(1, dtype=torch.int64)] * padding
        uids += ["pad"] * padding
        fields = TensorDict(
            {
                "response_mask": torch.nested.as_nested_tensor(masks, layout=torch.jagged),
                "uid": NonTensorStack(*uids),
                "extra_fields": NonTensorStack(*extras),
            },
            batch_size=[len(masks)],
        )
        batch = KVBatchMeta(
            partition_id="train",
            keys=[f"k{n}" for n in range(len(masks))],
            tags=[{"is_padding": n >= len(rollouts)} for n in range(len(masks))],
        )
        padded = torch.nested.to_padded_tensor(fields["response_mask"], 0)

        def own_step(_self: Any, _batch: Any, _metrics: Any) -> torch.Tensor:
            return turn_advantages(torch.zeros(padded.shape), padded)[0]

        self.monkeypatch.setattr(module.tq, "kv_batch_get", lambda **_: fields)
        self.monkeypatch.setattr(PPOTrainerSync, "_compute_advantage", own_step)
        values: list[list[float]] = self.trainer._compute_advantage(batch, self.metrics).tolist()
        return values


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rl_config: Callable[..., Any]) -> Callable[..., Step]:
    def make(prompts: int = 1, group: int = 2, **options: Any) -> Step:
        return Step(monkeypatch, tmp_path, rl_config(rl={"prompts": prompts, "group": group}), **options)

    return make


def test_advantages_of_turns_reach_the_tokens_of_their_rollouts(step: Callable[..., Step], tmp_path: Path) -> None:
    one = step()
    values = one.run(("a", 1.0, 3, False), ("a", 0.0, 2, False))
    # Outcomes 1 and 0: mean 0.5, deviation 0.5, so ±1; the shorter rollout ends in padding.
    assert values == [pytest.approx([1, 1, 1], abs=1e-4), pytest.approx([-1, -1, 0], abs=1e-4)]
    assert one.metrics["episode/score"] == one.metrics["train/acc"] == 0.5
    assert one.metrics["episode/sampled_tokens"] == 2.5
    assert (one.metrics["igpo/groups_without_signal"], one.metrics["igpo/penalty_rate"]) == (0, 0)
    assert (one.metrics["episode/lost"], one.metrics["igpo/excluded_rollouts"]) == (0, 0)
    kept = rows(tmp_path / "trajectories" / "step-00007.jsonl")
    assert [Trajectory.model_validate(row).score for row in kept] == [1.0, 0.0]


def test_padding_rows_carry_no_advantage_and_no_trajectory(step: Callable[..., Step], tmp_path: Path) -> None:
    one = step()
    values = one.run(("a", 1.0, 2, False), ("a", 0.0, 2, False), padding=2)
    assert values[2:] == [[0, 0], [0, 0]]
    assert values[0] == pytest.approx([1, 1], abs=1e-4)
    assert one.metrics["episode/count"] == 2
    assert len(rows(tmp_path / "trajectories" / "step-00007.jsonl")) == 2


def test_an_excluded_rollout_leaves_its_group(step: Callable[..., Step]) -> None:
    values = step(group=3).run(("a", 1.0, 2, False), ("a", 0.0, 2, False), ("a", 0.0, 2, True))
    assert values == [pytest.approx([1, 1], abs=1e-4), pytest.approx([-1, -1], abs=1e-4), [0, 0]]


def test_a_group_that_lost_all_but_one_contributes_nothing(step: Callable[..., Step]) -> None:
    one = step(prompts=2)
    values = one.run(("a", 1.0, 2, False), ("b", 1.0, 2, False), ("b", 0.0, 2, False))
    assert values[0] == [0, 0]
    assert values[1] == pytest.approx([1, 1], abs=1e-4)
    assert (one.metrics["episode/lost"], one.metrics["igpo/depleted_groups"]) == (1, 1)


def test_a_group_that_is_gone_as_a_whole_is_counted(step: Callable[..., Step]) -> None:
    one = step(prompts=3)
    one.run(("a", 1.0, 2, False), ("a", 0.0, 2, False))
    assert one.metrics["episode/lost"] == 4


@pytest.mark.parametrize(("max_excluded", "stops"), [(0.5, False), (0.4, True)])
def test_too_many_lost_rollouts_stop_the_run_and_leave_their_records(
    step: Callable[..., Step], tmp_path: Path, max_excluded: float, stops: bool
) -> None:
    one = step(group=4, max_excluded=max_excluded)  # one raised, one was excluded: half of the step
    rollouts = (("a", 1.0, 2, False), ("a", 0.0, 2, False), ("a", 0.0, 2, True))
    if stops:
        with pytest.raises(TooManyExcluded, match=r"step 7: 2 of 4 rollouts were lost .* \(rl\.max_excluded=0\.4\)"):
            one.run(*rollouts)
    else:
        one.run(*rollouts)
    ends = [row["end"] for row in rows(tmp_path / "trajectories" / "step-00007.jsonl")]
    assert ends == ["answered", "answered", "tool_failure"]


# ---- the warm-up gate and the curriculum ----


def test_the_gate_finds_its_state_again_at_any_step(step: Callable[..., Step], tmp_path: Path) -> None:
    """Outcomes .5, .5, 0, 1, … under alpha .5; the run is killed in step 9 and resumes from a checkpoint of step 7."""
    one = step(warmup_threshold=0.6, warmup_alpha=0.5)
    kinds = {"half": (1.0, 0.0), "none": (0.0, 0.0), "full": (1.0, 1.0)}

    def play(number: int, kind: str) -> None:
        one.trainer.global_steps = number
        one.run(*(("a", outcome, 2, False) for outcome in kinds[kind]))

    for number, kind in [(6, "half"), (7, "full"), (8, "none"), (9, "none")]:
        play(number, kind)
    states = {row["step"]: (row["average"], row["open"]) for row in rows(tmp_path / "gate.jsonl")}
    assert states == {6: (0.5, False), 7: (0.75, True), 8: (0.375, True), 9: (0.1875, True)}  # open for good
    play(8, "full")
    assert rows(tmp_path / "gate.jsonl")[-1] == {"step": 8, "average": 0.875, "open": True}
    assert (one.metrics["igpo/gate_open"], one.metrics["igpo/gate_average"]) == (1.0, 0.875)
    assert read_gate(tmp_path / "gate.jsonl", 7) == GateState(average=0.5)
    assert read_gate(tmp_path / "gate.jsonl", 1) == read_gate(tmp_path / "absent.jsonl", 5) == GateState()


def test_lost_rollouts_do_not_move_the_gate(step: Callable[..., Step], tmp_path: Path) -> None:
    one = step(group=3, warmup_threshold=0.5)
    one.run(("a", 1.0, 2, False), ("a", 0.0, 2, True), ("a", 0.0, 2, True))
    assert rows(tmp_path / "gate.jsonl") == [{"step": 7, "average": 1.0, "open": True}]
    one.trainer.global_steps = 8
    one.run(("a", 0.0, 2, True), ("a", 0.0, 2, True), ("a", 0.0, 2, True))
    assert rows(tmp_path / "gate.jsonl")[-1] == {"step": 8, "average": 1.0, "open": True}


def test_the_curriculum_of_the_step_reaches_the_tokens(step: Callable[..., Step]) -> None:
    values = step(total=14, curriculum_outcome=(0.0, 1.0)).run(("a", 1.0, 1, False), ("a", 0.0, 1, False))
    assert values == [pytest.approx([0.5], abs=1e-4), pytest.approx([-0.5], abs=1e-4)]  # step 7 of 14


def test_every_key_of_the_configuration_reaches_the_rules() -> None:
    keys = {
        "algorithm": "grpo", "normalisation": "turn_neutral", "gamma": 0.5, "discount_unit": "turn",
        "adaptive_gamma": 0.25, "gain_weight": 2.0, "curriculum_outcome": [0.5, 1.0], "curriculum_gain": [1.0, 0.5],
        "warmup_threshold": 0.3, "warmup_alpha": 0.2, "normalise_std": False, "clamp": None, "steps": 20,
    }  # fmt: skip
    assert advantage_schedule(RLConfig.model_validate(keys)) == AdvantageSchedule(
        base=AdvantageConfig(
            algorithm="grpo",
            mode="turn_neutral",
            gamma=0.5,
            discount_unit="turn",
            adaptive_gamma_min_weight=0.25,
            gain_weight=2.0,
            normalise_std=False,
            clamp=None,
        ),
        total=20,
        curriculum_outcome=(0.5, 1.0),
        curriculum_gain=(1.0, 0.5),
        warmup_threshold=0.3,
        warmup_alpha=0.2,
    )


def test_the_defaults_of_configuration_and_rules_agree() -> None:
    assert advantage_schedule(RLConfig()) == AdvantageSchedule(total=RLConfig().steps)


def test_worker_classes_are_ours_and_polling_is_quick(rl_config: Callable[..., Any]) -> None:
    trainer = object.__new__(VenusTrainer)
    trainer.config, trainer.trainer_mode = rl_config(rl={"kl": 0.1}), "sync"
    trainer._init_resource_pool_mgr()
    (worker,) = trainer.role_worker_mapping.values()
    assert issubclass(worker.__ray_metadata__.modified_class, CpuActorRolloutRefWorker)
    buffer = trainer._build_replay_buffer()
    assert isinstance(buffer, WatchfulReplayBuffer)
    assert (buffer.poll_interval, buffer._timeout) == (0.1, 14_400)


def test_prompts_are_named_by_step_and_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = TensorDict({"uid": NonTensorStack("random", "names")}, batch_size=[2])
    monkeypatch.setattr(PPOTrainerSync, "_fetch_one_gen_batch", lambda _self: rows)
    trainer = object.__new__(VenusTrainer)
    trainer.global_steps = 12
    assert list(trainer._fetch_one_gen_batch()["uid"]) == ["00000012-000000", "00000012-000001"]


def test_rollouts_enter_a_batch_by_name_and_not_as_they_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PPOTrainerSync, "_balance_batch", lambda _self, batch, **_: batch)
    names = [f"00000001-00000{prompt}_{session}_0" for prompt in (0, 1) for session in (2, 10)]
    finished = [names[3], names[0], names[2], names[1]]
    batch = KVBatchMeta(partition_id="train", keys=finished, tags=[{"name": name} for name in finished])
    balanced = object.__new__(VenusTrainer)._balance_batch(batch, metrics={})
    assert balanced.keys == names
    assert [tag["name"] for tag in balanced.tags] == names


def test_a_checkpoint_counts_once_its_step_is_on_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rl_config: Callable[..., Any]
) -> None:
    checkpoints = tmp_path / "checkpoints"

    def save(trainer: Any) -> None:
        folder = step_folder(checkpoints, trainer.global_steps)
        folder.mkdir(parents=True)
        (folder / "data.pt").write_bytes(b"x")

    monkeypatch.setattr(PPOTrainerSync, "_save_checkpoint", save)
    monkeypatch.setattr(PPOTrainerSync, "_compute_metrics", lambda *_, **__: None)
    trainer = object.__new__(VenusTrainer)
    trainer.config, trainer._out, trainer._keep, trainer._scoring_s = rl_config(), tmp_path, 2, 0.5
    trainer.config.trainer.default_local_dir = str(checkpoints)
    for step in (1, 2, 3, 4):
        trainer.global_steps = step
        trainer._save_checkpoint()
        assert step not in complete_steps(checkpoints)
        trainer._compute_metrics(None, {}, {"step": 2.0}, global_steps=step, epoch=0)
        assert step in complete_steps(checkpoints)
    assert complete_steps(checkpoints) == [3, 4]


def test_the_record_of_a_step_that_is_repeated_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "step-00003.jsonl"
    for attempt in ("one", "two", "three"):
        keep_earlier(path)
        path.write_text(attempt)
    assert path.read_text() == "three"
    kept = {earlier.name: earlier.read_text() for earlier in (tmp_path / "earlier").iterdir()}
    assert kept == {"step-00003.1.jsonl": "one", "step-00003.2.jsonl": "two"}


def test_metrics_of_a_step_are_written_after_verls_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def own(_self: Any, _batch: Any, metrics: dict[str, Any], *_arguments: Any, **_options: Any) -> None:
        metrics["timing_s/step"] = 2.0

    monkeypatch.setattr(PPOTrainerSync, "_compute_metrics", own)
    trainer = object.__new__(VenusTrainer)
    trainer._out = tmp_path
    trainer._scoring_s = 0.5
    trainer._compute_metrics(None, {"episode/score": 1.0}, {"step": 2.0}, global_steps=4, epoch=0)
    assert rows(tmp_path / "metrics.jsonl") == [
        {"step": 4, "episode/score": 1.0, "timing_s/step": 2.0, "scoring/share_of_step": 0.25}
    ]


# ---- scores of the rollout servers against the actor's ----


class Actor:
    """The worker group: two workers, each of which scores everything, with scores of -1."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[ProbeRequest], float]] = []

    def score_boundaries(self, requests: list[ProbeRequest], temperature: float) -> list[list[list[float]]]:
        self.asked.append((requests, temperature))
        return [[[-1.0] * len(request.boundaries) for request in requests]] * 2


def verify(monkeypatch: pytest.MonkeyPatch, config: Any, scored: dict[str, ScoringRecord], count: int) -> Any:
    def get(keys: list[str], **_: Any) -> dict[str, list[torch.Tensor]]:
        number = [int(key[1:]) for key in keys]
        return {
            "prompts": [torch.tensor([10 * n, 10 * n + 1]) for n in number],
            "responses": [torch.tensor([7, 8, 9]) for _ in number],
        }

    monkeypatch.setattr(module.tq, "kv_batch_get", get)
    trainer = object.__new__(VenusTrainer)
    trainer.config, trainer.global_steps, trainer._verified = config, 3, count
    trainer.actor_rollout_wg = Actor()
    return trainer.actor_rollout_wg, trainer._verify(scored, "train")


def records(count: int) -> dict[str, ScoringRecord]:
    return {
        f"k{n}": ScoringRecord([2, 4], [([5, 6], 1)], [-1.0, -1.0 - n / 10], 4, 40, 0.0, 1.0)
        for n in range(1, count + 1)
    }


def test_a_sample_of_the_scores_is_computed_by_the_actor(
    monkeypatch: pytest.MonkeyPatch, rl_config: Callable[..., Any]
) -> None:
    actor, metrics = verify(monkeypatch, rl_config(rollout={"temperature": 0.7}), records(1), 2)
    assert actor.asked == [([ProbeRequest([10, 11, 7, 8, 9], [2, 4], [Probe((5, 6), 1)])], 0.7)]
    assert metrics == {
        "scoring/verified": 2.0,
        "scoring/difference_max": pytest.approx(0.1),
        "scoring/difference_mean": pytest.approx(0.05),
    }


def test_the_sample_has_the_configured_size_and_repeats(
    monkeypatch: pytest.MonkeyPatch, rl_config: Callable[..., Any]
) -> None:
    chosen = [verify(monkeypatch, rl_config(), records(9), 3)[0].asked for _ in range(2)]
    assert len(chosen[0][0][0]) == 3
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize(("scored", "count"), [({}, 2), (records(3), 0)])
def test_nothing_to_verify_asks_nobody(
    monkeypatch: pytest.MonkeyPatch, rl_config: Callable[..., Any], scored: dict[str, ScoringRecord], count: int
) -> None:
    actor, metrics = verify(monkeypatch, rl_config(), scored, count)
    assert actor.asked == []
    assert metrics == {}


def test_costs_of_scoring_are_metrics(step: Callable[..., Step], monkeypatch: pytest.MonkeyPatch) -> None:
    scored = ScoringRecord([2, 4], [([5, 6], 1)], [-1.0, -1.0], 4, 40, 10.0, 12.0)
    made = episode
    monkeypatch.setitem(globals(), "episode", lambda *values, **options: made(*values, **options, scoring=scored))
    one = step()
    one.run(("a", 1.0, 3, False), ("a", 0.0, 2, False))
    assert one.metrics["scoring/tokens_read_per_boundary"] == 20
    assert one.trainer._scoring_s == 2.0
