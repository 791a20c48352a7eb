"""verl's vLLM weight-sync adapter, which runs in each training worker, with an end to waiting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import zmq
from verl.workers.rollout.vllm_rollout import ServerAdapter

ANSWER_WITHIN_S = 300  # one bucket of weights takes seconds


class TimedAdapter(ServerAdapter):
    """Raises where verl's own waits for ever: for a server that died while it was taking weights.

    verl's sender blocks its process in ``socket.recv()`` (bucketed_weight_transfer.py:136 beside ``ServerAdapter``). It
    makes its sockets from the process-wide context, whose defaults are set here.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        context: Any = zmq.Context.instance()
        context.setsockopt(zmq.RCVTIMEO, ANSWER_WITHIN_S * 1000)
        context.setsockopt(zmq.LINGER, 0)  # a message that nobody fetches must not hold up the end of the process

    async def update_weights(self, weights: Iterator[tuple[str, torch.Tensor]], *args: Any, **kwargs: Any) -> None:
        """Send all weights.

        Raises:
            RuntimeError: The server did not take them.
        """
        try:
            await super().update_weights(weights, *args, **kwargs)
        except zmq.Again as error:
            raise RuntimeError(
                f"the vLLM server of replica {self.replica_rank} took no weights for {ANSWER_WITHIN_S} s; what stopped "
                "it stands further up in this log"
            ) from error
