"""Reward events → per-turn advantages: group normalisation, scaling, discounting (method 4.6), beside a GRPO baseline.

Events fall into two pools. The outcome pool holds the outcome of each rollout (or the penalty of its badly formed
answer); the gain pool holds information gains and the penalties of badly formed tool turns. Pools are normalised within
the group of rollouts that share a question, in one of six modes:

=================== ==============================================================================================
``joint``           One mean and deviation over both pools.
``separate``        Each pool on its own.
``scaled_separate`` ``separate``, then gains are scaled so that they weigh about as much as outcomes over the batch.
``raw_ig``          Gains are divided by their deviation but not centred, and each gets its rollout's normalised
                    outcome added; nothing is accumulated.
``separate_penalty`` ``scaled_separate`` with format penalties kept out of the gain pool: they enter as they are, after
                    normalisation, so that a penalty is a penalty however bad the gains around it.
``turn_neutral``    Gains are divided by the size of a rollout's gains and not centred; returns are centred instead, by
                    what the other rollouts of the group went on to earn from the same turn. Penalties are held out,
                    nothing is discounted. No reward for a turn as such (``docs/advantages.md``).
=================== ==============================================================================================

Then each rollout's events are accumulated backwards with discount ``gamma``. The first four modes reproduce the
reference on its test vectors, apart from its defects (a gain of exactly 0 or on the last token was lost; ``raw_ig``
could reach -4000 where all gains are equal): events are explicit, the deviation has a floor relative to the values, and
advantages are clamped.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from venus_rl.igpo.events import Bools, Events, Floats, countable
from venus_rl.igpo.turn_rewards import TurnRewards

Mode = Literal["joint", "separate", "scaled_separate", "raw_ig", "separate_penalty", "turn_neutral"]

_VARIANCE_FLOOR = 1e-8
_DIVISION_FLOOR = 1e-6
_SCALE_NUMERATOR_FLOOR = 0.3  # eta of IG-Scale
_SCALE_CAP = 10.0  # s_max of IG-Scale


class AdvantageConfig(BaseModel):
    """How advantages are made from events.

    Attributes:
        algorithm: ``igpo``, or ``grpo``: gains are ignored; outcomes and penalties stay, so that the two compare
            fairly. GRPO's penalties are never normalised (alone in a pool they would all cancel), whatever the mode.
        mode: How pools are normalised.
        gamma: Discount between events. Of IGPO's modes ``raw_ig`` uses 0 and ``turn_neutral`` 1 instead.
        discount_unit: What gamma counts: ``event`` (the reference: steps between events) or ``turn`` (the paper).
        adaptive_gamma_min_weight: If positive, a rollout of n > 1 events uses ``gamma = weight ** (1 / n)`` instead.
        gain_weight: Factor on normalised gains.
        curriculum_outcome: Factor on the outcome pool after normalisation (:mod:`venus_rl.igpo.schedule`).
        curriculum_gain: The same for the gain pool.
        normalise_std: Divide by the deviation; otherwise only centre (``raw_ig`` always divides gains).
        relative_std_floor: Deviations count as at least this share of the pool's root mean square.
        clamp: Largest absolute advantage; None for no limit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithm: Literal["igpo", "grpo"] = "igpo"
    mode: Mode = "scaled_separate"
    gamma: float = Field(default=0.95, ge=0.0, le=1.0)
    discount_unit: Literal["event", "turn"] = "event"
    adaptive_gamma_min_weight: float = Field(default=0.0, ge=0.0, le=1.0)
    gain_weight: float = Field(default=1.0, ge=0.0, le=1e3)
    curriculum_outcome: float = Field(default=1.0, ge=0.0, le=1e3)
    curriculum_gain: float = Field(default=1.0, ge=0.0, le=1e3)
    normalise_std: bool = True
    relative_std_floor: float = Field(default=0.01, ge=0.0, le=1.0)
    clamp: float | None = Field(default=10.0, gt=0.0, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Advantages:
    """Result of :func:`compute_advantages`.

    Attributes:
        values: For each rollout, one advantage per event; zeros where the rollout does not count.
        metrics: Figures for the log, prefixed ``igpo/``.
    """

    values: list[Floats]
    metrics: dict[str, float]


def compute_advantages(
    rollouts: Sequence[TurnRewards], groups: Sequence[Hashable], config: AdvantageConfig
) -> Advantages:
    """Normalise and accumulate the events of a batch.

    Excluded rollouts leave their group: they get zeros and enter no mean, deviation or scale. A group that lost
    rollouts and has fewer than two left has no baseline any more and contributes nothing.

    Args:
        rollouts: The events of each rollout, in order of their position.
        groups: The group (question) of each rollout.
        config: The rules.

    Raises:
        ValueError: The two sequences differ in length, or a reward is NaN or infinite.
    """
    if len(rollouts) != len(groups):
        raise ValueError(f"{len(rollouts)} rollouts but {len(groups)} group labels")
    counts, depleted = countable(rollouts, groups)
    events = Events.of(rollouts, groups, counts)
    own, scale = _normalised(events, config)
    gamma = _gamma(events, config)
    returns = _accumulated(events, own, gamma, config)
    if config.mode == "turn_neutral" and config.algorithm == "igpo":
        returns -= _turn_baseline(events, returns)
    limit = config.clamp if config.clamp is not None else np.inf
    metrics = _metrics(rollouts, counts, events) | {
        "igpo/depleted_groups": float(depleted),
        "igpo/ig_scale": scale,
        "igpo/gamma_mean": float(gamma.mean()) if len(gamma) else config.gamma,
        "igpo/advantage_clamped_ratio": float((np.abs(returns) > limit).sum()) / max(1, len(returns)),
    }
    returns = np.clip(returns, -limit, limit)
    metrics["igpo/advantage_abs_mean"] = float(np.abs(returns).mean()) if len(returns) else 0.0
    values = [np.zeros(len(rollout.events)) for rollout in rollouts]
    for row, start, end in zip(events.counted, events.bounds[:-1], events.bounds[1:], strict=True):
        values[row] = returns[start:end]
    return Advantages(values, metrics)


def _statistics(events: Events, mask: Bools, config: AdvantageConfig) -> tuple[Floats, Floats]:
    """Mean and deviation, per event, of the masked events in its group; the deviation of a single event counts as 1."""
    groups = events.groups
    group, value = events.group[mask], events.value[mask]
    count = np.bincount(group, minlength=groups)
    safe = np.maximum(count, 1)
    mean = np.bincount(group, weights=value, minlength=groups) / safe
    variance = np.bincount(group, weights=(value - mean[group]) ** 2, minlength=groups) / safe
    std = np.maximum(np.sqrt(variance + _VARIANCE_FLOOR), config.relative_std_floor * np.sqrt(mean**2 + variance))
    std = np.where(count <= 1, 1.0, std)
    return mean[events.group], std[events.group]


def _gain_size(events: Events, gain: Bools) -> Floats:
    """Per event, the root of the mean over its group's rollouts of their summed squared gains.

    A turn without gain changes neither the sums nor the number of rollouts, so it leaves the unit of all others alone.
    """
    rollouts = np.bincount(events.group_of)
    energy = np.bincount(events.group[gain], weights=events.value[gain] ** 2, minlength=events.groups) / rollouts
    return np.sqrt(energy + _VARIANCE_FLOOR)[events.group]


def _normalised(events: Events, config: AdvantageConfig) -> tuple[Floats, float]:
    """Normalised event rewards before accumulation, and the factor that IG-Scale applied to gains."""
    if not len(events.value):
        return np.zeros(0), 1.0
    outcome = events.of_kind("outcome", "answer_penalty")
    if config.algorithm == "grpo":
        gain = np.zeros_like(outcome)
    elif config.mode in ("separate_penalty", "turn_neutral"):
        gain = events.of_kind("information_gain")
    else:
        gain = ~outcome
    values = np.where(events.of_kind("penalty"), events.value, 0.0)  # overwritten unless penalties are held out

    for mask in [outcome | gain] if config.mode == "joint" else [outcome, gain]:
        mean, std = _statistics(events, mask, config)
        centred = events.value - mean
        values[mask] = (centred / (std + _DIVISION_FLOOR) if config.normalise_std else centred)[mask]

    scale = 1.0
    if config.mode == "raw_ig" and config.algorithm == "igpo":
        _, std = _statistics(events, gain, config)
        own_outcome = np.zeros(len(events.counted))
        own_outcome[events.rollout[outcome]] = values[outcome]
        raw = events.value / (std + _DIVISION_FLOOR) * config.gain_weight + own_outcome[events.rollout]
        values[gain] = raw[gain]
    elif config.mode == "turn_neutral":
        size = _gain_size(events, gain) + _DIVISION_FLOOR if config.normalise_std else np.ones_like(values)
        values[gain] = (events.value / size)[gain] * config.gain_weight
    else:
        if config.mode in ("scaled_separate", "separate_penalty") and gain.any():
            reference = float(np.abs(values[outcome]).mean()) if outcome.any() else 0.0
            spread = float(np.abs(values[gain]).mean())
            scale = min(max(reference, _SCALE_NUMERATOR_FLOOR) / (spread + _DIVISION_FLOOR), _SCALE_CAP)
        values[gain] *= scale * config.gain_weight
    values[outcome] *= config.curriculum_outcome
    values[gain] *= config.curriculum_gain
    return values, scale


def _seen(events: Events, config: AdvantageConfig) -> Bools:
    """Events that take part: GRPO looks through gains as if they were not there."""
    if config.algorithm == "grpo":
        return ~events.of_kind("information_gain")
    return np.ones(len(events.value), dtype=np.bool_)


def _gamma(events: Events, config: AdvantageConfig) -> Floats:
    """Discount of each rollout."""
    gamma = np.full(len(events.counted), config.gamma)
    if config.algorithm == "igpo" and config.mode in ("raw_ig", "turn_neutral"):
        gamma[:] = 0.0 if config.mode == "raw_ig" else 1.0
    elif config.adaptive_gamma_min_weight > 0:
        count = np.bincount(events.rollout[_seen(events, config)], minlength=len(gamma))
        adaptive = config.adaptive_gamma_min_weight ** (1 / np.maximum(count, 1))
        gamma = np.where(count > 1, adaptive, gamma)
    return gamma


def _accumulated(events: Events, own: Floats, gamma: Floats, config: AdvantageConfig) -> Floats:
    """Discounted returns per event; one that GRPO looks through has the return of the event after it."""
    seen = np.flatnonzero(_seen(events, config))
    value, rollout, turn = own[seen], events.rollout[seen], events.turn[seen]
    following = np.append(rollout[1:] == rollout[:-1], False)  # another event of the same rollout comes next
    steps = np.append(np.maximum(turn[1:] - turn[:-1], 0), 0) if config.discount_unit == "turn" else np.ones(len(seen))
    base = gamma[rollout]
    discount = np.where(following & (base > 0), base**steps, 0.0)
    # All rollouts at once, from their last events backwards.
    sizes = np.bincount(rollout, minlength=len(events.counted))
    from_end = np.cumsum(sizes)[rollout] - 1 - np.arange(len(seen))
    order = np.argsort(from_end, kind="stable")
    for level in np.split(order, np.cumsum(np.bincount(from_end)))[1:-1]:
        value[level] += discount[level] * value[level + 1]
    nearest = np.searchsorted(seen, np.arange(len(own)))  # the event itself, or the next one that takes part
    inside = nearest < len(seen)
    inside[inside] = rollout[nearest[inside]] == events.rollout[inside]
    returns = np.zeros(len(own))
    returns[inside] = value[nearest[inside]]
    return returns


def _turn_baseline(events: Events, returns: Floats) -> Floats:
    """Per event, what the other rollouts of its group earn from the first turn of its stretch on; 0 without others.

    It is fixed before the stretch is written: neither the stretch nor whether the rollout goes on after it moves the
    baseline. A mean subtracted from each reward cannot say that of itself (``docs/advantages.md``).
    """
    baseline = np.zeros(len(returns))
    previous = np.concatenate([[-1], events.turn[:-1]])
    previous[events.bounds[:-1][events.bounds[:-1] < len(previous)]] = -1
    starts = np.minimum(previous + 1, events.turn)  # the outcome of a cut episode shares the turn before it
    for group in range(events.groups):
        mine = np.flatnonzero(events.group == group)
        turns, column = np.unique(starts[mine], return_inverse=True)
        members, row = np.unique(events.rollout[mine], return_inverse=True)
        earned = np.zeros((len(members), len(turns)))
        there = np.zeros(earned.shape, dtype=np.bool_)
        for number, (low, high) in enumerate(zip(events.bounds[members], events.bounds[members + 1], strict=True)):
            at = low + np.searchsorted(events.turn[low:high], turns)
            there[number] = at < high
            earned[number, there[number]] = returns[at[there[number]]]
        others = there.sum(axis=0) - 1
        mean = (earned.sum(axis=0) - earned) / np.maximum(others, 1)
        baseline[mine] = np.where(others > 0, mean, 0.0)[row, column]
    return baseline


def _metrics(rollouts: Sequence[TurnRewards], counts: Sequence[bool], events: Events) -> dict[str, float]:
    is_gain = events.of_kind("information_gain")
    gains = events.value[is_gain]
    outcome = events.of_kind("outcome", "answer_penalty")
    by_group: dict[int, set[float]] = {}
    for group, value in zip(events.group[outcome].tolist(), events.value[outcome].tolist(), strict=True):
        by_group.setdefault(group, set()).add(value)
    tool_turns = sum(r.tool_turns for r, c in zip(rollouts, counts, strict=True) if c)
    counted = len(events.counted)
    return {
        "igpo/rollouts": float(counted),
        "igpo/excluded_rollouts": float(sum(r.excluded for r in rollouts)),
        "igpo/groups": float(len(by_group)),
        "igpo/gain_coverage": len(gains) / tool_turns if tool_turns else 0.0,
        "igpo/gain_rollout_ratio": len(np.unique(events.rollout[is_gain])) / max(1, counted),
        "igpo/gain_count": float(len(gains)),
        "igpo/gain_mean": float(gains.mean()) if len(gains) else 0.0,
        "igpo/gain_std": float(gains.std()) if len(gains) else 0.0,
        "igpo/gain_positive_ratio": float((gains > 0).mean()) if len(gains) else 0.0,
        "igpo/gain_abs_mean": float(np.abs(gains).mean()) if len(gains) else 0.0,
        "igpo/outcome_mean": float(events.value[outcome].mean()) if outcome.any() else 0.0,
        "igpo/penalty_count": float(events.of_kind("penalty", "answer_penalty").sum()),
        "igpo/clipped_rewards": float(events.clipped),
        "igpo/same_outcome_groups_ratio": sum(len(v) == 1 for v in by_group.values()) / max(1, len(by_group)),
        "igpo/events_mean": len(events.value) / max(1, counted),
    }
