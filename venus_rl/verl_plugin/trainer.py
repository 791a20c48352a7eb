"""verl's synchronous PPO trainer with turn-level advantages, CPU workers, JSONL metrics and trajectory records.

Two runs of one seed agree, and so do a run and its continuation from a checkpoint: prompts are named by step and row
instead of by random ids, and rollouts enter a batch in the order of their names, not in the order they finished.

Subclassing is verl's own way in (``run_ppo(task_runner_class=…)``); ``trainer_mode`` stays ``sync``, because any other
registered name selects the asynchronous replay buffer (verl/trainer/ppo/v1/trainer_base.py:150).
"""

from __future__ import annotations

import json
import logging
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

from venus_env.evaluation.card import write_text_atomic
from venus_env.protocol.trajectory import Trajectory
from venus_rl.checkpoints import mark_complete, prune, saving, step_folder
from venus_rl.igpo.advantage import AdvantageConfig, compute_advantages, scatter_to_tokens
from venus_rl.igpo.turn_rewards import RewardEvent, TurnRewards
from venus_rl.verl_plugin.advantage import offer
from venus_rl.verl_plugin.episode_metrics import busy_seconds, episode_metrics, signal_metrics
from venus_rl.verl_plugin.workers import CpuActorRolloutRefWorker

logger = logging.getLogger(__name__)


_LOST = TurnRewards((), excluded=True)


class TooManyExcluded(RuntimeError):
    """Too many rollouts of one step were lost to infrastructure to go on."""


class VenusTrainer(PPOTrainerSync):
    """IGPO and GRPO over research episodes.

    Args:
        config: verl's configuration.
        out: Folder of the RL stage: ``metrics.jsonl`` and ``trajectories/`` are written here.
        advantage: How turn rewards become advantages.
        max_excluded: Stop when more than this share of a step's rollouts is lost to infrastructure.
        keep: Number of checkpoints that are kept.
    """

    _saved: Path | None = None  # a checkpoint whose step is not on record yet

    def __init__(self, config: Any, *, out: Path, advantage: AdvantageConfig, max_excluded: float, keep: int) -> None:
        self._out = out
        self._advantage = advantage
        self._max_excluded = max_excluded
        self._keep = keep
        super().__init__(config=config)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in self.role_worker_mapping:  # hard-coded in trainer_base.py:805
            self.role_worker_mapping[role] = ray.remote(CpuActorRolloutRefWorker)

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
        advantages = compute_advantages([*rewards, *(_LOST for _ in lost)], [*groups, *lost], self._advantage)
        width = int(fields["response_mask"].offsets().diff().max())
        values = torch.zeros(len(batch.tags), width)
        values[rows] = torch.from_numpy(scatter_to_tokens(rewards, advantages.values[: len(rewards)], width))
        trajectories = [Trajectory.model_validate(episode["trajectory"]) for episode in episodes]
        metrics.update(advantages.metrics)
        metrics.update(episode_metrics(trajectories))
        turns = [len(trajectory.turns) for trajectory in trajectories]
        metrics.update(signal_metrics(rewards, groups, advantages.values[: len(rewards)], turns))
        metrics["episode/sampled_tokens"] = fmean(episode["sampled_tokens"] for episode in episodes)
        metrics["timing_s/scoring"] = busy_seconds(episode["scoring"] for episode in episodes)
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
        metrics["scoring/share_of_step"] = metrics["timing_s/scoring"] / metrics["timing_s/step"]
        append_metrics(self._out / "metrics.jsonl", global_steps, metrics)
        if self._saved is not None:  # it counts from here on, so that a resumed run has every step on record
            mark_complete(self._saved)
            prune(self._saved.parent, self._keep)
            self._saved = None

    def _lost(self, groups: list[str]) -> list[str]:
        """Group of each rollout that is missing: its agent loop raised, and verl kept only the siblings, if any."""
        expected = self.config.actor_rollout_ref.rollout.n
        counts = Counter(groups)
        gone = max(0, self.config.data.train_batch_size - len(counts))  # groups without a single rollout left
        counts.update({f"gone {number}": 0 for number in range(gone)})
        return [group for group, count in counts.items() for _ in range(expected - count)]

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
    """Append one step to a JSONL file, first dropping steps from ``step`` on (a resumed run repeats them).

    Args:
        path: The file; made if absent.
        step: Step number, stored as ``"step"``.
        metrics: Scalars; numpy and torch scalars are converted, everything else is left out.
    """
    kept = []
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if line.strip() and json.loads(line)["step"] < step]
    row: dict[str, Any] = {"step": step}
    for key, value in metrics.items():
        if isinstance(value, np.generic) or (isinstance(value, torch.Tensor) and value.numel() == 1):
            value = value.item()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            row[key] = value
    write_text_atomic(path, "\n".join([*kept, json.dumps(row)]) + "\n")


def turn_rewards_from(record: dict[str, Any]) -> TurnRewards:
    """Rebuild :class:`TurnRewards` from its ``dataclasses.asdict`` form, which is how it travels between processes."""
    events = tuple(RewardEvent(**event) for event in record["events"])
    return TurnRewards(events, record["tool_turns"], record["excluded"])
