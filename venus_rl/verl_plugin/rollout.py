"""A rollout engine for verl that generates with a transformers model: replica, server and weight-sync adapter.

The server is a Ray actor that holds a copy of the policy. It generates token-in/token-out with dynamic batching
(:class:`venus_env.policies.hf.BatchGenerator`) and scores answers at turn boundaries for the information gain
(:mod:`venus_env.beliefs.probes`). Weights come from the training workers after every step.

verl has a public registry for replicas and a private dictionary for adapters
(verl/workers/rollout/base.py ``_ROLLOUT_REGISTRY``); the one insertion below is the only way in.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import ray
import torch
from verl.utils import normalize_token_ids
from verl.utils.device import get_device_name
from verl.workers.rollout import base as rollout_base
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from venus_env.beliefs.probes import ProbeRequest, best_scores, score_boundaries
from venus_env.policies.hf import BatchGenerator
from venus_rl.igpo.scoring import BoundaryScores

logger = logging.getLogger(__name__)

ENGINE = "venus_transformers"


def server_name(replica_rank: int) -> str:
    """Ray name of the server actor of one replica."""
    return f"venus_rollout_{replica_rank}"


def _device(replica_rank: int) -> str:
    """The GPU of the training process with the same rank, or the CPU."""
    if get_device_name() != "cuda":
        return "cpu"
    return f"cuda:{replica_rank % torch.cuda.device_count()}"


class TransformersServer:
    """Generation and scoring with one transformers model (a Ray actor; all public methods are verl's contract)."""

    def __init__(self, config: Any, model_config: Any, replica_rank: int) -> None:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
        from verl.utils.config import omega_conf_to_dataclass

        self.config = omega_conf_to_dataclass(config)
        self.name = server_name(replica_rank)
        path = model_config["path"] if isinstance(model_config, dict) else model_config.path
        tokenizer = AutoTokenizer.from_pretrained(path)
        dtype = {"bfloat16": torch.bfloat16, "float32": torch.float32}[self.config.dtype]
        # Random weights: the real ones arrive with the first synchronisation, before any request is served.
        hf_config = AutoConfig.from_pretrained(path)
        self.model = AutoModelForCausalLM.from_config(hf_config, attn_implementation="sdpa").to(dtype).eval()
        self.model.to(_device(replica_rank))
        # Scoring runs beside generation, which switches the attention of its model's config while it works: a second
        # module over the same parameters, with a config of its own.
        self.scorer = AutoModelForCausalLM.from_config(deepcopy(hf_config), attn_implementation="sdpa").eval()
        self.scorer.load_state_dict(self.model.state_dict(), assign=True)
        self.scorer.tie_weights()
        self.generator = BatchGenerator(
            self.model,
            eos_ids=[tokenizer.eos_token_id],
            pad_id=tokenizer.pad_token_id,
            max_batch=self.config.max_num_seqs,
        )
        self.global_steps: int | None = None
        self.awake = asyncio.Event()  # scoring waits for it; generation waits inside the generator

    async def generate(
        self, prompt_ids: Any, sampling_params: dict[str, Any], request_id: str, **_: Any
    ) -> TokenOutput:
        """Generate one assistant turn."""
        generation = await self.generator.generate(
            normalize_token_ids(prompt_ids),
            max_tokens=int(sampling_params["max_tokens"]),
            temperature=float(sampling_params.get("temperature", 1.0)),
            top_p=float(sampling_params.get("top_p", 1.0)),
            seed=int(sampling_params["seed"]),
            return_logprobs=True,
        )
        return TokenOutput(
            token_ids=generation.ids,
            log_probs=generation.logprobs,
            stop_reason="completed" if generation.stop_reason == "stop" else generation.stop_reason,
            num_preempted=0,
            extra_fields={"global_steps": self.global_steps, "server": self.name},
        )

    async def score(self, request: ProbeRequest) -> BoundaryScores:
        """Score the most likely accepted answer at each boundary of one rollout, in one pass."""
        await self.awake.wait()
        temperature = self.config.temperature or 1.0
        scores = await asyncio.to_thread(score_boundaries, self.scorer, request, temperature=temperature)
        return BoundaryScores(best_scores(scores).tolist(), requests=1, tokens_read=request.tokens_read)

    async def load_weights(self, weights: dict[str, torch.Tensor], global_steps: int | None) -> None:
        """Replace all weights.

        Raises:
            RuntimeError: A weight is missing or unknown.
        """
        result = self.model.load_state_dict(weights, strict=False)
        self.model.tie_weights()
        tied = {"lm_head.weight"} if self.model.config.tie_word_embeddings else set()
        missing = set(result.missing_keys) - tied
        if missing or result.unexpected_keys:
            raise RuntimeError(f"weight synchronisation: missing {sorted(missing)}, unknown {result.unexpected_keys}")
        self.global_steps = global_steps

    async def ready(self) -> bool:
        """Answer once the model is built."""
        return True

    async def wake_up(self, tags: list[str] | None = None) -> None:
        """Serve requests."""
        self.generator.resume()
        self.awake.set()

    async def sleep(self, **_: Any) -> None:
        """Finish what runs and hold new requests."""
        self.awake.clear()
        await self.generator.pause()

    async def clear_kv_cache(self) -> None:
        """Drop the keys and values of finished sequences."""
        self.generator.clear_prefixes()

    async def release_kv_cache(self) -> None:
        """Drop the keys and values of finished sequences."""
        self.generator.clear_prefixes()

    async def resume_kv_cache(self) -> None:
        """Nothing to bring back: the cache fills as requests come."""

    async def abort_all_requests(self, reject_request: bool = False) -> dict[str, Any]:
        """Cut short what runs; callers get what was sampled so far."""
        return {"aborted_count": self.generator.abort_all(), "request_ids": []}

    async def resume_generation(self) -> None:
        """Serve requests again after an abort."""
        await self.wake_up()

    async def set_global_steps(self, global_steps: int) -> None:
        """Name the version of the weights in the outputs."""
        self.global_steps = global_steps

    async def start_profile(self, **_: Any) -> None:
        """No profiler."""

    async def stop_profile(self) -> None:
        """No profiler."""


class TransformersReplica(RolloutReplica):
    """One :class:`TransformersServer` per replica."""

    async def launch_servers(self) -> None:
        """Start the server actor and wait until its model is built."""
        name = server_name(self.replica_rank)
        options = {"name": name, "num_cpus": 0, "max_concurrency": self.max_concurrency}
        server = (
            ray.remote(TransformersServer)
            .options(**options)
            .remote(config=self.config, model_config=self.model_config, replica_rank=self.replica_rank)
        )
        await server.ready.remote()
        self.servers, self._server_handle, self._server_address = [server], server, name


class TransformersAdapter(BaseRollout):
    """Runs inside each training worker and pushes the actor's weights to its replica's server."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        sizes = self.config
        world = sizes.tensor_model_parallel_size * sizes.data_parallel_size * sizes.pipeline_model_parallel_size
        rank = int(os.environ["RANK"])  # set by verl's worker base class
        self.replica_rank = rank // world if replica_rank == -1 else replica_rank
        self.rollout_rank = rank % world
        self._server: Any = None

    @property
    def server(self) -> Any:
        """Handle of the replica's server."""
        if self._server is None:
            self._server = ray.get_actor(server_name(self.replica_rank))
        return self._server

    async def resume(self, tags: list[str]) -> None:
        """Wake the server."""
        if self.rollout_rank == 0:
            await self.server.wake_up.remote(tags=tags)

    async def release(self) -> None:
        """Put the server to sleep."""
        if self.rollout_rank == 0:
            await self.server.sleep.remote()

    async def update_weights(
        self,
        weights: Iterator[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        **_: Any,
    ) -> None:
        """Send all weights. Every rank drains the generator, since it gathers shards collectively."""
        if wire_format != "named_tensors":
            raise ValueError(f"{ENGINE} takes named_tensors, not {wire_format}")
        named = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        if self.rollout_rank == 0:
            await self.server.load_weights.remote(named, global_steps)


RolloutReplicaRegistry.register(ENGINE, lambda: TransformersReplica)
rollout_base._ROLLOUT_REGISTRY[(ENGINE, "async")] = f"{__name__}.{TransformersAdapter.__name__}"
