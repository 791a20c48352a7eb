"""verl's vLLM server with a method that scores answers, on the CPU build and on GPUs alike."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import ray
from verl.workers.rollout.replica import TokenOutput
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica
from vllm import SamplingParams, TokensPrompt
from vllm.platforms import current_platform

from venus_env.beliefs.probes import ProbeRequest
from venus_rl.igpo.scoring import BoundaryScores
from venus_rl.verl_plugin.vllm_scoring import PrefixScorer, TokenScore


class ScoringServer(vLLMHttpServer):
    """A Ray actor around one vLLM engine; everything but scoring is verl's."""

    async def launch_server(self, *args: Any, **kwargs: Any) -> None:
        """Start the engine."""
        await super().launch_server(*args, **kwargs)
        # verl hands our settings through: engine_kwargs has an entry per engine, and ours is not vLLM's.
        self.scorer = PrefixScorer(self._ask, int(self.config.engine_kwargs["venus"]["score_in_flight"]))
        self.name = ray.get_runtime_context().get_actor_name()

    async def generate(self, *args: Any, **kwargs: Any) -> TokenOutput:
        """Generate one assistant turn; the output names this server, which is where the turn's prefix is cached."""
        output = await super().generate(*args, **kwargs)
        output.extra_fields["server"] = self.name
        return output

    async def score(self, request: ProbeRequest) -> BoundaryScores:
        """Score the best accepted answer at each boundary of one rollout."""
        return await self.scorer.score(request)

    async def clear_kv_cache(self) -> None:
        """Forget what was computed with other weights; verl calls this after every synchronisation."""
        self.scorer.forget()
        await super().clear_kv_cache()

    async def _ask(self, prompt: list[int], token: int) -> TokenScore:
        # logprobs_mode is "processed_logprobs": the temperature counts, as in what is sampled and trained on.
        parameters = SamplingParams(
            max_tokens=1, temperature=self.config.temperature or 1.0, logprob_token_ids=[token], detokenize=False
        )
        final = None
        async for output in self.engine.generate(
            prompt=TokensPrompt(prompt_token_ids=prompt), sampling_params=parameters, request_id=uuid4().hex
        ):
            final = output
        if final is None or not final.outputs or not final.outputs[0].logprobs:
            raise RuntimeError("vLLM aborted a scoring request")
        logprob = final.outputs[0].logprobs[0][token].logprob
        return TokenScore(logprob, len(prompt) - (final.num_cached_tokens or 0))

    def _get_worker_extension_cls(self) -> str:
        if current_platform.is_cpu():
            return "venus_rl.verl_plugin.vllm_worker.CpuWorkerExtension"
        extension: str = super()._get_worker_extension_cls()
        return extension


class ScoringReplica(vLLMReplica):
    """One :class:`ScoringServer` per node of a replica."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(ScoringServer)
