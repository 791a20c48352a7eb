"""The environment inside TorchRL, without any adapter: its wrapper knows text spaces by their type."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

import venus_env  # noqa: F401 (registers the environment)
from tests.env.protocol.tools import Lookup
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.tasks.task import Task

envs = pytest.importorskip("torchrl.envs", reason="pip install torchrl==0.10.1")
TensorDictModule = pytest.importorskip("tensordict.nn").TensorDictModule

SEARCH = render_call("Search.", "search", {"query": ["Lund"]})
ANSWER = render_answer("Done.", "Sweden")


@pytest.fixture
def env() -> Any:
    task = Task(id="lund", question="In which country is Lund?", answers=("Sweden",))
    return envs.GymWrapper(gym.make("VenusResearch-v0", tasks=[task], tools=[Lookup()], belief=None, max_turns=4))


def policy(observation: str) -> str:
    return ANSWER if observation.startswith("<tool_response>") else SEARCH


def test_reset_and_step(env: Any) -> None:
    data = env.reset()
    assert data["observation"] == "In which country is Lund?"
    data["action"] = SEARCH
    after = env.step(data)["next"]
    assert "https://x/lund" in after["observation"]
    assert not after["done"].item()
    data["action"] = ANSWER
    after = env.step(data)["next"]
    assert after["terminated"].item()
    assert after["reward"].item() == 1.0


def test_rollout_with_a_policy(env: Any) -> None:
    module = TensorDictModule(policy, in_keys=["observation"], out_keys=["action"])
    rollout = env.rollout(10, module)
    assert list(rollout["action"]) == [SEARCH, ANSWER]
    assert rollout["observation"][0] == "In which country is Lund?"
    assert "https://x/lund" in rollout["next", "observation"][0]
    assert rollout["next", "reward"].flatten().tolist() == [0.0, 1.0]
    assert rollout["next", "done"].flatten().tolist() == [False, True]


def test_a_malformed_turn_is_punished_and_a_budget_truncates(env: Any) -> None:
    rollout = env.rollout(10)  # without a policy TorchRL acts "a string"
    assert set(rollout["next", "reward"].flatten().tolist()) == {-1.0}
    assert rollout["next", "truncated"].flatten().tolist() == [False] * (len(rollout) - 1) + [True]
    assert not rollout["next", "terminated"].any()


def test_torchrl_finds_the_specs_right(env: Any) -> None:
    envs.utils.check_env_specs(env)
