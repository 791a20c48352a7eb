import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import advantage
from bench.advantage_loop import loop_advantages
from venus_rl.igpo.advantage import AdvantageConfig, compute_advantages
from venus_rl.igpo.events import scatter_to_tokens
from venus_rl.igpo.turn_rewards import RewardEvent, TurnRewards

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "advantage.json").read_text())["vectors"]
PLAIN = {"info_gain_norm_mode", "gamma"}
gains = st.lists(st.floats(0.01, 3) | st.floats(-3, -0.01), max_size=4)


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v["input"]["config"].keys() == PLAIN], ids=lambda v: str(v["id"])
)
def test_the_loop_is_the_reference_defects_included(vector: dict[str, Any]) -> None:
    given_ = vector["input"]
    found = loop_advantages(
        torch.tensor(given_["token_level_rewards"]),
        torch.tensor(given_["response_mask"]),
        given_["index"],
        given_["config"]["info_gain_norm_mode"],
        given_["config"]["gamma"],
    )
    np.testing.assert_allclose(found, vector["output"]["advantages"], atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(gains, st.floats(0, 1), st.integers(0, 2)), min_size=1, max_size=6),
    st.sampled_from(["joint", "separate", "scaled_separate", "raw_ig"]),
    st.floats(0, 1),
)
def test_both_ways_agree(facts: Any, mode: Any, gamma: float) -> None:
    rollouts, rewards = [], torch.zeros(len(facts), 12)
    mask = torch.zeros(len(facts), 12, dtype=torch.int64)
    for row, (own, outcome, _) in enumerate(facts):
        events = [RewardEvent(2 * i + 1, gain, "information_gain", i) for i, gain in enumerate(own)]
        events.append(RewardEvent(2 * len(own) + 1, outcome, "outcome", len(own)))
        rollouts.append(TurnRewards(tuple(events), len(own)))
        mask[row, : 2 * len(own) + 2] = 1
        for event in events:
            rewards[row, event.position] = event.value
    groups = [group for *_, group in facts]
    config = AdvantageConfig(mode=mode, gamma=gamma, relative_std_floor=0.0, clamp=None)
    ours = scatter_to_tokens(rollouts, compute_advantages(rollouts, groups, config).values, 12)
    # The loop's statistics are float32: where all values are nearly equal, little of a difference is left.
    np.testing.assert_allclose(ours, loop_advantages(rewards, mask, groups, mode, gamma), rtol=2e-3, atol=1e-2)


def test_a_small_run_writes_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "advantage.json"
    advantage.main(["--rollouts", "8", "--tokens", "512", "--repeats", "1", "--out", str(out)])
    result = json.loads(out.read_text(encoding="utf-8"))
    assert [row["events"] for row in result["advantage"]] == [10, 50, 200]
    assert all(row["largest_difference"] < 1e-3 and row["cpu_ratio"] > 0 for row in result["advantage"])
    assert result["machine"]["cores"]
    assert "cpu_ratio" in capsys.readouterr().out
