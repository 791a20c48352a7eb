"""Hands turn-level advantages to verl's advantage step.

verl 0.9.1 gives a registered estimator one scalar reward per rollout and no turn structure (RFC #7244). The trainer
therefore computes the advantages from explicit turns (:mod:`venus_rl.igpo.advantage`) and offers them for the time of
verl's own ``_compute_advantage``; the estimator registered here picks them up. KL in reward and rollout correction,
which verl does around the estimator, keep working.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from verl.trainer.ppo.core_algos import register_adv_est

ESTIMATOR = "venus_turns"

_offered: ContextVar[torch.Tensor] = ContextVar("venus_turn_advantages")


@contextmanager
def offer(advantages: torch.Tensor) -> Iterator[None]:
    """Make ``advantages`` (rollouts × response tokens, rows in batch order) what the estimator returns."""
    token = _offered.set(advantages)
    try:
        yield
    finally:
        _offered.reset(token)


@register_adv_est(ESTIMATOR)
def turn_advantages(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the offered advantages on loss-bearing tokens, as ``(advantages, returns)``.

    Raises:
        RuntimeError: Nothing was offered, or for a batch of another shape.
    """
    advantages = _offered.get(None)
    if advantages is None:
        raise RuntimeError(f"algorithm.adv_estimator={ESTIMATOR} works only inside venus_rl's trainer")
    if advantages.shape != response_mask.shape:
        raise RuntimeError(
            f"advantages of shape {tuple(advantages.shape)} offered for {tuple(response_mask.shape)} tokens"
        )
    masked = advantages.to(token_level_rewards.dtype) * response_mask
    return masked, masked.clone()
