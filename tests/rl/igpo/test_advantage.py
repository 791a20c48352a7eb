from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from venus_rl.igpo.advantage import AdvantageConfig, compute_advantages
from venus_rl.igpo.events import scatter_to_tokens
from venus_rl.igpo.turn_rewards import RewardEvent, TurnRewards

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "advantage.json").read_text())["vectors"]

# Vectors that record a defect of the reference, and the test that says what happens here instead.
OVERRIDDEN = {"exact_zero_ig_dropped": "test_a_gain_of_exactly_zero_is_an_event"}
KEYS = {
    "info_gain_norm_mode": "mode",
    "gamma": "gamma",
    "ig_weight": "gain_weight",
    "adaptive_gamma_min_weight": "adaptive_gamma_min_weight",
    "norm_adv_by_std_in_grpo": "normalise_std",
}


def rollouts_of(vector: dict[str, Any]) -> list[TurnRewards]:
    """Token-level rewards of a vector as events: non-zero before the last valid token is a gain, there the outcome."""
    rollouts = []
    for rewards, mask in zip(vector["input"]["token_level_rewards"], vector["input"]["response_mask"], strict=True):
        valid = [i for i, m in enumerate(mask) if m]
        if not valid:
            rollouts.append(TurnRewards(()))
            continue
        scored = [i for i in valid[:-1] if rewards[i] != 0]
        events = [RewardEvent(i, rewards[i], "information_gain", turn) for turn, i in enumerate(scored)]
        events.append(RewardEvent(valid[-1], rewards[valid[-1]], "outcome", len(scored)))
        rollouts.append(TurnRewards(tuple(events), len(scored)))
    return rollouts


def config_of(vector: dict[str, Any]) -> AdvantageConfig:
    return AdvantageConfig(**{KEYS[key]: value for key, value in vector["input"]["config"].items()})


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["id"] not in OVERRIDDEN], ids=lambda v: v["id"])
def test_reference_vectors(vector: dict[str, Any]) -> None:
    if "raises" in vector["output"]:
        with pytest.raises(ValueError, match="mode"):
            config_of(vector)
        return
    rollouts = rollouts_of(vector)
    result = compute_advantages(rollouts, vector["input"]["index"], config_of(vector))
    expected = np.array(vector["output"]["advantages"])
    np.testing.assert_allclose(scatter_to_tokens(rollouts, result.values, expected.shape[1]), expected, atol=1e-5)
    metrics = vector["output"]["metrics"]
    if result.metrics["igpo/gain_count"] and "igpo/ig_scale" in metrics:
        assert result.metrics["igpo/ig_scale"] == pytest.approx(metrics["igpo/ig_scale"], rel=1e-4)
    assert result.metrics["igpo/gain_mean"] == pytest.approx(metrics.get("igpo/raw_ig_mean", 0.0), abs=1e-6)
    assert result.metrics["igpo/outcome_mean"] == pytest.approx(metrics["igpo/outcome_reward_mean"], abs=1e-6)
    assert result.metrics["igpo/gamma_mean"] == pytest.approx(metrics["igpo/effective_gamma_mean"], abs=1e-5)


def test_every_vector_is_run_or_overridden_by_a_test_of_its_own() -> None:
    assert len(VECTORS) == len({v["id"] for v in VECTORS}) == 33
    assert OVERRIDDEN.keys() <= {v["id"] for v in VECTORS}
    assert all(callable(globals()[test]) for test in OVERRIDDEN.values())


def rollout(*events: tuple[str, float], turns: list[int] | None = None, excluded: bool = False) -> TurnRewards:
    """Events at positions 1, 3, 5, …"""
    made = [
        RewardEvent(2 * i + 1, value, kind, turns[i] if turns else i)  # type: ignore[arg-type]
        for i, (kind, value) in enumerate(events)
    ]
    return TurnRewards(tuple(made), len(made), excluded)


def gain(value: float) -> tuple[str, float]:
    return ("information_gain", value)


def outcome(value: float) -> tuple[str, float]:
    return ("outcome", value)


def penalty(value: float = -1.0) -> tuple[str, float]:
    return ("penalty", value)


def test_a_gain_of_exactly_zero_is_an_event() -> None:
    """Instead of vector exact_zero_ig_dropped, on its rewards: gains 0 and 0.5 normalise to -1 and 1.

    The reference finds scored tokens by ``reward != 0``: it drops the 0, and 0.5 alone is left undivided.
    """
    (vector,) = [v for v in VECTORS if v["id"] == "exact_zero_ig_dropped"]
    assert vector["input"]["token_level_rewards"] == [[0, 0.0, 0, 0, 1.0], [0, 0.5, 0, 0, 0.0]]
    rollouts = [rollout(gain(0.0), outcome(1.0)), rollout(gain(0.5), outcome(0.0))]
    values = compute_advantages(rollouts, ["x", "x"], AdvantageConfig(mode="separate", gamma=0.5)).values
    np.testing.assert_allclose(values, [[-1 + 0.5, 1], [1 - 0.5, -1]], atol=1e-4)


def test_a_gain_on_the_last_token_and_the_outcome_both_count() -> None:
    """The reference's defect ig_on_last_token_lost: there the last token is the outcome's, and the gain is gone."""
    cut_short = TurnRewards((RewardEvent(3, 0.5, "information_gain", 1), RewardEvent(3, 0.0, "outcome", 1)), 2)
    other = TurnRewards((RewardEvent(1, 0.1, "information_gain", 0), RewardEvent(3, 1.0, "outcome", 1)), 1)
    result = compute_advantages([cut_short, other], ["x", "x"], AdvantageConfig(mode="separate", gamma=0.5))
    tokens = scatter_to_tokens([cut_short, other], result.values, 5)
    np.testing.assert_allclose(tokens, [[0.5, 0.5, 0.5, 0.5, 0], [-0.5, -0.5, 1, 1, 0]], atol=1e-4)


def test_equal_gains_do_not_explode_in_raw_mode() -> None:
    """The reference's defect neg_ig_raw_ig: an advantage of -3959."""
    rollouts = [rollout(gain(-0.4), outcome(0.0)), rollout(gain(-0.4), outcome(1.0))]
    values = compute_advantages(rollouts, ["x", "x"], AdvantageConfig(mode="raw_ig")).values
    assert np.abs(values).max() <= 10
    assert values[0][0] < 0
    # The deviation counts as 1 % of the values' size: the gain becomes -100 before the clamp; -1 is the outcome's.
    unclamped = compute_advantages(rollouts, ["x", "x"], AdvantageConfig(mode="raw_ig", clamp=None)).values
    assert unclamped[0][0] == pytest.approx(-101, abs=0.1)


def test_a_lone_gain_is_not_divided() -> None:
    rollouts = [rollout(gain(0.25), outcome(1.0)), rollout(outcome(0.0))]
    values = compute_advantages(rollouts, ["x", "x"], AdvantageConfig(mode="raw_ig")).values
    np.testing.assert_allclose(values[0], [1.25, 1.0], atol=1e-4)


def test_hand_worked_discount_units() -> None:
    """Gains 1 and -1 and outcomes 1 and 0 normalise to ±1; events belong to turns 0 and 3."""
    rollouts = [rollout(gain(1.0), outcome(1.0), turns=[0, 3]), rollout(gain(-1.0), outcome(0.0), turns=[0, 3])]
    event = compute_advantages(rollouts, [0, 0], AdvantageConfig(mode="separate", gamma=0.5)).values
    np.testing.assert_allclose(event[0], [1.5, 1.0], atol=1e-4)
    turn = compute_advantages(
        rollouts, [0, 0], AdvantageConfig(mode="separate", gamma=0.5, discount_unit="turn")
    ).values
    np.testing.assert_allclose(turn[0], [1.125, 1.0], atol=1e-4)


def test_separate_penalty_keeps_penalties_out_of_the_gain_statistics() -> None:
    """Very bad gains would lift a penalty above the mean; held out it stays -1."""
    rollouts = [rollout(penalty(), outcome(1.0)), rollout(gain(-4.0), outcome(0.0)), rollout(gain(-2.0), outcome(0.0))]
    config = AdvantageConfig(mode="separate", gamma=0.0)
    assert compute_advantages(rollouts, [0] * 3, config).values[0][0] > 0
    config = AdvantageConfig(mode="separate_penalty", gamma=0.0)
    values = compute_advantages(rollouts, [0] * 3, config).values
    assert values[0][0] == pytest.approx(-1.0)
    # outcomes normalise to (√2, -1/√2, -1/√2); the gains ±1 are scaled by the mean of their sizes, 2√2/3
    np.testing.assert_allclose([values[1][0], values[2][0]], [-2 * 2**0.5 / 3, 2 * 2**0.5 / 3], atol=1e-4)


def test_a_batch_of_penalties_only_still_pushes_down() -> None:
    rollouts = [rollout(penalty(), outcome(0.0)), rollout(penalty(), outcome(0.0))]
    values = compute_advantages(rollouts, [0, 0], AdvantageConfig(mode="separate_penalty")).values
    np.testing.assert_allclose(values, [[-1, 0], [-1, 0]], atol=1e-6)


def test_grpo_ignores_gains_but_not_penalties() -> None:
    rollouts = [
        rollout(gain(3.0), penalty(), gain(-7.0), outcome(1.0)),
        rollout(gain(5.0), outcome(0.0)),
    ]
    for mode in ("joint", "scaled_separate", "raw_ig", "separate_penalty"):
        config = AdvantageConfig(algorithm="grpo", mode=mode, gamma=0.5)  # type: ignore[arg-type]
        values = compute_advantages(rollouts, [0, 0], config).values
        np.testing.assert_allclose(values[0], [-0.5, -0.5, 1, 1], atol=1e-4)  # -1 + 0.5 * 1
        np.testing.assert_allclose(values[1], [-1, -1], atol=1e-4)


def test_grpo_gives_nothing_to_a_gain_that_no_other_event_follows() -> None:
    rollouts = [rollout(outcome(1.0), gain(3.0)), rollout(outcome(0.0)), rollout(gain(2.0))]
    values = compute_advantages(rollouts, [0, 0, 0], AdvantageConfig(algorithm="grpo", gamma=0.5)).values
    np.testing.assert_allclose(np.concatenate(values), [1, 0, -1, 0], atol=1e-4)


def test_excluded_rollouts_leave_the_statistics_and_depleted_groups_contribute_nothing() -> None:
    kept = [rollout(gain(0.1), outcome(1.0)), rollout(gain(0.4), outcome(0.0))]
    lost = rollout(gain(50.0), outcome(0.0), excluded=True)
    config = AdvantageConfig()
    alone = compute_advantages(kept, ["a", "a"], config)
    result = compute_advantages([*kept, lost, kept[0], lost], ["a", "a", "a", "b", "b"], config)
    for mine, expected in zip(result.values[:2], alone.values, strict=True):
        np.testing.assert_allclose(mine, expected)
    assert [list(v) for v in result.values[2:]] == [[0, 0], [0, 0], [0, 0]]
    assert result.metrics["igpo/excluded_rollouts"] == 2
    assert result.metrics["igpo/depleted_groups"] == 1
    assert result.metrics["igpo/groups"] == 1
    nothing = compute_advantages([lost, lost], ["a", "a"], config)
    assert [list(v) for v in nothing.values] == [[0, 0], [0, 0]]


def test_same_outcome_groups_are_counted() -> None:
    """The reference's metric is always 0 (defect 7.8)."""
    rollouts = [rollout(outcome(-1.0)), rollout(outcome(-1.0)), rollout(outcome(1.0)), rollout(outcome(0.0))]
    result = compute_advantages(rollouts, ["a", "a", "b", "b"], AdvantageConfig())
    assert result.metrics["igpo/same_outcome_groups_ratio"] == 0.5


def test_curriculum_weights_apply_after_normalisation() -> None:
    rollouts = [rollout(gain(1.0), outcome(1.0)), rollout(gain(-1.0), outcome(0.0))]
    config = AdvantageConfig(mode="separate", gamma=1.0, curriculum_outcome=0.5, curriculum_gain=2.0, gain_weight=3.0)
    np.testing.assert_allclose(compute_advantages(rollouts, [0, 0], config).values[0], [6.5, 0.5], atol=1e-4)


def test_events_outside_the_response_are_named() -> None:
    rollouts = [rollout(outcome(1.0))]
    with pytest.raises(ValueError, match=r"rollout 0: the event of turn 0 is at token 1"):
        scatter_to_tokens(rollouts, [np.ones(1)], 1)
    with pytest.raises(ValueError, match="2 rollouts but 1 group"):
        compute_advantages(rollouts * 2, ["a"], AdvantageConfig())
