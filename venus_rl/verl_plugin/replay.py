"""verl's replay buffer for synchronous training, which gives up when there is nothing left to wait for.

verl 0.9.1 waits for the rollouts of a step for ever. An agent-loop worker that was killed never reports again, and a
tool that blocks its worker's event loop holds up every episode in it: both are errors here. verl makes this class by
its name (``trainer.v1.sampler.custom_sampler``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import ray
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

_PING_EVERY_S = 5.0


class WorkerDied(RuntimeError):
    """A process that plays episodes or generates for them is gone."""


class StepTimeout(RuntimeError):
    """The episodes of a step take longer than ``rl.step_timeout_s``."""


class WatchfulReplayBuffer(ReplayBuffer):  # type: ignore[misc]
    """A :class:`ReplayBuffer` that knows the workers it waits for.

    Args:
        sampler_kwargs: ``timeout_s``: longest wait for the rollouts of one step.
        **options: verl's own arguments.
    """

    def __init__(self, *, sampler_kwargs: Any, **options: Any) -> None:
        # The default of 2 s between two looks is a floor under every step and has no key.
        super().__init__(sampler_kwargs=sampler_kwargs, poll_interval=0.1, **options)
        self._timeout = float(sampler_kwargs["timeout_s"])
        self._deadline = float("inf")
        self._step = 0
        self._workers: dict[str, Any] = {}
        self._pings: dict[str, Any] = {}
        self._next_ping = 0.0

    def watch(self, workers: Mapping[str, Any]) -> None:
        """Name the Ray actors without which no episode ends."""
        self._workers = dict(workers)
        self._pings.clear()

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> Any:
        """Wait for a batch.

        Raises:
            WorkerDied: One of the watched actors is gone.
            StepTimeout: It takes too long.
        """
        self._step = global_steps
        self._deadline = time.monotonic() + self._timeout
        try:
            return super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        except (WorkerDied, StepTimeout):
            raise
        except RuntimeError:  # verl has no rollout left, maybe for want of a server
            self._pings.clear()  # an answer from before says nothing
            self._ping(patience_s=5.0)
            raise

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        now = time.monotonic()
        if now > self._deadline:
            running = len(self.pending_keys[partition_id]) + len(self.running_keys[partition_id])
            raise StepTimeout(
                f"step {self._step}: {running} prompts were still being rolled out after {self._timeout:g} s "
                "(rl.step_timeout_s); env.time_limit_s and env.tool_timeout_s bound single episodes and tool calls"
            )
        if now > self._next_ping:
            self._next_ping = now + _PING_EVERY_S
            self._ping()
        return float(super()._wait_for_next_poll(partition_id, last_debug_time))

    def _ping(self, patience_s: float = 0.0) -> None:
        """Raise if a worker is gone; one that is merely busy answers later."""
        for name, worker in self._workers.items():
            ping = self._pings.get(name) or worker.__ray_ready__.remote()
            self._pings[name] = ping
            answered, _ = ray.wait([ping], timeout=patience_s)
            if not answered:
                continue
            del self._pings[name]
            try:
                ray.get(ping)
            except ray.exceptions.RayActorError as error:
                raise WorkerDied(f"step {self._step}: the {name} died: {error}") from error
