"""Makes verl's engine ``vllm`` ours: its replica and weight-sync adapter with the few differences that we need.

Imported in every worker, therefore without vLLM itself.
"""

from __future__ import annotations

from typing import Any

from verl.workers.rollout import base as rollout_base
from verl.workers.rollout.replica import RolloutReplicaRegistry

ENGINE = "vllm"  # verl tests for this name, so it stays


def _load_replica() -> Any:
    from venus_rl.verl_plugin.vllm_server import ScoringReplica

    return ScoringReplica


RolloutReplicaRegistry.register(ENGINE, _load_replica)
rollout_base._ROLLOUT_REGISTRY[(ENGINE, "async")] = "venus_rl.verl_plugin.vllm_adapter.TimedAdapter"
