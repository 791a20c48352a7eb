from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from venus_rl.igpo.advantage import AdvantageConfig, compute_advantages
from venus_rl.igpo.events import LARGEST_REWARD, scatter_to_tokens
from venus_rl.igpo.turn_rewards import RewardEvent, TurnRewards

MODES = ["joint", "separate", "scaled_separate", "raw_ig", "separate_penalty", "turn_neutral"]
ordinary = st.floats(-3, 3, allow_nan=False)
anything = st.floats(allow_nan=False, allow_infinity=False)


def rollout(gains: list[float], outcome: float, penalised: bool = False) -> TurnRewards:
    """Gains at turns 0, 1, … and the outcome after them, two tokens each; a penalty in place of the first gain."""
    events = [RewardEvent(2 * i + 1, gain, "information_gain", i) for i, gain in enumerate(gains)]
    if penalised and events:
        events[0] = RewardEvent(1, gains[0], "penalty", 0)
    events.append(RewardEvent(2 * len(gains) + 1, outcome, "outcome", len(gains)))
    return TurnRewards(tuple(events), len(gains))


def facts(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[list[float], float, int, bool]]]:
    one = st.tuples(st.lists(values, max_size=4), values, st.integers(0, 2), st.booleans())
    return st.lists(one, min_size=1, max_size=6)


configs = st.builds(
    AdvantageConfig,
    mode=st.sampled_from(MODES),
    algorithm=st.sampled_from(["igpo", "grpo"]),
    gamma=st.floats(0, 1),
    discount_unit=st.sampled_from(["event", "turn"]),
    adaptive_gamma_min_weight=st.floats(0, 1),
    normalise_std=st.booleans(),
    clamp=st.sampled_from([None, 10.0]),
)


@settings(max_examples=150, deadline=None)
@given(facts(anything), configs)
@example([([1e300, -1e300], 1e300, 0, False), ([5e-324], -1e308, 0, True)], AdvantageConfig(clamp=None))
@example([([1e300] * 3, 1e300, 0, False)] * 3, AdvantageConfig(mode="raw_ig", clamp=None))
@example([([5e-324, -5e-324], 5e-324, 0, False)] * 2, AdvantageConfig(mode="turn_neutral", clamp=None))
def test_any_finite_reward_gives_finite_advantages(facts_: Any, config: AdvantageConfig) -> None:
    rollouts = [rollout(gains, outcome, penalised) for gains, outcome, _, penalised in facts_]
    result = compute_advantages(rollouts, [group for *_, group, _ in facts_], config)
    flat = np.concatenate(result.values)
    # At most five rewards add up, each at most the largest reward or what the smallest deviation makes of it.
    assert (np.abs(flat) <= (config.clamp or 20 * LARGEST_REWARD)).all()
    assert all(np.isfinite(value) for value in result.metrics.values())
    assert np.isfinite(scatter_to_tokens(rollouts, result.values, 12)).all()


def test_rewards_beyond_the_limit_count_as_the_limit() -> None:
    def values(large: float) -> list[float]:
        rollouts = [rollout([large], 1.0), rollout([0.0], 0.0)]
        result = compute_advantages(rollouts, [0, 0], AdvantageConfig(mode="separate", gamma=0.0))
        assert result.metrics["igpo/clipped_rewards"] == float(large > LARGEST_REWARD)
        return [float(v) for row in result.values for v in row]

    assert values(1e300) == values(LARGEST_REWARD) == pytest.approx([1, 1, -1, -1], abs=1e-4)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_reward_that_is_no_number_is_named(bad: float) -> None:
    rollouts = [rollout([], 1.0), rollout([0.5, bad], 1.0)]
    with pytest.raises(ValueError, match="rollout 1: the information_gain of turn 1 is"):
        compute_advantages(rollouts, [0, 0], AdvantageConfig())


@settings(max_examples=60, deadline=None)
@given(facts(ordinary), configs, st.randoms(use_true_random=False))
def test_the_order_of_rollouts_does_not_matter(facts_: Any, config: AdvantageConfig, rng: Any) -> None:
    rollouts = [rollout(gains, outcome, penalised) for gains, outcome, _, penalised in facts_]
    groups = [group for *_, group, _ in facts_]
    values = compute_advantages(rollouts, groups, config).values
    order = list(range(len(rollouts)))
    rng.shuffle(order)
    shuffled = compute_advantages([rollouts[i] for i in order], [groups[i] for i in order], config).values
    for place, index in enumerate(order):
        np.testing.assert_allclose(shuffled[place], values[index], rtol=1e-6, atol=1e-6)


small = st.floats(-1, 1, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(small, small, small), min_size=2, max_size=5),
    st.sampled_from(MODES),
    st.floats(1, 100),
    st.floats(1, 100),
)
def test_the_unit_of_rewards_does_not_matter(noise: Any, mode: Any, factor: float, other: float) -> None:
    """Gains and outcomes each have a unit of their own, except in ``joint``, which puts them in one pool."""
    other = factor if mode == "joint" else other
    rewards = [([2 + a, -2 + b], 3 * (i % 2) + c) for i, (a, b, c) in enumerate(noise)]  # far from the floors
    config = AdvantageConfig(mode=mode, gamma=0.5, clamp=None)

    def values(gain_unit: float, outcome_unit: float) -> list[float]:
        rollouts = [rollout([gain_unit * g for g in gains], outcome_unit * outcome) for gains, outcome in rewards]
        return [float(v) for row in compute_advantages(rollouts, [0] * len(rollouts), config).values for v in row]

    assert values(factor, other) == pytest.approx(values(1.0, 1.0), rel=1e-3, abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(facts(ordinary), st.sampled_from(["joint", "separate", "scaled_separate"]), st.booleans())
def test_undiscounted_returns_of_first_events_sum_to_zero(facts_: Any, mode: Any, divide: bool) -> None:
    """A first event's return is the sum of its rollout's normalised rewards, and every pool sums to zero."""
    rollouts = [rollout(gains, outcome) for gains, outcome, *_ in facts_]
    config = AdvantageConfig(mode=mode, gamma=1.0, clamp=None, normalise_std=divide)
    values = compute_advantages(rollouts, [0] * len(rollouts), config).values
    assert sum(v[0] for v in values) == pytest.approx(0.0, abs=1e-5 * sum(np.abs(v).sum() for v in values) + 1e-6)


@settings(max_examples=40, deadline=None)
@given(st.lists(ordinary, max_size=4), ordinary, st.sampled_from(MODES))
def test_a_group_of_one_learns_nothing_from_its_outcome(gains: list[float], outcome: float, mode: Any) -> None:
    """It is its own mean. Without gains nothing is left (``joint`` then is the same as the others)."""
    alone = compute_advantages([rollout([], outcome)], ["a"], AdvantageConfig(mode=mode)).values
    assert alone[0] == pytest.approx([0.0], abs=1e-9)
    if mode != "joint":
        values = compute_advantages([rollout(gains, outcome)], ["a"], AdvantageConfig(mode=mode)).values
        assert values[0][-1] == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(ordinary, max_size=3), min_size=2, max_size=4), st.sampled_from(MODES[1:]), st.floats(-1, 1))
def test_outcomes_that_are_all_equal_do_not_count(gains: list[list[float]], mode: Any, outcome: float) -> None:
    def values(same: float) -> list[float]:
        rollouts = [rollout(own, same) for own in gains]
        config = AdvantageConfig(mode=mode, relative_std_floor=0.01)
        return [float(v) for row in compute_advantages(rollouts, [0] * len(gains), config).values for v in row]

    assert values(outcome) == pytest.approx(values(0.0), abs=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_a_turn_of_zero_gain_is_an_event_of_its_own(mode: Any) -> None:
    rollouts = [rollout([0.5, 0.0, 0.25], 1.0), rollout([0.0], 0.0)]
    result = compute_advantages(rollouts, [0, 0], AdvantageConfig(mode=mode))
    assert [len(v) for v in result.values] == [4, 2]
    assert result.metrics["igpo/gain_count"] == 4
    assert result.metrics["igpo/gain_coverage"] == 1.0


def test_scattering_tiles_every_row() -> None:
    rollouts = [rollout([1.0, 2.0], 3.0), TurnRewards(()), rollout([], 7.0)]
    tokens = scatter_to_tokens(rollouts, [np.array([1.0, 2.0, 3.0]), np.zeros(0), np.array([7.0])], 7)
    assert tokens.tolist() == [[1, 1, 2, 2, 3, 3, 0], [0] * 7, [7, 7, 0, 0, 0, 0, 0]]
    assert scatter_to_tokens([], [], 5).shape == (0, 5)


@pytest.mark.parametrize(("positions", "place"), [([3, 1], 1), ([-1], 0), ([9], 0)])
def test_scattering_refuses_events_that_do_not_tile(positions: list[int], place: int) -> None:
    events = tuple(RewardEvent(position, 0.0, "information_gain", i) for i, position in enumerate(positions))
    rollouts = [rollout([], 1.0), TurnRewards(events)]
    with pytest.raises(ValueError, match=f"rollout 1: the event of turn {place} is at token {positions[place]}"):
        scatter_to_tokens(rollouts, [np.zeros(1), np.zeros(len(events))], 9)
    with pytest.raises(ValueError, match="one advantage per event"):
        scatter_to_tokens(rollouts, [np.zeros(1)], 9)
