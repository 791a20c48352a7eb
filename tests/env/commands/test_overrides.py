from __future__ import annotations

import pytest

from venus_env.commands.errors import CommandError
from venus_env.commands.overrides import apply_overrides
from venus_env.rewards.compose import RewardConfig
from venus_env.setting import EnvConfig


def test_values_are_read_as_the_type_of_their_field() -> None:
    pairs = ["rewards.outcome=em", "rewards.information_gain=false", "top_k=3", "current_date=2020", "time_limit_s=1.5"]
    config = apply_overrides(EnvConfig(max_turns=7), [*pairs, "tool_timeout_s=null", "corpus=a=b"], "--env")
    assert config == EnvConfig(
        max_turns=7,
        rewards=RewardConfig(outcome="em", information_gain=False),
        top_k=3,
        current_date="2020",
        time_limit_s=1.5,
        tool_timeout_s=None,
        corpus="a=b",
    )
    assert apply_overrides(EnvConfig(), [], "--env") == EnvConfig()


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("top_k", "--env top_k: expected KEY=VALUE"),
        ("topk=3", "--env topk=3: there is no setting 'topk'; the nearest one is 'top_k'"),
        ("outcome=em", "there is no setting 'outcome'; the nearest one is 'rewards.outcome'"),
        ("rewards.score.x=em", "there is no setting 'rewards.score.x'; the nearest one is 'rewards.score'"),
        ("=1", "there is no setting ''; the settings are"),
        ("bar=1", "there is no setting 'bar'; the settings are prompt, "),
        (
            "top_k=many",
            "--env top_k: Input should be a valid integer, unable to parse string as an integer, got 'many'",
        ),
        ("rewards.outcome=bleu", "--env rewards.outcome: Input should be 'f1' or 'em', got 'bleu'"),
        ("max_context_tokens=100", "max_turn_tokens"),
    ],
)
def test_what_does_not_fit_is_named(pair: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        apply_overrides(EnvConfig(max_turn_tokens=200), [pair], "--env")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
