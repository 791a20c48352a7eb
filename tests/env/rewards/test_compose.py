from __future__ import annotations

import pytest
from pydantic import ValidationError

from venus_env.rewards.compose import RewardConfig, compose_turn, episode_score, outcome_reward

CONFIG = RewardConfig(format_penalty=0.5)


def test_terms_of_well_formed_turns() -> None:
    assert compose_turn(CONFIG, kind="tool", format_ok=True, gain=0.25) == {"information_gain": 0.25}
    assert compose_turn(CONFIG, kind="tool", format_ok=True, gain=0.0) == {"information_gain": 0.0}
    assert compose_turn(CONFIG, kind="tool", format_ok=True) == {}
    assert compose_turn(CONFIG, kind="answer", format_ok=True, outcome=1.0) == {"outcome": 1.0}
    off = RewardConfig(information_gain=False)
    assert compose_turn(off, kind="tool", format_ok=True, gain=0.25) == {}


def test_penalty_replaces_gain_and_even_a_right_answer() -> None:
    assert compose_turn(CONFIG, kind="tool", format_ok=False, gain=3.0) == {"format": -0.5}
    assert compose_turn(CONFIG, kind="answer", format_ok=False, outcome=1.0) == {"format": -0.5}
    assert compose_turn(CONFIG, kind="malformed", format_ok=True) == {"format": -0.5}
    assert sum(compose_turn(RewardConfig(format_penalty=0), kind="malformed", format_ok=False).values()) == 0.0


def test_answer_without_outcome_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="needs its outcome"):
        compose_turn(CONFIG, kind="answer", format_ok=True)


def test_outcome_and_score_have_their_own_rules() -> None:
    config = RewardConfig(outcome="f1", score="em")
    assert outcome_reward(config, "city of Paris", ["Paris"]) == pytest.approx(0.5)
    assert episode_score(config, "answered", "city of Paris", ["Paris"]) == 0.0
    assert episode_score(RewardConfig(score="f1"), "answered", "city of Paris", ["Paris"]) == pytest.approx(0.5)


def test_score_is_none_where_there_is_nothing_to_grade() -> None:
    for end in ("running", "tool_failure", "judge_failure", "aborted"):
        assert episode_score(CONFIG, end, "Paris", ["Paris"]) is None
    for end in ("turn_limit", "context_limit", "time_limit", "malformed_limit"):
        assert episode_score(CONFIG, end, None, ["Paris"]) == 0.0


def test_which_turns_are_scored() -> None:
    visits = RewardConfig(gain_turns="visit")
    assert [CONFIG.scores_turn("tool", "search"), visits.scores_turn("tool", "search")] == [True, False]
    assert visits.scores_turn("tool", "visit")
    assert not CONFIG.scores_turn("answer", None)
    assert not CONFIG.scores_turn("malformed", None)
    assert not RewardConfig(information_gain=False).scores_turn("tool", "visit")


def test_configuration_is_checked() -> None:
    for wrong in ({"format_penalty": -1}, {"outcome": "judge"}, {"penalty": 1}, {"format_penalty": float("inf")}):
        with pytest.raises(ValidationError):
            RewardConfig(**wrong)
