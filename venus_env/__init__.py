"""Venus: deep research as a reinforcement-learning environment.

Importing this package registers ``VenusResearch-v0`` with Gymnasium::

    import gymnasium as gym
    import venus_env

    env = gym.make("VenusResearch-v0")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium as gym

if TYPE_CHECKING:
    from venus_env.corpus import open_corpus
    from venus_env.envs.research import ResearchEnv
    from venus_env.envs.slot import EnvState
    from venus_env.envs.token_wrapper import TokenWrapper
    from venus_env.envs.vector import ResearchVectorEnv
    from venus_env.protocol import Episode, EpisodeConfig, Trajectory
    from venus_env.rewards import RewardConfig
    from venus_env.rewards.judge import Judge
    from venus_env.session import ResearchSession
    from venus_env.tasks.loaders import load_tasks
    from venus_env.tasks.task import Task

__all__ = [
    "EnvState",
    "Episode",
    "EpisodeConfig",
    "Judge",
    "ResearchEnv",
    "ResearchSession",
    "ResearchVectorEnv",
    "RewardConfig",
    "Task",
    "TokenWrapper",
    "Trajectory",
    "load_tasks",
    "open_corpus",
]

# Names are looked up on first use, so that importing one light module of the package does not load all of it.
_HOMES = {
    "EnvState": "venus_env.envs.slot",
    "Episode": "venus_env.protocol",
    "EpisodeConfig": "venus_env.protocol",
    "Judge": "venus_env.rewards.judge",
    "ResearchEnv": "venus_env.envs.research",
    "ResearchSession": "venus_env.session",
    "ResearchVectorEnv": "venus_env.envs.vector",
    "RewardConfig": "venus_env.rewards",
    "Task": "venus_env.tasks.task",
    "TokenWrapper": "venus_env.envs.token_wrapper",
    "Trajectory": "venus_env.protocol",
    "load_tasks": "venus_env.tasks.loaders",
    "open_corpus": "venus_env.corpus",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


gym.register(
    id="VenusResearch-v0",
    entry_point="venus_env.envs.research:ResearchEnv",
    vector_entry_point="venus_env.envs.vector:ResearchVectorEnv",
)
