from __future__ import annotations

from typing import Any

import numpy as np

from venus_env.protocol.trajectory import Trajectory
from venus_rl.igpo.turn_rewards import EventKind, RewardEvent, TurnRewards
from venus_rl.verl_plugin.episode_metrics import episode_metrics, signal_metrics


def episode(end: str, score: float | None, *turns: tuple[bool, dict[str, float]], **usage: int) -> Trajectory:
    spent: dict[str, Any] = {"tool_calls": 0, "duplicate_calls": 0, "context_tokens": 0, **usage}
    records = [
        {"index": n, "kind": "tool", "format_ok": ok, "message_index": 2 * n, "reward_terms": terms}
        for n, (ok, terms) in enumerate(turns)
    ]
    return Trajectory.model_validate(
        {"task": {"id": "t"}, "messages": [], "turns": records, "end": end, "score": score, "usage": spent}
    )


def test_means_are_per_episode_and_turn_rates_per_turn() -> None:
    metrics = episode_metrics(
        [
            episode("answered", 1.0, (True, {"information_gain": 0.5}), (True, {"outcome": 1.0}), tool_calls=1),
            episode("turn_limit", 0.0, (False, {"format": -1.0}), context_tokens=30, duplicate_calls=2),
            episode("turn_limit", 0.0, (False, {"format": -1.0, "outcome": 0.25})),
        ]
    )
    assert metrics == {
        "episode/end/answered": 1.0,
        "episode/end/turn_limit": 2.0,
        "episode/count": 3.0,
        "episode/score": 1 / 3,
        "episode/return": (1.5 - 1.0 - 0.75) / 3,
        "episode/turns": 4 / 3,
        "episode/tool_calls": 1 / 3,
        "episode/duplicate_calls": 2 / 3,
        "episode/context_tokens": 10.0,
        "episode/answered": 1 / 3,
        "turn/format_error": 0.5,
    }


def test_lost_episodes_are_counted_and_not_averaged_in() -> None:
    lost = episode("tool_failure", None, (True, {}), (True, {}), (True, {}))
    metrics = episode_metrics([lost, episode("answered", 1.0, (True, {"outcome": 1.0}))])
    assert metrics["episode/end/tool_failure"] == metrics["episode/count"] == metrics["episode/score"] == 1.0
    assert metrics["episode/turns"] == 1.0
    assert metrics["episode/return"] == 1.0


def test_a_step_that_lost_everything_still_has_its_endings() -> None:
    assert episode_metrics([episode("aborted", None)]) == {"episode/end/aborted": 1.0, "episode/count": 0.0}
    assert episode_metrics([]) == {"episode/count": 0.0}


def test_an_episode_without_turns_is_no_error() -> None:
    assert episode_metrics([episode("context_limit", 0.0)])["turn/format_error"] == 0.0


def rewards(*events: tuple[float, EventKind], excluded: bool = False) -> TurnRewards:
    return TurnRewards(tuple(RewardEvent(n, value, kind, n) for n, (value, kind) in enumerate(events)), 0, excluded)


def test_signal_of_a_step() -> None:
    step = [
        rewards((-1.0, "penalty"), (1.0, "outcome")),
        rewards((0.3, "information_gain"), (-1.0, "answer_penalty")),
        rewards((1.0, "outcome")),
        rewards(excluded=True),
    ]
    advantages = [np.array([0.0, 0.5]), np.array([0.0, -0.5]), np.zeros(1), np.zeros(0)]
    metrics = signal_metrics(step, ["a", "a", "b", "b"], advantages, turns=[3, 2, 1, 9])
    assert metrics == {"igpo/groups_without_signal": 1.0, "igpo/penalty_rate": 2 / 6, "train/acc": 2 / 3}


def test_signal_of_nothing() -> None:
    assert set(signal_metrics([], [], [], []).values()) == {0.0}
