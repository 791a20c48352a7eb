"""Episode-level figures of one RL step, beside the advantage metrics of :mod:`venus_rl.igpo.advantage`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from venus_env.protocol.trajectory import Trajectory
from venus_rl.igpo.turn_rewards import TurnRewards


def episode_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return means per episode; rollouts without a score (lost to infrastructure) are counted, not averaged in.

    Args:
        trajectories: All episodes of the step.
    """
    graded = [t for t in trajectories if t.score is not None]
    metrics = {
        f"episode/end/{end}": float(count) for end, count in sorted(Counter(t.end for t in trajectories).items())
    }
    metrics["episode/count"] = float(len(graded))
    if not graded:
        return metrics
    turns = [turn for t in graded for turn in t.turns]
    return metrics | {
        "episode/score": fmean(t.score for t in graded if t.score is not None),
        "episode/return": fmean(sum(sum(turn.reward_terms.values()) for turn in t.turns) for t in graded),
        "episode/turns": fmean(len(t.turns) for t in graded),
        "episode/tool_calls": fmean(t.usage["tool_calls"] for t in graded),
        "episode/duplicate_calls": fmean(t.usage["duplicate_calls"] for t in graded),
        "episode/context_tokens": fmean(t.usage["context_tokens"] for t in graded),
        "episode/answered": fmean(t.end == "answered" for t in graded),
        "turn/format_error": fmean(not turn.format_ok for turn in turns) if turns else 0.0,
    }


def signal_metrics(
    rewards: Sequence[TurnRewards],
    groups: Sequence[Hashable],
    advantages: Sequence[NDArray[np.float64]],
    turns: Sequence[int],
) -> dict[str, float]:
    """Return how much of a step has something to teach.

    Args:
        rewards: Events of each rollout.
        groups: Group of each rollout.
        advantages: Advantage of each event.
        turns: Turns of each rollout.
    """
    turns = [count for reward, count in zip(rewards, turns, strict=True) if not reward.excluded]
    events = [event for reward in rewards if not reward.excluded for event in reward.events]
    outcomes = [event for event in events if event.kind in ("outcome", "answer_penalty")]
    teaching = {group for group, values in zip(groups, advantages, strict=True) if (abs(values) > 1e-8).any()}
    return {
        "igpo/groups_without_signal": float(len(set(groups) - teaching)),
        "igpo/penalty_rate": sum("penalty" in event.kind for event in events) / max(1, sum(turns)),
        "train/acc": sum(event.value >= 1 for event in outcomes) / max(1, len(outcomes)),  # upstream's name and rule
    }
