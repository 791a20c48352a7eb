"""From the facts about a rollout's turns to reward events: which turn earns what, and at which token (method 4.3, 4.4).

An event closes a stretch of tokens: everything after the previous event, up to and including ``position``, shares its
return. Turns are explicit here. Nothing is recovered by looking for non-zero rewards or end-of-turn tokens, so a gain
of exactly zero still counts, and a gain on the very last token does not swallow the outcome.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from venus_env.protocol.turns import TurnKind
from venus_env.tokens import TurnSpan

EventKind = Literal["information_gain", "penalty", "outcome", "answer_penalty"]
"""``penalty`` replaces the gain of a badly formed tool turn, ``answer_penalty`` the outcome of such an answer."""

Assignment = Literal["visit_segment", "visit_copied", "every_turn"]
"""Who earns an information gain.

``visit_segment`` (the reference code): the visit, once; searches since the visit before share its return because they
lie in its stretch of tokens. ``visit_copied`` (the paper): the visit and, as events of their own, each of those
searches. ``every_turn`` (IGPO): each tool turn its own.
"""


@dataclass(frozen=True, slots=True)
class RewardEvent:
    """A reward at a token.

    Attributes:
        position: Index of the last token of its stretch, counted from the first response token.
        value: The reward before normalisation.
        kind: What it is.
        turn: The turn that earned it.
    """

    position: int
    value: float
    kind: EventKind
    turn: int


@dataclass(frozen=True, slots=True)
class TurnRewards:
    """All events of one rollout, by position.

    Attributes:
        events: In order; two events of the last turn may share a position (gain first, then outcome).
        tool_turns: Number of turns that could have been scored, for coverage.
        excluded: The rollout was lost to infrastructure: out of the loss and of every statistic.
    """

    events: tuple[RewardEvent, ...]
    tool_turns: int = 0
    excluded: bool = False


class TurnFacts(Protocol):
    """What is read from a turn; ``Turn`` and ``TurnRecord`` both fit."""

    kind: TurnKind
    tool: str | None
    format_ok: bool
    forced: bool


class TurnRewardConfig(BaseModel):
    """How turns are rewarded.

    Attributes:
        assignment: Who earns an information gain.
        scored_tools: Tools whose turns carry gains under the two visit assignments.
        format_penalty: A badly formed turn earns minus this; 0 switches penalties off.
        diminish: Divide the positive gain of turn j by ``1 + j * diminish``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    assignment: Assignment = "visit_segment"
    scored_tools: tuple[str, ...] = ("visit",)
    format_penalty: float = Field(default=1.0, ge=0.0, allow_inf_nan=False)
    diminish: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)


def build_turn_rewards(
    turns: Sequence[TurnFacts],
    spans: Sequence[TurnSpan],
    gains: Sequence[float | None],
    outcome: float | None,
    config: TurnRewardConfig,
    *,
    prompt_length: int = 0,
) -> TurnRewards:
    """Place the rewards of one rollout.

    Under the visit assignments a visit earns the sum of all gains since the last scored visit. That is the same number
    whether every boundary was scored or only those after visits, since gains telescope.

    The last turn, if it is an answer or the reply to a forced request, carries the outcome or, badly formed, the answer
    penalty. A rollout that a budget cut short keeps its last tool turn's own reward and gets the outcome beside it.

    Args:
        turns: The turns of the episode.
        spans: Their tokens, as :class:`venus_env.tokens.Conversation` records them.
        gains: Information gain per turn; None where the belief was not asked.
        outcome: Reward of the episode's answer; None if the infrastructure ended it, which excludes the rollout.
        config: The rules.
        prompt_length: Number of prompt tokens; positions of events count from there.

    Raises:
        ValueError: The three sequences do not describe the same turns.
    """
    tool_turns = sum(turn.kind == "tool" for turn in turns)
    if outcome is None:
        return TurnRewards((), tool_turns, excluded=True)
    if not len(turns) == len(spans) == len(gains):
        raise ValueError(
            f"{len(turns)} turns, {len(spans)} token spans and {len(gains)} gains: give one span and "
            "one gain (or None) per turn"
        )
    if not turns:
        return TurnRewards(())
    for index, value in enumerate([*gains, outcome]):
        if value is not None and not math.isfinite(value):
            what = f"the gain of turn {index}" if index < len(gains) else "the outcome"
            raise ValueError(f"{what} is {value}; pass None where a turn could not be scored")

    ends = [span.end - 1 - prompt_length for span in spans]
    last = len(turns) - 1
    answered = turns[last].kind == "answer" or turns[last].forced
    earned = _assign(turns, _diminished(gains, config.diminish), config)
    events: list[RewardEvent] = []
    for index, turn in enumerate(turns):
        well_formed = (turn.format_ok and turn.kind != "malformed") or config.format_penalty == 0
        if index == last and answered:
            kind: EventKind = "outcome" if well_formed else "answer_penalty"
            events.append(RewardEvent(ends[index], outcome if well_formed else -config.format_penalty, kind, index))
        elif not well_formed:
            events.append(RewardEvent(ends[index], -config.format_penalty, "penalty", index))
        elif (gain := earned[index]) is not None:
            events.append(RewardEvent(ends[index], gain, "information_gain", index))
    if not answered:
        events.append(RewardEvent(ends[last], outcome, "outcome", last))
    return TurnRewards(tuple(events), tool_turns)


def _diminished(gains: Sequence[float | None], rate: float) -> list[float | None]:
    return [g / (1 + j * rate) if g is not None and g > 0 else g for j, g in enumerate(gains)]


def _assign(turns: Sequence[TurnFacts], gains: Sequence[float | None], config: TurnRewardConfig) -> list[float | None]:
    """Gain that each turn earns, before penalties replace some of them."""
    if config.assignment == "every_turn":
        return list(gains)
    earned: list[float | None] = [None] * len(turns)
    waiting: list[int] = []  # tool turns since the last scored visit
    total = 0.0
    for index, (turn, gain) in enumerate(zip(turns, gains, strict=True)):
        if turn.kind == "tool":
            waiting.append(index)
        total += gain if gain is not None else 0.0
        if turn.kind == "tool" and turn.tool in config.scored_tools and gain is not None:
            for receiver in waiting if config.assignment == "visit_copied" else [index]:
                earned[receiver] = total
            waiting, total = [], 0.0
    return earned
