"""Turn-level advantages the usual way: dense token tensors and Python loops over samples with ``.item()``.

Written from the method's description of the reference (4.6), as what :mod:`bench.advantage` is timed against and as a
second opinion on its results. It keeps the reference's rules, its defects included: a scored token is one whose reward
is not zero, and the last valid token is always the outcome's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Literal

import torch

Mode = Literal["joint", "separate", "scaled_separate", "raw_ig"]
Pools = dict[Hashable, list[float]]


def loop_advantages(
    rewards: torch.Tensor, response_mask: torch.Tensor, groups: Sequence[Hashable], mode: Mode, gamma: float
) -> torch.Tensor:
    """Return advantages per token.

    Args:
        rewards: Rewards at tokens, rollouts × tokens; zero where there is none.
        response_mask: 1 for valid tokens, which come first in every row.
        groups: Group of each rollout.
        mode: How the two pools are normalised.
        gamma: Discount between scored tokens.
    """
    outcome_mask = torch.zeros_like(response_mask, dtype=torch.bool)
    for row in range(rewards.shape[0]):
        valid = response_mask[row].nonzero().flatten()
        if len(valid):
            outcome_mask[row, int(valid[-1].item())] = True
    gain_mask = response_mask.bool() & ~outcome_mask & (rewards != 0)
    outcome_at, gain_at = _places(outcome_mask), _places(gain_mask)

    outcomes: Pools = defaultdict(list)
    gains: Pools = outcomes if mode == "joint" else defaultdict(list)
    for row, group in enumerate(groups):
        outcomes[group] += [rewards[row, place].item() for place in outcome_at[row]]
        gains[group] += [rewards[row, place].item() for place in gain_at[row]]
    normalised = torch.zeros_like(rewards)
    for row, group in enumerate(groups):
        own_outcome = 0.0
        for place in outcome_at[row]:
            mean, std = _statistics(outcomes[group])
            own_outcome = (rewards[row, place].item() - mean) / (std + 1e-6)
            normalised[row, place] = own_outcome
        for place in gain_at[row]:
            mean, std = _statistics(gains[group])
            value = rewards[row, place].item()
            if mode == "raw_ig":
                normalised[row, place] = value / (std + 1e-6) + own_outcome
            else:
                normalised[row, place] = (value - mean) / (std + 1e-6)
    if mode == "scaled_separate" and gain_mask.any():
        reference = max(normalised[outcome_mask].abs().mean().item(), 0.3)
        normalised[gain_mask] *= min(reference / (normalised[gain_mask].abs().mean().item() + 1e-6), 10.0)

    discount = 0.0 if mode == "raw_ig" else gamma
    advantages = torch.zeros_like(rewards)
    for row in range(rewards.shape[0]):
        places = sorted(outcome_at[row] + gain_at[row])
        following = 0.0
        for index in reversed(range(len(places))):
            following = normalised[row, places[index]].item() + discount * following
            start = places[index - 1] + 1 if index else 0
            advantages[row, start : places[index] + 1] = following
    return advantages


def _places(mask: torch.Tensor) -> list[list[int]]:
    return [row.nonzero().flatten().tolist() for row in mask]


def _statistics(values: list[float]) -> tuple[float, float]:
    tensor = torch.tensor(values)
    mean = tensor.mean().item()
    if len(values) <= 1:
        return mean, 1.0
    return mean, (tensor.var(unbiased=False) + 1e-8).sqrt().item()
