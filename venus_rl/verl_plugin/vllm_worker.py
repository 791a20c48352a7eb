"""Taking new weights in vLLM's CPU build, inside the engine's worker process."""

from __future__ import annotations

from typing import Any

import torch
from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm


class CpuWorkerExtension(vLLMColocateWorkerExtension):
    """verl's worker extension with vLLM's own reload instead of ``model.load_weights``.

    The CPU build packs the weights of linear layers and drops the originals, loaders included, so they cannot be loaded
    a second time (verl/workers/rollout/vllm_rollout/utils.py:402). ``reload_weights`` rebuilds the layers. What it does
    not rebuild is the packed copy of an output layer that is tied to the embedding: it would keep the old weights
    without a word.
    """

    def update_weights_from_ipc(
        self, peft_config: dict[str, Any] | None = None, base_sync_done: bool = False, use_shm: bool = False
    ) -> None:
        """Receive all weights and load them.

        Raises:
            ValueError: An adapter is sent instead of full weights.
        """
        if peft_config and base_sync_done:
            raise ValueError("vLLM's CPU build takes full weights only: set actor_rollout_ref.model.lora.merge=True")
        weights: list[tuple[str, torch.Tensor]] = []

        def keep(bucket: list[tuple[str, torch.Tensor]], _last: bool) -> None:
            weights.extend((name, tensor.clone()) for name, tensor in bucket)  # the buffer is used again

        receiver = BucketedWeightReceiver(
            zmq_handle=self._get_zmq_handle(), device=torch.device("cpu"), use_shm=use_shm
        )
        receiver.receive_weights(on_bucket_received=keep)
        self.model_runner.reload_weights(weights_iterator=iter(weights))
        output = getattr(self.model_runner.get_model(), "lm_head", None)
        if output is not None:
            dispatch_cpu_unquantized_gemm(output, remove_weight=False)
