"""verl's actor worker; on the CPU also its FSDP2 engine.

On GPUs verl's own classes do the work. Three facts of verl 0.9.1 are met here by subclassing, not by patching:

* ``verl/utils/distributed.py:63,89`` build the backend string ``"cpu:gloo,cpu:gloo"`` on a CPU platform, which torch
  rejects. The process group is therefore made before verl asks for it (its own call is then a no-op).
* ``verl/workers/engine/fsdp/transformer_impl.py:462`` gives the reference model ``CPUOffloadPolicy(pin_memory=True)``,
  which needs an accelerator. The engine builds that model as an ordinary one.
* ``transformer_impl.py:1063`` merges LoRA adapters into the live weights, sends them as bfloat16 and restores the
  weights afterwards. The engine sends the sums in the type of the weights and leaves those alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from torch.distributed.tensor import DTensor
from verl.single_controller.base import Worker
from verl.single_controller.base.decorator import Dispatch, register
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers.engine import EngineRegistry, FSDPEngineWithLMHead
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from venus_env.beliefs.probes import ProbeRequest, best_scores, score_boundaries
from venus_rl.model.adapters import BASE_WEIGHT, is_adapter, plain_name

# Both register their rollout engine in every worker process.
from venus_rl.verl_plugin import rollout as rollout
from venus_rl.verl_plugin import vllm_registry as vllm_registry


class VenusActorRolloutRefWorker(ActorRolloutRefWorker):
    """Actor, rollout and reference; being of this module, it registers our rollout engines where Ray unpickles it."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def score_boundaries(self, requests: list[ProbeRequest], temperature: float) -> list[list[float]]:
        """Score rollouts with the weights that are trained, as rollout servers do with their copy.

        Every worker gets all requests, since each holds only a part of the weights.

        Returns:
            For each request the score of the most likely accepted answer at each boundary.
        """
        engine = self.actor.engine
        with engine.eval_mode():
            scores = [score_boundaries(engine.module, request, temperature=temperature) for request in requests]
        return [best_scores(score).tolist() for score in scores]


class CpuTrainingWorker(TrainingWorker):
    """Training worker whose process group exists before verl would build an invalid one."""

    def __init__(self, config: Any) -> None:
        Worker.__init__(self)  # sets RANK, WORLD_SIZE and MASTER_*
        initialize_global_process_group_ray(backend="cpu:gloo")
        super().__init__(config)


class CpuActorRolloutRefWorker(VenusActorRolloutRefWorker):
    """The same on the CPU."""

    actor_worker_cls = CpuTrainingWorker
    ref_worker_cls = CpuTrainingWorker


@EngineRegistry.register(model_type="language_model", backend=["fsdp2"], device="cpu")
class CpuFSDPEngine(FSDPEngineWithLMHead):
    """verl's FSDP2 engine without pinned memory for the reference model, and with exact merging of adapters."""

    def _build_fsdp_module(self, module: Any) -> Any:
        forward_only = self.engine_config.forward_only
        object.__setattr__(self.engine_config, "forward_only", False)  # frozen dataclass
        try:
            return super()._build_fsdp_module(module)
        finally:
            object.__setattr__(self.engine_config, "forward_only", forward_only)

    def _merged_lora_per_tensor_param(self) -> Iterator[tuple[str, torch.Tensor]]:
        """All weights by their names in a plain model, adapters added. Collective: every rank has to drain it."""
        layers = {name: module for name, module in self.module.named_modules() if isinstance(module, LoraLayer)}
        for name, parameter in self.module.state_dict().items():
            if is_adapter(name):
                continue
            weight = _whole(parameter)
            layer = layers.get(name.removesuffix(BASE_WEIGHT))
            if layer is not None and name.endswith(BASE_WEIGHT):
                low, high = (_whole(part["default"].weight) for part in (layer.lora_A, layer.lora_B))
                weight = weight + layer.scaling["default"] * (high @ low)
            yield plain_name(name), weight


def _whole(parameter: Any) -> torch.Tensor:
    """The full tensor of a shard, without gradient."""
    parameter = parameter.detach()
    return parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
