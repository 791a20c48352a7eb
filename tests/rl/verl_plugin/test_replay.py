"""The watch over a step's rollouts, without Ray: what it asks of an actor is answered here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import ray
from verl.trainer.ppo.v1 import replay_buffer

from venus_rl.verl_plugin import replay
from venus_rl.verl_plugin.replay import StepTimeout, WatchfulReplayBuffer, WorkerDied


class Worker:
    """An actor handle: ``alive``, ``dead`` or ``busy``."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.asked = 0
        self.__ray_ready__ = self

    def remote(self) -> Worker:
        self.asked += 1
        return self


@pytest.fixture
def buffer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., WatchfulReplayBuffer]:
    def get(worker: Worker) -> None:
        if worker.state == "dead":
            raise ray.exceptions.ActorDiedError

    monkeypatch.setattr(ray, "wait", lambda refs, timeout: ([r for r in refs if r.state != "busy"], []))
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(replay_buffer.tq, "kv_list", dict)
    monkeypatch.setattr(replay, "_PING_EVERY_S", 0.0)

    def make(timeout: float, *states: str) -> WatchfulReplayBuffer:
        made = WatchfulReplayBuffer(
            sampler_kwargs={"timeout_s": timeout},
            trainer_mode="sync",
            trainer_config=None,
            max_off_policy_threshold=8,
            max_off_policy_strategy="drop",
        )
        made.poll_interval = 0.01
        made.watch({f"worker {number}": Worker(state) for number, state in enumerate(states)})
        return made

    return make


def wait(buffer: WatchfulReplayBuffer) -> Any:
    return buffer.sample(global_steps=7, partition_id="train", batch_size=1)


def test_a_dead_worker_ends_the_wait(buffer: Callable[..., WatchfulReplayBuffer]) -> None:
    with pytest.raises(WorkerDied, match="step 7: the worker 1 died"):
        wait(buffer(60, "alive", "dead"))


def test_a_busy_worker_does_not_but_the_clock_does(buffer: Callable[..., WatchfulReplayBuffer]) -> None:
    watched = buffer(0.2, "busy", "alive")
    with pytest.raises(StepTimeout, match=r"step 7: 0 prompts .* after 0\.2 s \(rl\.step_timeout_s\)"):
        wait(watched)
    busy, alive = watched._workers.values()
    assert busy.asked == 1  # its answer is still due
    assert alive.asked > 1


def test_a_dead_server_is_named_when_it_has_lost_every_rollout(
    buffer: Callable[..., WatchfulReplayBuffer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_left(*_: Any, **__: Any) -> None:
        raise RuntimeError("no materializable trajectories")

    monkeypatch.setattr(replay.ReplayBuffer, "sample", nothing_left)
    watched = buffer(60, "alive", "dead")
    watched._pings["worker 1"] = Worker("alive")  # asked before it died
    with pytest.raises(WorkerDied, match="the worker 1 died"):
        wait(watched)
    with pytest.raises(RuntimeError, match="no materializable trajectories"):
        wait(buffer(60, "alive"))
