"""The vocabulary that every room shares: messages, turns, endings, tool results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic wants this one on Python 3.11; it brings the package along

Role = Literal["system", "user", "assistant"]


class Message(TypedDict):
    """One chat message; tool output travels as a ``user`` message wrapped in ``<tool_response>``."""

    role: Role
    content: str


End = Literal[
    "running",
    "answered",
    "turn_limit",
    "context_limit",
    "time_limit",
    "cutoff",
    "malformed_limit",
    "tool_failure",
    "judge_failure",
    "aborted",
]
"""How an episode ended. ``answered`` is the only ending that terminates; all others truncate."""

INFRASTRUCTURE_ENDS: frozenset[End] = frozenset({"tool_failure", "judge_failure", "aborted"})
"""Endings that say nothing about the policy: no score, no loss, no place in a group baseline."""

Forced = Literal["turn_limit", "context_limit", "time_limit", "cutoff"]
"""The budget that made the environment ask for a final answer; ``cutoff`` is its driver's own decision."""

TurnKind = Literal["tool", "answer", "malformed"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back.

    Attributes:
        text: Text for the model, not yet wrapped nor neutralised.
        ok: False when the tool ran but found nothing usable (unknown url, empty result).
        urls: Urls that this result showed to the policy, in order; feeds citation checks and the oracle.
    """

    text: str
    ok: bool = True
    urls: tuple[str, ...] = ()


@dataclass(slots=True)
class Turn:
    """One assistant message and the environment's reply to it.

    Attributes:
        index: Position in the episode, from 0.
        kind: What the text amounted to.
        format_ok: Verdict of ``check_turn_format`` for this position (tool turn or final turn).
        message_index: Index of the assistant message in ``Episode.messages``.
        tool: Canonical tool name for ``kind == "tool"``.
        arguments: Arguments as called (after alias resolution), None unless they parsed.
        ok: The tool ran and gave a usable result; True for answers, False for malformed turns.
        duplicate: The call was answered from the episode's own memory.
        forced: The turn answered a request for a final answer.
        error: Text of the parse or argument error shown to the model, if any.
    """

    index: int
    kind: TurnKind
    format_ok: bool
    message_index: int
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    ok: bool = True
    duplicate: bool = False
    forced: bool = False
    error: str | None = None


@dataclass(slots=True)
class Usage:
    """What an episode has spent so far; tokens are those of the episode's counter."""

    turns: int = 0
    tool_calls: int = 0
    duplicate_calls: int = 0
    malformed_turns: int = 0
    repetitive_turns: int = 0
    context_tokens: int = 0
    tools: dict[str, int] = field(default_factory=dict)
