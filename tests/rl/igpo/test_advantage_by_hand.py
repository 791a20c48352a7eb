"""One small batch, worked by hand for every mode, assignment and discount unit (gamma 1/2, tolerance 1e-4).

Right: search, visit, search, visit, right answer. Wrong: visit, wrong answer. Gains are in ``RIGHT`` and ``WRONG``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from venus_env.protocol.turns import Turn
from venus_env.tokens import TurnSpan
from venus_rl.igpo.advantage import AdvantageConfig, compute_advantages
from venus_rl.igpo.turn_rewards import TurnRewardConfig, TurnRewards, build_turn_rewards

RIGHT = [("search", 0.0), ("visit", 0.4), ("search", 0.0), ("visit", 0.2)]
WRONG = [("visit", 0.0)]


def rollout(tools: list[tuple[str, float]], outcome: float, assignment: Any) -> TurnRewards:
    turns = [Turn(i, "tool", True, 2 * i + 2, tool=tool) for i, (tool, _) in enumerate(tools)]
    turns.append(Turn(len(tools), "answer", True, 2 * len(tools) + 2))
    spans = [TurnSpan(i, 5 * i, 5 * i + 3) for i in range(len(turns))]
    gains = [*(gain for _, gain in tools), None]
    return build_turn_rewards(turns, spans, gains, outcome, TurnRewardConfig(assignment=assignment))


def advantages(assignment: str = "visit_segment", **config: Any) -> list[list[float]]:
    batch = [rollout(RIGHT, 1.0, assignment), rollout(WRONG, 0.0, assignment)]
    values = compute_advantages(batch, ["q", "q"], AdvantageConfig(**{"gamma": 0.5, **config})).values
    return [list(v) for v in values]


def close(found: list[list[float]], right: list[float], wrong: list[float]) -> None:
    np.testing.assert_allclose(found[0], right, atol=1e-4)
    np.testing.assert_allclose(found[1], wrong, atol=1e-4)


def test_visit_segment() -> None:
    """Events at turns 1, 3, 4 and 0, 1. Gains .4, .2, 0: mean .2, deviation .1633, so r, 0, -r with r = √1.5."""
    r = 1.5**0.5
    close(advantages(mode="separate"), [r + 0.25, 0.5, 1], [-r - 0.5, -1])
    # In turns the first visit lies two before the second.
    close(advantages(mode="separate", discount_unit="turn"), [r + 0.125, 0.5, 1], [-r - 0.5, -1])


def test_visit_copied() -> None:
    """Events at turns 0, 1, 2, 3, 4. Gains .4, .4, .2, .2, 0: mean .24, variance .0224."""
    first, second, third = (x / 0.0224**0.5 for x in (0.16, -0.04, -0.24))
    fourth = second + 0.5
    searched = second + fourth / 2
    visited = first + searched / 2
    for unit in ("event", "turn"):  # every turn is an event, so both count the same
        found = advantages("visit_copied", mode="separate", discount_unit=unit)
        close(found, [first + visited / 2, visited, searched, fourth, 1], [third - 0.5, -1])


def test_every_turn() -> None:
    """Gains 0, .4, 0, .2, 0: mean .12, deviation .16, so -.75, 1.75, -.75, .5, -.75."""
    found = advantages("every_turn", mode="separate")
    close(found, [0.0625, 1.625, -0.25, 1.0, 1.0], [-1.25, -1.0])


def test_joint() -> None:
    """All of .4, .2, 1, 0, 0: mean .32, variance .1376."""
    s = 0.1376**0.5
    close(advantages(mode="joint"), [0.19 / s, 0.22 / s, 0.68 / s], [-0.48 / s, -0.32 / s])


@pytest.mark.parametrize("mode", ["scaled_separate", "separate_penalty"])
def test_scaled(mode: str) -> None:
    """Sizes are 1 on average for outcomes and 2r/3 for r, 0, -r: gains become 1.5, 0, -1.5."""
    close(advantages(mode=mode), [1.75, 0.5, 1.0], [-2.0, -1.0])


def test_raw_ig() -> None:
    """Gains by their deviation .1633 are 2r, r, 0; each gets its rollout's ±1, and nothing is accumulated."""
    r = 1.5**0.5
    close(advantages(mode="raw_ig"), [2 * r + 1, r + 1, 1], [-1, -1])


def test_turn_neutral() -> None:
    """Squared gains are .2 and 0 a rollout, .1 on average: 4s and 2s with s = √.1, nothing discounted.

    Returns: 6s + 1, 2s + 1, 1 and -1, -1. Baselines of the right one: the wrong one's -1 from turn 0 on; nobody else is
    there at turns 2 and 4. Of the wrong one: at turns 0 and 1 the right one still has all of its 6s + 1 ahead.
    """
    s = 0.1**0.5
    ahead = 0.6 / s + 1
    close(advantages(mode="turn_neutral"), [ahead + 1, 0.2 / s + 1, 1], [-1 - ahead, -1 - ahead])


def test_adaptive_gamma() -> None:
    """Weight 1/8: three events have gamma 1/2, two have 8 ** -0.5."""
    r = 1.5**0.5
    found = advantages(mode="separate", gamma=0.9, adaptive_gamma_min_weight=0.125)
    close(found, [r + 0.25, 0.5, 1], [-r - 8**-0.5, -1])


def test_gain_weight_and_no_division() -> None:
    """Centred only: gains .2, 0, -.2 twice, outcomes ±.5."""
    found = advantages(mode="separate", normalise_std=False, gain_weight=2.0)
    close(found, [0.4 + 0.125, 0.25, 0.5], [-0.4 - 0.25, -0.5])


def test_clamp() -> None:
    close(advantages(mode="separate", clamp=0.6), [0.6, 0.5, 0.6], [-0.6, -0.6])
