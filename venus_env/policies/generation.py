"""Token-in, token-out generation for many callers at once over one ``transformers`` model.

Continuous batching: requests join the running batch between two steps and leave it the moment they finish, so a long
answer never holds up short ones. Work is shared where tokens are: equal prompts of one group are read once, and a
conversation's next turn continues from the keys and values of its last one. None of that changes a result beyond float
rounding, because each request samples from its own seeded stream.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from venus_env.policies.attention import grouped_attention, require_maskable
from venus_env.policies.engine import Engine, Generation, GenerationStats, Request

logger = logging.getLogger(__name__)


class BatchGenerator:
    """Generates for many concurrent callers.

    The model runs in one worker thread, which lives while there is work. Weights may be changed between
    :meth:`pause` and :meth:`resume` (or whenever nothing runs); changed parameters are noticed and stored prefixes
    dropped, :meth:`clear_prefixes` does so explicitly.

    Args:
        model: A causal language model of ``transformers`` with full attention; it is put into eval mode.
        eos_ids: Tokens that end a generation.
        pad_id: Token for padding; never seen by attention.
        max_batch: Most rows at a time; further requests wait.
        window_s: How long an idle generator waits for company after a first request.
        prefix_bytes: Memory for keys and values of finished sequences; 0 turns reuse off.
    """

    def __init__(
        self,
        model: Any,
        eos_ids: Sequence[int],
        pad_id: int,
        max_batch: int = 64,
        *,
        window_s: float = 0.004,
        prefix_bytes: int = 512 * 2**20,
    ) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, got {max_batch}")
        require_maskable(model.config)
        self.model = model.eval()
        self._engine = Engine(model, eos_ids, pad_id, max_batch, prefix_bytes)  # worker thread only
        self._max_batch = max_batch
        self._window = window_s
        self._vocabulary = int(model.config.vocab_size)
        self._context = int(getattr(model.config, "max_position_embeddings", 0)) or 2**31
        # Everything below is guarded by the condition.
        self._state = threading.Condition()
        self._queue: list[Request] = []
        self._thread: threading.Thread | None = None
        self._paused = False

    @property
    def stats(self) -> GenerationStats:
        """Counters since the generator was made."""
        return self._engine.stats

    async def generate(
        self,
        prompt_ids: Sequence[int],
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
        return_logprobs: bool = False,
    ) -> Generation:
        """Sample a continuation of ``prompt_ids``.

        Args:
            prompt_ids: The whole context.
            max_tokens: Most tokens to sample; less where the model's positions run out.
            temperature: 0 takes the most probable token.
            top_p: Sample from the smallest set of tokens that holds this probability.
            seed: The same seed, prompt and weights give the same tokens, whoever else is in the batch.
            return_logprobs: Also return the tokens' log-probabilities.
        """
        request = self._request(prompt_ids, max_tokens, temperature, top_p, seed, return_logprobs)
        with self._state:
            self._queue.append(request)
            self._wake()
        try:
            return await asyncio.wrap_future(request.future)
        except asyncio.CancelledError:
            request.abandoned = True  # the worker drops the row at its next step
            raise

    async def pause(self) -> None:
        """Admit nothing more and wait until what runs has finished; later requests wait for :meth:`resume`."""

        def wait() -> None:
            with self._state:
                self._paused = True
                self._state.notify_all()
                self._state.wait_for(lambda: self._thread is None)

        await asyncio.to_thread(wait)

    def resume(self) -> None:
        """Admit requests again."""
        with self._state:
            self._paused = False
            self._wake()

    def abort_all(self) -> int:
        """Cut short everything queued or running (callers get what was sampled); returns how many requests."""
        with self._state:
            queued, self._queue = self._queue, []
            running = list(self._engine.rows)
            for request in running:
                request.abandoned = True  # the worker owns it and lets go of it at its next step
        for request in queued:
            request.resolve("aborted")
        return len(queued) + len(running)

    def clear_prefixes(self) -> None:
        """Forget the keys and values of finished sequences. Call only while paused or idle."""
        self._engine.clear_prefixes()

    def _request(
        self, prompt_ids: Sequence[int], max_tokens: int, temperature: float, top_p: float, seed: int, logprobs: bool
    ) -> Request:
        prompt = np.asarray(prompt_ids, dtype=np.int64)
        if prompt.ndim != 1 or not len(prompt):
            raise ValueError(f"prompt_ids must be a non-empty list of token ids, got shape {prompt.shape}")
        if prompt.min() < 0 or prompt.max() >= self._vocabulary:
            raise ValueError(
                f"prompt_ids holds {prompt.min()}..{prompt.max()}, outside the model's vocabulary [0, "
                f"{self._vocabulary}): is this the model's own tokenizer?"
            )
        if len(prompt) >= self._context:
            raise ValueError(
                f"the prompt has {len(prompt)} tokens, the model {self._context} positions: lower max_context_tokens"
            )
        if max_tokens < 1 or temperature < 0 or not 0 < top_p <= 1 or seed < 0:
            raise ValueError(
                f"need max_tokens >= 1, temperature >= 0, 0 < top_p <= 1 and seed >= 0, got max_tokens={max_tokens}, "
                f"temperature={temperature}, top_p={top_p}, seed={seed}"
            )
        budget = min(max_tokens, self._context - len(prompt))
        ids = np.empty(len(prompt) + budget, dtype=np.int64)
        ids[: len(prompt)] = prompt
        return Request(
            ids=ids,
            prompt_length=len(prompt),
            max_tokens=budget,
            temperature=temperature,
            top_p=top_p,
            rng=np.random.default_rng(seed),
            logprobs=[] if logprobs else None,
            future=Future(),
        )

    def _wake(self) -> None:
        """Start the worker if there is something to do (condition held)."""
        if self._thread is None and self._queue and not self._paused:
            self._thread = threading.Thread(target=self._work, name="venus-generator", daemon=True)
            self._thread.start()
        self._state.notify_all()

    def _work(self) -> None:
        """The worker thread: runs until nothing is queued or running."""
        import torch

        engine = self._engine
        with self._state:  # gather company before the first pass
            self._state.wait_for(lambda: self._paused or len(self._queue) >= self._max_batch, timeout=self._window)
        with torch.inference_mode(), grouped_attention(self.model):
            while True:
                with self._state:
                    free = 0 if self._paused else engine.free
                    arrivals, self._queue = self._queue[:free], self._queue[free:]
                    if not arrivals and not engine.rows:
                        self._thread = None
                        self._state.notify_all()
                        return
                try:
                    engine.drop_abandoned()
                    engine.admit(arrivals)
                    engine.step()
                except Exception as error:  # every waiting caller must hear of it, or it would wait for ever
                    logger.exception("generation failed; every running request gets the error")
                    for request in arrivals:
                        request.resolve(error)
                    engine.fail(error)
