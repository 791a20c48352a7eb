"""From one seed to a seed per slot, and from what slots have done to the arrays that vector environments return."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from venus_env.envs.autoreset import Played
from venus_env.envs.slot import Observation

Observations = tuple[Observation, ...]
Batch = tuple[Observations, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]
"""Observations, rewards, terminations, truncations, infos."""
Seeds = int | Sequence[int | None] | None


def stack(played: Sequence[Played]) -> Batch:
    """Stack what slots have played, in the order given."""
    return (
        tuple(result.observation for result in played),
        np.array([result.reward for result in played], dtype=np.float64),
        np.array([result.terminated for result in played], dtype=np.bool_),
        np.array([result.truncated for result in played], dtype=np.bool_),
        merge_infos(enumerate(played), len(played)),
    )


def merge_infos(played: Iterable[tuple[int, Played]], size: int) -> dict[str, Any]:
    """Lay out infos as Gymnasium's vector environments do, in arrays of any size."""
    layout: VectorEnv[Any, Any, Any] = VectorEnv()
    layout.num_envs = size
    merged: dict[str, Any] = {}
    for place, result in played:
        for info in result.infos:
            merged = layout._add_info(merged, info, place)
    return merged


def seeds_of(seed: Seeds, env_ids: Sequence[int]) -> dict[int, int | None]:
    """Seed of each slot: an int stands for itself plus the number of the slot, a list has one seed or None per slot."""
    if seed is None:
        return dict.fromkeys(env_ids)
    if isinstance(seed, int | np.integer):
        seeds: list[int | None] = [int(seed) + env_id for env_id in env_ids]
    else:
        seeds = [None if own is None else operator.index(own) for own in seed]
    if len(seeds) != len(env_ids):
        raise ValueError(f"there are {len(seeds)} seeds for {len(env_ids)} slots")
    if any(own is not None and own < 0 for own in seeds):
        raise ValueError(f"seeds must not be negative, got {seed}")
    return dict(zip(env_ids, seeds, strict=True))
