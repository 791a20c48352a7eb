from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_env.rewards.information_gain import GainTracker, best_score, information_gain, turn_gains

VECTORS = [
    vector
    for vector in json.loads((Path(__file__).parents[2] / "vectors" / "info_gain.json").read_text())["vectors"]
    if vector["fn"].startswith("compute_ig_with_kv_cache")
]


def mean_scores(vector: dict[str, object]) -> list[float | None]:
    """Mean log-probability of the answer's tokens at each boundary, None where the vector does not score it."""
    given_ = vector["input"]
    assert isinstance(given_, dict)
    (boundaries,) = given_["per_turn_log_probs[n][turn][gt_tok]"]
    ((start, end),) = given_["gt_idx"]
    scores: list[float | None] = []
    for boundary, active in zip(boundaries, given_["active_per_turn"], strict=True):
        scores.append(sum(float(value) for value in boundary[start:end]) / (end - start) if active else None)
    return scores


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_reference_vectors(vector: dict[str, object]) -> None:
    given_, output = vector["input"], vector["output"]
    assert isinstance(given_, dict)
    assert isinstance(output, dict)
    gains = turn_gains(mean_scores(vector), given_["info_gain_type"])
    (expected,) = output["info_gain_rewards"]
    assert [gain for gain in gains if gain is not None] == pytest.approx(expected, abs=1e-6)


def test_unscored_turns_are_none_and_telescope() -> None:
    assert turn_gains([-3.0, None, -1.5, None, None]) == [None, 1.5, None, None]
    for unusable in (None, math.nan, -math.inf):  # NaN: no accepted answer that the belief can judge
        assert turn_gains([unusable, -1.0, math.nan]) == [None, None]
    assert turn_gains([]) == []
    assert information_gain([-3.0, -2.0, -2.5]) == [1.0, -0.5]
    assert information_gain([math.log(0.2), math.log(0.5)], "prob_diff") == pytest.approx([0.3])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(-20, 0)), max_size=12), st.floats(-20, 0))
def test_gains_add_up_to_the_way_travelled(rest: list[float | None], first: float) -> None:
    scored = [first, *(score for score in rest if score is not None)]
    total = sum(gain for gain in turn_gains([first, *rest]) if gain is not None)
    assert total == pytest.approx(scored[-1] - scored[0], abs=1e-9)


def test_best_score() -> None:
    assert best_score([-3.0, math.nan, -1.0]) == -1.0
    assert math.isnan(best_score([math.nan]))
    assert math.isnan(best_score([]))


def test_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="'ratio' is unknown"):
        GainTracker("ratio")  # type: ignore[arg-type]
