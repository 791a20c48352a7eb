"""Scoring answers on a server with a prefix cache: one request for one token per answer position.

The prompt of a request is the context, the pseudo answer's prefix and the answer up to a position; what is read off is
the log-probability of the answer's next token. The server has the context in its cache, because it generated it, so
only the last, incomplete cache block and what follows it is read: the cost does not grow with the context. (vLLM's
``prompt_logprobs`` would read the whole context again, see ``docs/decisions.md``.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from statistics import fmean
from typing import NamedTuple

import numpy as np

from venus_env.beliefs.probes import Probe, ProbeRequest
from venus_rl.igpo.scoring import BoundaryScores


class TokenScore(NamedTuple):
    """Log-probability of a token after a prompt, and how many of the prompt's tokens were read for it."""

    logprob: float
    tokens_read: int


Ask = Callable[[list[int], int], Awaitable[TokenScore]]


class PrefixScorer:
    """Scores pseudo answers with at most ``in_flight`` requests at a time, over all rollouts together.

    A context that several rollouts share (the opening of a group) is scored once.

    Args:
        ask: Returns the :class:`TokenScore` of a token after a prompt.
        in_flight: Most requests that wait for an answer at the same time.
    """

    def __init__(self, ask: Ask, in_flight: int) -> None:
        self._ask = ask
        self._room = asyncio.Semaphore(in_flight)
        self._known: dict[tuple[bytes, Probe], asyncio.Task[list[TokenScore]]] = {}

    def forget(self) -> None:
        """Drop all scores; to be called when the weights change."""
        self._known.clear()

    async def score(self, request: ProbeRequest) -> BoundaryScores:
        """Score the best accepted answer at each boundary of one rollout.

        Raises:
            Exception: Whatever ``ask`` raises; the scores of a context for which it did are not kept.
        """
        asked: list[asyncio.Task[list[TokenScore]]] = []

        def task_of(boundary: int, probe: Probe) -> asyncio.Task[list[TokenScore]]:
            context = request.ids[:boundary]
            key = blake2b(np.asarray(context, dtype=np.int64).tobytes(), digest_size=16).digest(), probe
            if key not in self._known:
                self._known[key] = asyncio.create_task(self._positions(context, probe))
                asked.append(self._known[key])
                self._known[key].add_done_callback(lambda task: self._drop_failed(key, task))
            return self._known[key]

        tasks = [[task_of(boundary, probe) for probe in request.probes] for boundary in request.boundaries]
        found = [[await asyncio.shield(task) for task in row] for row in tasks]
        own = [score for task in asked for score in task.result()]
        return BoundaryScores(
            scores=[max(fmean(token.logprob for token in tokens) for tokens in row) for row in found],
            requests=len(own),
            tokens_read=sum(score.tokens_read for score in own),
        )

    async def _positions(self, context: Sequence[int], probe: Probe) -> list[TokenScore]:
        async def ask(position: int) -> TokenScore:
            async with self._room:
                return await self._ask([*context, *probe.ids[:position]], probe.ids[position])

        return await asyncio.gather(*(ask(position) for position in range(probe.start, len(probe.ids))))

    def _drop_failed(self, key: tuple[bytes, Probe], task: asyncio.Task[list[TokenScore]]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and self._known.get(key) is task:
            del self._known[key]
