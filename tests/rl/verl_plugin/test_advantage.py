from __future__ import annotations

import pytest
import torch
from verl.trainer.ppo.core_algos import get_adv_estimator_fn

from venus_rl.verl_plugin.advantage import ESTIMATOR, offer, turn_advantages

MASK = torch.tensor([[1, 0, 1], [1, 1, 0]])
REWARDS = torch.zeros(2, 3)
VALUES = torch.tensor([[0.5, 0.5, -2.0], [1.0, 1.0, 3.0]])


def estimate() -> tuple[torch.Tensor, torch.Tensor]:
    return turn_advantages(token_level_rewards=REWARDS, response_mask=MASK, index=["a", "b"], config=None)


def test_verl_finds_the_estimator() -> None:
    assert get_adv_estimator_fn(ESTIMATOR) is turn_advantages


def test_offered_values_reach_loss_bearing_tokens_only() -> None:
    with offer(VALUES.double()):
        advantages, returns = estimate()
    assert advantages.tolist() == [[0.5, 0.0, -2.0], [1.0, 1.0, 0.0]]
    assert advantages.dtype == REWARDS.dtype
    assert torch.equal(advantages, returns)
    returns.zero_()
    assert advantages.any()  # not the same storage


def test_nothing_is_offered_outside_nor_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), offer(VALUES):
        _ = 1 / 0
    with pytest.raises(RuntimeError, match="adv_estimator=venus_turns works only inside venus_rl's trainer"):
        estimate()


def test_the_innermost_offer_counts() -> None:
    with offer(VALUES):
        with offer(-VALUES):
            assert estimate()[0][0, 0] == -0.5
        assert estimate()[0][0, 0] == 0.5


def test_values_of_another_batch_are_refused() -> None:
    with offer(VALUES[:1]), pytest.raises(RuntimeError, match=r"shape \(1, 3\) offered for \(2, 3\) tokens"):
        estimate()
