"""Reward events → per-turn advantages: group normalisation, scaling, discounting (method 4.6), beside a GRPO baseline.

Events fall into two pools. The outcome pool holds the outcome of each rollout (or the penalty of its badly formed
answer); the gain pool holds information gains and the penalties of badly formed tool turns. Pools are normalised within
the group of rollouts that share a question, in one of five modes:

=================== ==============================================================================================
``joint``           One mean and deviation over both pools.
``separate``        Each pool on its own.
``scaled_separate`` ``separate``, then gains are scaled so that they weigh about as much as outcomes over the batch.
``raw_ig``          Gains are divided by their deviation but not centred, and each gets its rollout's normalised
                    outcome added; nothing is accumulated.
``separate_penalty`` ``scaled_separate`` with format penalties kept out of the gain pool: they enter as they are, after
                    normalisation, so that a penalty is a penalty however bad the gains around it.
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
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from venus_rl.igpo.turn_rewards import EventKind, TurnRewards

Mode = Literal["joint", "separate", "scaled_separate", "raw_ig", "separate_penalty"]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_VARIANCE_FLOOR = 1e-8
_DIVISION_FLOOR = 1e-6
_SCALE_NUMERATOR_FLOOR = 0.3  # eta of IG-Scale
_SCALE_CAP = 10.0  # s_max of IG-Scale
_KINDS: tuple[EventKind, ...] = ("information_gain", "penalty", "outcome", "answer_penalty")


class AdvantageConfig(BaseModel):
    """How advantages are made from events.

    Attributes:
        algorithm: ``igpo``, or ``grpo``: gains are ignored; outcomes and penalties stay, so that the two compare
            fairly. GRPO's penalties are never normalised (alone in a pool they would all cancel), whatever the mode.
        mode: How pools are normalised.
        gamma: Discount between events.
        discount_unit: What gamma counts: ``event`` (the reference: steps between events) or ``turn`` (the paper).
        adaptive_gamma_min_weight: If positive, a rollout of n > 1 events uses ``gamma = weight ** (1 / n)`` instead.
        gain_weight: Factor on normalised gains.
        curriculum_outcome: Factor on the outcome pool after normalisation, from :func:`curriculum_weights`.
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
    gain_weight: float = Field(default=1.0, ge=0.0)
    curriculum_outcome: float = Field(default=1.0, ge=0.0)
    curriculum_gain: float = Field(default=1.0, ge=0.0)
    normalise_std: bool = True
    relative_std_floor: float = Field(default=0.01, ge=0.0)
    clamp: float | None = Field(default=10.0, gt=0.0)


@dataclass(frozen=True, slots=True)
class Advantages:
    """Result of :func:`compute_advantages`.

    Attributes:
        values: For each rollout, one advantage per event; zeros where the rollout does not count.
        metrics: Figures for the log, prefixed ``igpo/``.
    """

    values: list[Floats]
    metrics: dict[str, float]


def curriculum_weights(
    step: int,
    total: int,
    *,
    outcome: tuple[float, float] = (0.5, 1.0),
    gain: tuple[float, float] = (1.0, 0.5),
) -> tuple[float, float]:
    """Linear (outcome, gain) weights at ``step`` of ``total``, each from its first to its second value."""
    progress = step / total if total > 0 else 1.0
    return outcome[0] + (outcome[1] - outcome[0]) * progress, gain[0] + (gain[1] - gain[0]) * progress


def compute_advantages(
    rollouts: Sequence[TurnRewards], groups: Sequence[Hashable], config: AdvantageConfig
) -> Advantages:
    """Normalise and accumulate the events of a batch.

    Excluded rollouts leave their group: they get zeros and enter no mean, deviation or scale. A group that lost
    rollouts and has fewer than two left has no baseline any more and contributes nothing.

    Args:
        rollouts: The events of each rollout.
        groups: The group (question) of each rollout.
        config: The rules.
    """
    if len(rollouts) != len(groups):
        raise ValueError(f"{len(rollouts)} rollouts but {len(groups)} group labels")
    counts, depleted = _countable(rollouts, groups)
    pool = _Pool.of(rollouts, groups, counts)
    values = np.zeros(len(pool.value))
    scale = 1.0
    if len(values):
        values, scale = _normalised(pool, config)
    returns, gammas = _accumulated(rollouts, counts, values, config)
    clamped = 0
    if config.clamp is not None:
        clamped = sum(int((np.abs(r) > config.clamp).sum()) for r in returns)
        returns = [np.clip(r, -config.clamp, config.clamp) for r in returns]
    metrics = _metrics(rollouts, counts, pool, returns)
    metrics |= {
        "igpo/ig_scale": scale,
        "igpo/gamma_mean": float(np.mean(gammas)) if gammas else config.gamma,
        "igpo/depleted_groups": float(depleted),
        "igpo/advantage_clamped_ratio": clamped / max(1, len(values)),
    }
    return Advantages(returns, metrics)


def scatter_to_tokens(rollouts: Sequence[TurnRewards], values: Sequence[Floats], width: int) -> NDArray[np.float32]:
    """Spread event advantages over tokens: all tokens after the previous event, up to its position.

    Tokens after the last event get zeros. Tool text inside a stretch is covered too; the loss mask takes it out.

    Raises:
        ValueError: An event lies outside ``[0, width)``.
    """
    tokens = np.zeros((len(rollouts), width), dtype=np.float32)
    for row, (rollout, returns) in enumerate(zip(rollouts, values, strict=True)):
        start = 0
        for event, value in zip(rollout.events, returns, strict=True):
            if not start - 1 <= event.position < width:
                raise ValueError(
                    f"rollout {row}: the event of turn {event.turn} is at token {event.position}, outside of "
                    f"[{max(start - 1, 0)}, {width}); events must be in order and within the response"
                )
            tokens[row, start : event.position + 1] = value
            start = event.position + 1
    return tokens


def _countable(rollouts: Sequence[TurnRewards], groups: Sequence[Hashable]) -> tuple[list[bool], int]:
    """Which rollouts count, and how many groups fell apart."""
    total: dict[Hashable, int] = {}
    left: dict[Hashable, int] = {}
    for rollout, group in zip(rollouts, groups, strict=True):
        total[group] = total.get(group, 0) + 1
        left[group] = left.get(group, 0) + (not rollout.excluded)
    depleted = {group for group, count in total.items() if left[group] < min(count, 2)}
    counts = [not r.excluded and g not in depleted for r, g in zip(rollouts, groups, strict=True)]
    return counts, len(depleted)


@dataclass(frozen=True, slots=True)
class _Pool:
    """The events of all countable rollouts as flat arrays."""

    value: Floats
    kind: Ints
    rollout: Ints
    group: Ints

    @classmethod
    def of(cls, rollouts: Sequence[TurnRewards], groups: Sequence[Hashable], counts: Sequence[bool]) -> _Pool:
        numbers: dict[Hashable, int] = {}
        rows = [
            (event.value, _KINDS.index(event.kind), index, numbers.setdefault(group, len(numbers)))
            for index, (rollout, group, counted) in enumerate(zip(rollouts, groups, counts, strict=True))
            if counted
            for event in rollout.events
        ]
        value, kind, rollout, group = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(
            np.asarray(value, dtype=np.float64),
            np.asarray(kind, dtype=np.int64),
            np.asarray(rollout, dtype=np.int64),
            np.asarray(group, dtype=np.int64),
        )

    def of_kind(self, *kinds: EventKind) -> Bools:
        return np.isin(self.kind, [_KINDS.index(kind) for kind in kinds])


def _statistics(pool: _Pool, mask: Bools, config: AdvantageConfig) -> tuple[Floats, Floats]:
    """Mean and deviation, per event, of the masked events in its group; the deviation of a single event counts as 1."""
    groups = int(pool.group.max()) + 1
    group, value = pool.group[mask], pool.value[mask]
    count = np.bincount(group, minlength=groups)
    safe = np.maximum(count, 1)
    mean = np.bincount(group, weights=value, minlength=groups) / safe
    variance = np.bincount(group, weights=(value - mean[group]) ** 2, minlength=groups) / safe
    std = np.maximum(np.sqrt(variance + _VARIANCE_FLOOR), config.relative_std_floor * np.sqrt(mean**2 + variance))
    std = np.where(count <= 1, 1.0, std)
    return mean[pool.group], std[pool.group]


def _normalised(pool: _Pool, config: AdvantageConfig) -> tuple[Floats, float]:
    """Normalised event rewards before accumulation, and the factor that IG-Scale applied to gains."""
    outcome = pool.of_kind("outcome", "answer_penalty")
    if config.algorithm == "grpo":
        gain = np.zeros_like(outcome)
    elif config.mode == "separate_penalty":
        gain = pool.of_kind("information_gain")
    else:
        gain = ~outcome
    values = np.where(pool.of_kind("penalty"), pool.value, 0.0)  # overwritten unless penalties are held out

    for mask in [outcome | gain] if config.mode == "joint" else [outcome, gain]:
        mean, std = _statistics(pool, mask, config)
        centred = pool.value - mean
        values[mask] = (centred / (std + _DIVISION_FLOOR) if config.normalise_std else centred)[mask]

    scale = 1.0
    if config.mode == "raw_ig" and config.algorithm == "igpo":
        _, std = _statistics(pool, gain, config)
        own_outcome = np.zeros(int(pool.rollout.max()) + 1)
        own_outcome[pool.rollout[outcome]] = values[outcome]
        raw = pool.value / (std + _DIVISION_FLOOR) * config.gain_weight + own_outcome[pool.rollout]
        values[gain] = raw[gain]
    else:
        if config.mode in ("scaled_separate", "separate_penalty") and gain.any():
            reference = float(np.abs(values[outcome]).mean()) if outcome.any() else 0.0
            spread = float(np.abs(values[gain]).mean())
            scale = min(max(reference, _SCALE_NUMERATOR_FLOOR) / (spread + _DIVISION_FLOOR), _SCALE_CAP)
        values[gain] *= scale * config.gain_weight
    values[outcome] *= config.curriculum_outcome
    values[gain] *= config.curriculum_gain
    return values, scale


def _accumulated(
    rollouts: Sequence[TurnRewards], counts: Sequence[bool], values: Floats, config: AdvantageConfig
) -> tuple[list[Floats], list[float]]:
    """Discounted returns per event, and the discount of each countable rollout.

    Under GRPO a gain is transparent: it has the return of the event after it, as if it were not there.
    """
    grpo = config.algorithm == "grpo"
    returns: list[Floats] = []
    gammas: list[float] = []
    offset = 0
    for rollout, counted in zip(rollouts, counts, strict=True):
        result = np.zeros(len(rollout.events))
        returns.append(result)
        if not counted:
            continue
        own = values[offset : offset + len(rollout.events)]
        offset += len(rollout.events)
        seen = [not (grpo and event.kind == "information_gain") for event in rollout.events]
        gamma = _gamma(sum(seen), config)
        gammas.append(gamma)
        following, turn = 0.0, rollout.events[-1].turn if rollout.events else 0
        for index in reversed(range(len(own))):
            event = rollout.events[index]
            if seen[index]:
                steps = turn - event.turn if config.discount_unit == "turn" else 1
                following = float(own[index]) + (gamma**steps * following if gamma > 0 else 0.0)
                turn = event.turn
            result[index] = following
    return returns, gammas


def _gamma(events: int, config: AdvantageConfig) -> float:
    if config.mode == "raw_ig" and config.algorithm == "igpo":
        return 0.0
    if config.adaptive_gamma_min_weight > 0 and events > 1:
        return float(config.adaptive_gamma_min_weight ** (1 / events))
    return config.gamma


def _metrics(
    rollouts: Sequence[TurnRewards], counts: Sequence[bool], pool: _Pool, returns: Sequence[Floats]
) -> dict[str, float]:
    is_gain = pool.of_kind("information_gain")
    gains = pool.value[is_gain]
    outcome = pool.of_kind("outcome", "answer_penalty")
    by_group: dict[int, set[float]] = {}
    for group, value in zip(pool.group[outcome].tolist(), pool.value[outcome].tolist(), strict=True):
        by_group.setdefault(group, set()).add(value)
    counted = [r for r, c in zip(rollouts, counts, strict=True) if c]
    tool_turns = sum(r.tool_turns for r in counted)
    flat = np.concatenate([r for r, c in zip(returns, counts, strict=True) if c] or [np.zeros(0)])
    return {
        "igpo/rollouts": float(len(counted)),
        "igpo/excluded_rollouts": float(sum(r.excluded for r in rollouts)),
        "igpo/groups": float(len(by_group)),
        "igpo/gain_coverage": len(gains) / tool_turns if tool_turns else 0.0,
        "igpo/gain_rollout_ratio": len(set(pool.rollout[pool.of_kind("information_gain")].tolist()))
        / max(1, len(counted)),
        "igpo/gain_count": float(len(gains)),
        "igpo/gain_mean": float(gains.mean()) if len(gains) else 0.0,
        "igpo/gain_std": float(gains.std()) if len(gains) else 0.0,
        "igpo/gain_positive_ratio": float((gains > 0).mean()) if len(gains) else 0.0,
        "igpo/gain_abs_mean": float(np.abs(gains).mean()) if len(gains) else 0.0,
        "igpo/outcome_mean": float(pool.value[outcome].mean()) if outcome.any() else 0.0,
        "igpo/penalty_count": float(pool.of_kind("penalty", "answer_penalty").sum()),
        "igpo/same_outcome_groups_ratio": sum(len(v) == 1 for v in by_group.values()) / max(1, len(by_group)),
        "igpo/events_mean": len(pool.value) / max(1, len(counted)),
        "igpo/advantage_abs_mean": float(np.abs(flat).mean()) if len(flat) else 0.0,
    }
