from __future__ import annotations

from venus_env.rewards.format import format_reward


def test_only_badly_formed_turns_are_penalised() -> None:
    assert format_reward(True, 1.0) is None
    assert format_reward(False, 1.0) == -1.0
    assert format_reward(False, 0.0) == 0.0
