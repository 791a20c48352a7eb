from __future__ import annotations

import pytest

from tests.env.commands.conftest import NewestWords
from venus_env.commands.errors import CommandError
from venus_env.commands.objects import load_as, load_belief
from venus_env.policies.base import EpisodePolicies, Policy
from venus_env.policies.random import RandomPolicy
from venus_env.rewards.judge import Judge


def test_what_fits_is_loaded() -> None:
    policy = load_as("venus_env.policies.random:RandomPolicy", "--policy", Policy, EpisodePolicies)
    assert isinstance(policy, RandomPolicy)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such_module:x", "there is no module 'no_such_module'"),
        ("json:missing", "has no attribute 'missing'"),
        ("json:", "expected module:attribute"),
        ("collections:Counter", "this is Counter, which is no Policy or EpisodePolicies"),
        ("venus_env.policies.openai:OpenAIPolicy", "without arguments failed: TypeError"),
    ],
)
def test_what_does_not_fit_is_named(spec: str, message: str) -> None:
    with pytest.raises(CommandError) as caught:
        load_as(spec, "--policy", Policy, EpisodePolicies)
    assert str(caught.value).startswith(f"--policy {spec!r}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_policy_is_no_judge() -> None:
    with pytest.raises(CommandError, match="which is no Judge"):
        load_as("venus_env.policies.random:RandomPolicy", "--judge", Judge)


def test_beliefs_are_named_or_loaded() -> None:
    assert load_belief("none") is None
    assert isinstance(load_belief("tests.env.commands.conftest:NewestWords"), NewestWords)
    with pytest.raises(CommandError, match=r"--belief 'venus_env.policies.random:RandomPolicy': .* is no Belief"):
        load_belief("venus_env.policies.random:RandomPolicy")
    with pytest.raises(ValueError, match="belief 'psychic' is unknown"):
        load_belief("psychic")
