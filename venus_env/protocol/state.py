"""The state of an episode between two turns: a plain record that can be kept, sent elsewhere and gone on from.

Tree search takes a state, tries a turn, and returns to it; a crashed driver goes on where it was. A state holds the
whole conversation, so that it can be used without the episode that it was taken from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.turns import End, Forced, Message, ToolResult, Turn, Usage


class EpisodeState(BaseModel):
    """What :meth:`venus_env.protocol.episode.Episode.state` gives; a JSON value through ``model_dump_json``.

    Attributes:
        rules: The :class:`EpisodeConfig` under which the episode is played.
        messages: The conversation.
        turns: Records of the turns.
        usage: What has been spent.
        end: ``running``, or how the episode has ended.
        forced: The limit that made the environment ask for a final answer.
        answer: The final answer.
        error: Why the infrastructure failed.
        max_turns: Turn limit as drawn.
        memory: Results of the calls so far, by call.
        malformed_in_a_row: Malformed turns since the last one that was not.
        cut_off: Whether the driver wants the answer with the next turn.
        elapsed_s: Seconds since the start, 0.0 without a time limit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: dict[str, Any]
    messages: list[Message]
    turns: list[Turn]
    usage: Usage
    end: End
    forced: Forced | None
    answer: str | None
    error: str | None
    max_turns: int
    memory: dict[str, ToolResult]
    malformed_in_a_row: int
    cut_off: bool = False
    elapsed_s: float


def rules_of(config: EpisodeConfig) -> dict[str, Any]:
    """The rules in ``config`` as a JSON value, without what subclasses add."""
    return config.model_dump(mode="json", include=set(EpisodeConfig.model_fields))


def check_same_rules(state: EpisodeState, rules: Mapping[str, Any], prompt: Message) -> None:
    """Refuse a state that was taken elsewhere.

    Args:
        state: The state to go on from.
        rules: The rules to go on under.
        prompt: System message to go on under; it describes the tools.

    Raises:
        ValueError: Rules or prompt differ; the message says in what.
    """
    changed = [
        f"{name} ({state.rules.get(name)!r} there, {value!r} here)"
        for name, value in rules.items()
        if state.rules.get(name) != value
    ]
    if changed:
        raise ValueError(f"the state was taken under other rules: {', '.join(changed)}")
    if state.messages[0] != prompt:
        raise ValueError("the state was taken under another system prompt: its tools were others")
