"""verl's synchronous PPO trainer with turn-level advantages, our workers, JSONL metrics and trajectory records.

Two runs of one seed agree, and so do a run and its continuation from a checkpoint: prompts are named by step and row
instead of by random ids, and rollouts enter a batch in the order of their names, not in the order they finished.

Subclassing is verl's own way in (``run_ppo(task_runner_class=…)``); ``trainer_mode`` stays ``sync``, because any other
registered name selects the asynchronous replay buffer (verl/trainer/ppo/v1/trainer_base.py:150).
"""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from tensordict import NonTensorData, NonTensorStack
from verl.trainer.ppo.v1 import PPOTrainerSync

from venus_env.beliefs.probes import Probe, ProbeRequest
from venus_env.evaluation.card import write_text_atomic
from venus_env.protocol.trajectory import Trajectory
from venus_env.seeding import derive_seed
from venus_rl.checkpoints import mark_complete, prune, saving, step_folder
from venus_rl.igpo.advantage import AdvantageConfig, compute_advantages
from venus_rl.igpo.events import scatter_to_tokens
from venus_rl.igpo.schedule import AdvantageSchedule, GateState, mean_outcome
from venus_rl.igpo.scoring import ScoringRecord, covered_seconds, difference_metrics, scoring_metrics
from venus_rl.igpo.turn_rewards import RewardEvent, TurnRewards
from venus_rl.verl_plugin.advantage import offer
from venus_rl.verl_plugin.episode_metrics import episode_metrics, signal_metrics
from venus_rl.verl_plugin.workers import CpuActorRolloutRefWorker, VenusActorRolloutRefWorker

logger = logging.getLogger(__name__)


_LOST = TurnRewards((), excluded=True)
_PADDING, _NOTHING = TurnRewards(()), np.zeros(0)  # verl pads a batch until it divides; such rows hold no episode


class TooManyExcluded(RuntimeError):
    """Too many rollouts of one step were lost to infrastructure to go on."""


class VenusTrainer(PPOTrainerSync):
    """IGPO and GRPO over research episodes.

    Args:
        config: verl's configuration.
        out: Folder of the RL stage: ``metrics.jsonl``, ``gate.jsonl`` and ``trajectories/`` are written here.
        schedule: How turn rewards become advantages.
        max_excluded: Stop when more than this share of a step's rollouts is lost to infrastructure.
        keep: Number of checkpoints that are kept.
        verify_scores: Rollouts per step whose answer scores are computed once more by the actor.
    """

    _saved: Path | None = None  # a checkpoint whose step is not on record yet

    def __init__(
        self, config: Any, *, out: Path, schedule: AdvantageSchedule, max_excluded: float, keep: int, verify_scores: int
    ) -> None:
        self._out = out
        self._schedule = schedule
        self._max_excluded = max_excluded
        self._keep = keep
        self._verified = verify_scores
        self._scoring_s = 0.0
        super().__init__(config=config)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        worker = CpuActorRolloutRefWorker if self.config.trainer.device == "cpu" else VenusActorRolloutRefWorker
        for role in self.role_worker_mapping:  # hard-coded in trainer_base.py:805
            self.role_worker_mapping[role] = ray.remote(worker)

    def fit(self, agent_loop_manager: Any) -> None:
        """Train to the last step; arguments as of verl's own."""
        servers = [server for replica in self.llm_server_manager.get_replicas() for server in replica.servers]
        groups = {"agent-loop worker": agent_loop_manager.agent_loop_workers, "rollout server": servers}
        self.replay_buffer.watch(
            {f"{kind} {number}": actor for kind, group in groups.items() for number, actor in enumerate(group)}
        )
        super().fit(agent_loop_manager)

    def _fetch_one_gen_batch(self) -> Any:
        batch = super()._fetch_one_gen_batch()
        names = [f"{self.global_steps:08d}-{row:06d}" for row in range(len(batch))]  # verl forbids "_" in them
        batch["uid"] = NonTensorStack.from_list([NonTensorData(name) for name in names])
        return batch

    def _balance_batch(self, batch: Any, *arguments: Any, **options: Any) -> Any:
        batch.reorder(sorted(range(len(batch.keys)), key=lambda row: _rollout_name(batch.keys[row])))
        return super()._balance_batch(batch, *arguments, **options)

    def _save_checkpoint(self) -> None:
        root = Path(self.config.trainer.default_local_dir)
        with saving(root):
            super()._save_checkpoint()
        self._saved = step_folder(root, self.global_steps)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        fields = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["uid", "response_mask", "extra_fields"]
        )
        rows = [row for row, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]
        extras = fields.pop("extra_fields").tolist()
        uids = [str(uid) for uid in fields.pop("uid").tolist()]
        episodes = [json.loads(extras[row]["venus"]) for row in rows]
        rewards = [turn_rewards_from(episode["rewards"]) for episode in episodes]
        groups = [uids[row] for row in rows]
        lost = self._lost(groups)
        rules = self._pass_gate(rewards, metrics)
        advantages = compute_advantages([*rewards, *(_LOST for _ in lost)], [*groups, *lost], rules)
        width = int(fields["response_mask"].offsets().diff().max())
        number = {row: index for index, row in enumerate(rows)}
        order = [number.get(row) for row in range(len(batch.tags))]
        in_rows = [_PADDING if index is None else rewards[index] for index in order]
        own = [_NOTHING if index is None else advantages.values[index] for index in order]
        values = torch.from_numpy(scatter_to_tokens(in_rows, own, width))
        trajectories = [Trajectory.model_validate(episode["trajectory"]) for episode in episodes]
        metrics.update(advantages.metrics)
        metrics.update(episode_metrics(trajectories))
        turns = [len(trajectory.turns) for trajectory in trajectories]
        metrics.update(signal_metrics(rewards, groups, advantages.values[: len(rewards)], turns))
        metrics["episode/sampled_tokens"] = fmean(episode["sampled_tokens"] for episode in episodes)
        scored = {
            batch.keys[row]: ScoringRecord(**episode["scoring"])
            for row, episode in zip(rows, episodes, strict=True)
            if episode["scoring"] is not None
        }
        metrics.update(scoring_metrics(list(scored.values())))
        metrics.update(self._verify(scored, batch.partition_id))
        self._scoring_s = covered_seconds(scored.values())
        self._write_trajectories(trajectories)
        excluded = len(lost) + sum(reward.excluded for reward in rewards)
        metrics["episode/lost"] = len(lost)
        if excluded > self._max_excluded * (len(rewards) + len(lost)):
            raise TooManyExcluded(
                f"step {self.global_steps}: {excluded} of {len(rewards) + len(lost)} rollouts were lost to "
                f"infrastructure (rl.max_excluded={self._max_excluded}); their endings are in "
                f"{self._out / 'trajectories'}"
            )
        with offer(values):
            return super()._compute_advantage(batch, metrics)

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: Any, global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)
        metrics["scoring/share_of_step"] = self._scoring_s / timing_raw["step"]
        append_metrics(self._out / "metrics.jsonl", global_steps, metrics)
        if self._saved is not None:  # it counts from here on, so that a resumed run has every step on record
            mark_complete(self._saved)
            prune(self._saved.parent, self._keep)
            self._saved = None

    def _verify(self, scored: dict[str, ScoringRecord], partition_id: str) -> dict[str, float]:
        """Compare scores of the rollout servers with the actor's, which has the same weights at this point."""
        seed = derive_seed(self.config.data.seed, self.global_steps)
        keys = random.Random(seed).sample(sorted(scored), min(self._verified, len(scored)))
        if not keys:
            return {}
        fields = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=["prompts", "responses"])
        requests = [
            ProbeRequest(
                [*prompt.tolist(), *response.tolist()],
                scored[key].boundaries,
                [Probe(tuple(ids), start) for ids, start in scored[key].probes],
            )
            for key, prompt, response in zip(keys, fields["prompts"], fields["responses"], strict=True)
        ]
        temperature = self.config.actor_rollout_ref.rollout.temperature or 1.0
        own = self.actor_rollout_wg.score_boundaries(requests, temperature)[0]  # each worker has all of them
        server = [score for key in keys for score in scored[key].scores]
        return difference_metrics(server, [score for scores in own for score in scores])

    def _lost(self, groups: list[str]) -> list[str]:
        """Group of each rollout that is missing: its agent loop raised, and verl kept only the siblings, if any."""
        expected = self.config.actor_rollout_ref.rollout.n
        counts = Counter(groups)
        gone = max(0, self.config.data.train_batch_size - len(counts))  # groups without a single rollout left
        counts.update({f"gone {number}": 0 for number in range(gone)})
        return [group for group, count in counts.items() for _ in range(expected - count)]

    def _pass_gate(self, rewards: list[TurnRewards], metrics: dict[str, Any]) -> AdvantageConfig:
        """Move the warm-up gate by this batch and return the step's rules.

        Its states lie in a file, one a step, written before the step's checkpoint can be: a run that resumes from any
        checkpoint finds the state that the uninterrupted run had there.
        """
        path = self._out / "gate.jsonl"
        state = self._schedule.gate(read_gate(path, self.global_steps), mean_outcome(rewards))
        append_row(path, self.global_steps, state.model_dump())
        metrics["igpo/gate_open"] = float(state.open)
        if state.average is not None:
            metrics["igpo/gate_average"] = state.average
        return self._schedule.at(self.global_steps, state)

    def _write_trajectories(self, trajectories: list[Trajectory]) -> None:
        path = self._out / "trajectories" / f"step-{self.global_steps:05d}.jsonl"
        keep_earlier(path)
        write_text_atomic(path, "".join(t.model_dump_json(by_alias=True) + "\n" for t in trajectories))


def keep_earlier(path: Path) -> None:
    """Move ``path``, if it exists, to ``earlier/NAME.N.SUFFIX`` beside it: the record of a step that is repeated."""
    if path.exists():
        folder = path.parent / "earlier"
        folder.mkdir(exist_ok=True)
        number = 1 + len(list(folder.glob(f"{path.stem}.*")))
        path.rename(folder / f"{path.stem}.{number}{path.suffix}")


def _rollout_name(key: str) -> tuple[str, int, int]:
    """Prompt, session and part of verl's key ``{prompt}_{session}_{part}``."""
    prompt, session, part = key.rsplit("_", 2)
    return prompt, int(session), int(part)


def append_metrics(path: Path, step: int, metrics: dict[str, Any]) -> None:
    """Append the metrics of one step, as :func:`append_row` does.

    Args:
        path: The file; made if absent.
        step: Step number.
        metrics: Scalars; numpy and torch scalars are converted, everything else is left out.
    """
    row: dict[str, Any] = {}
    for key, value in metrics.items():
        if isinstance(value, np.generic) or (isinstance(value, torch.Tensor) and value.numel() == 1):
            value = value.item()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            row[key] = value
    append_row(path, step, row)


def append_row(path: Path, step: int, row: dict[str, Any]) -> None:
    """Append one step to a JSONL file, first dropping steps from ``step`` on (a resumed run repeats them).

    Args:
        path: The file; made if absent, replaced atomically.
        step: Step number, stored as ``"step"``.
        row: Plain values.
    """
    kept = [json.dumps(old) for old in _rows_before(path, step)]
    write_text_atomic(path, "\n".join([*kept, json.dumps({"step": step, **row})]) + "\n")


def read_gate(path: Path, step: int) -> GateState:
    """State of the warm-up gate before ``step``; the initial one if no earlier step is in the file."""
    rows = _rows_before(path, step)
    return GateState.model_validate({k: v for k, v in rows[-1].items() if k != "step"}) if rows else GateState()


def _rows_before(path: Path, step: int) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines if line.strip()]
    return [row for row in rows if row["step"] < step]


def turn_rewards_from(record: dict[str, Any]) -> TurnRewards:
    """Rebuild :class:`TurnRewards` from its ``dataclasses.asdict`` form, which is how it travels between processes."""
    events = tuple(RewardEvent(**event) for event in record["events"])
    return TurnRewards(events, record["tool_turns"], record["excluded"])
