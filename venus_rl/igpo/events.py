"""Reward events of a batch as flat arrays, and back from one value per event to one per token."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from venus_rl.igpo.turn_rewards import EventKind, TurnRewards

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

KINDS: tuple[EventKind, ...] = ("information_gain", "penalty", "outcome", "answer_penalty")
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}

LARGEST_REWARD = 1e6
"""Rewards count as at most this, either way. No log-probability comes near, and sums of squares stay finite."""


@dataclass(frozen=True, slots=True)
class Events:
    """The events of all countable rollouts as flat arrays.

    Attributes:
        value: Rewards, clipped to ``±LARGEST_REWARD``.
        kind: Index into ``KINDS``.
        turn: The turn of each event.
        rollout: Its rollout, counted over countable rollouts.
        group: Its group.
        bounds: Where each rollout's events start, and the end of the last.
        group_of: The group of each rollout.
        counted: Index of each countable rollout among all.
        clipped: Number of rewards that were clipped.
    """

    value: Floats
    kind: Ints
    turn: Ints
    rollout: Ints
    group: Ints
    bounds: Ints
    group_of: Ints
    counted: list[int]
    clipped: int

    @classmethod
    def of(cls, rollouts: Sequence[TurnRewards], groups: Sequence[Hashable], counts: Sequence[bool]) -> Events:
        """Collect the events of the rollouts for which ``counts`` is true.

        Raises:
            ValueError: A reward is NaN or infinite.
        """
        counted = [index for index, counts_ in enumerate(counts) if counts_]
        flat = [event for index in counted for event in rollouts[index].events]
        sizes = np.array([len(rollouts[index].events) for index in counted], dtype=np.int64)
        numbers: dict[Hashable, int] = {}
        group_of = np.array([numbers.setdefault(groups[index], len(numbers)) for index in counted], dtype=np.int64)
        rollout = np.repeat(np.arange(len(counted)), sizes)
        value = np.array([event.value for event in flat], dtype=np.float64)
        if not np.isfinite(value).all():
            bad = int((~np.isfinite(value)).argmax())
            raise ValueError(
                f"rollout {counted[rollout[bad]]}: the {flat[bad].kind} of turn {flat[bad].turn} is {value[bad]}; "
                "leave out what could not be scored, or exclude the rollout"
            )
        return cls(
            np.clip(value, -LARGEST_REWARD, LARGEST_REWARD),
            np.array([_NUMBER[event.kind] for event in flat], dtype=np.int64),
            np.array([event.turn for event in flat], dtype=np.int64),
            rollout,
            group_of[rollout],
            np.concatenate([[0], np.cumsum(sizes)]),
            group_of,
            counted,
            int((np.abs(value) > LARGEST_REWARD).sum()),
        )

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.group_of.max(initial=-1)) + 1

    def of_kind(self, *kinds: EventKind) -> Bools:
        """Mask of the events of these kinds."""
        return np.isin(self.kind, [_NUMBER[kind] for kind in kinds])


def countable(rollouts: Sequence[TurnRewards], groups: Sequence[Hashable]) -> tuple[list[bool], int]:
    """Which rollouts count, and how many groups fell apart.

    A group that lost rollouts and has fewer than two left has no baseline any more.
    """
    total: dict[Hashable, int] = {}
    left: dict[Hashable, int] = {}
    for rollout, group in zip(rollouts, groups, strict=True):
        total[group] = total.get(group, 0) + 1
        left[group] = left.get(group, 0) + (not rollout.excluded)
    depleted = {group for group, count in total.items() if left[group] < min(count, 2)}
    counts = [not r.excluded and g not in depleted for r, g in zip(rollouts, groups, strict=True)]
    return counts, len(depleted)


def scatter_to_tokens(rollouts: Sequence[TurnRewards], values: Sequence[Floats], width: int) -> NDArray[np.float32]:
    """Spread event advantages over tokens: all tokens after the previous event, up to its position.

    Tokens after the last event get zeros. Tool text inside a stretch is covered too; the loss mask takes it out.

    Args:
        rollouts: The events of each rollout, in order of their position.
        values: One advantage per event.
        width: Tokens per row of the result.

    Returns:
        Rollouts × ``width``.

    Raises:
        ValueError: An event lies outside ``[0, width)`` or before the event in front of it.
    """
    sizes = [len(rollout.events) for rollout in rollouts]
    if sizes != [len(own) for own in values]:
        raise ValueError("values must hold one advantage per event of each rollout")
    # Every row ends in a stretch of zeros that closes at width - 1, so that stretches tile the whole result.
    ends, stretch_values = np.full(sum(sizes) + len(sizes), width - 1), np.zeros(sum(sizes) + len(sizes), np.float32)
    is_event = np.ones(len(ends), dtype=np.bool_)
    closing = np.cumsum(np.asarray(sizes, dtype=np.int64) + 1) - 1
    is_event[closing] = False
    ends[is_event] = [event.position for rollout in rollouts for event in rollout.events]
    stretch_values[is_event] = np.concatenate([*values, np.zeros(0)])
    starts = np.concatenate([[0], ends[:-1] + 1])
    starts[closing[:-1] + 1] = 0
    lengths = ends + 1 - starts
    wrong = is_event & ((lengths < 0) | (ends < 0) | (ends >= width))
    if wrong.any():
        first = int(wrong.argmax())
        row = int(np.searchsorted(closing, first))
        event = rollouts[row].events[first - (int(closing[row - 1]) + 1 if row else 0)]
        raise ValueError(
            f"rollout {row}: the event of turn {event.turn} is at token {event.position}, outside of "
            f"[{max(int(starts[first]) - 1, 0)}, {width}); events must be in order and within the response"
        )
    return np.repeat(stretch_values, lengths).reshape(len(sizes), width)
