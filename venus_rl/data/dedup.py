"""Stage ``dedup``: turns that only repeat calls made before are taken out, with their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from venus_rl.data.calls import RawMessage, calls_of, replies_to, without

_VISIT_KEYS = ("url", "urls", "uri", "uris", "link", "links", "page", "pages", "query", "queries")

Signature = tuple[str, tuple[str, ...], str]
"""What makes two calls the same: tool, sorted queries or urls, goal (empty unless goals are compared)."""


@dataclass(frozen=True, slots=True)
class RepeatedTurn:
    """A turn that was taken out.

    Attributes:
        position: Index of the assistant message in the input.
        calls: What it repeated.
        replies: Indices of its tool responses, taken out as well.
    """

    position: int
    calls: tuple[Signature, ...]
    replies: tuple[int, ...]


def remove_repeats(
    messages: Sequence[RawMessage], *, compare_goals: bool = False
) -> tuple[list[RawMessage], list[RepeatedTurn]]:
    """Take out every turn all of whose searches and visits were made before, anywhere earlier in the conversation.

    Args:
        messages: A conversation.
        compare_goals: A visit of the same pages with another goal is no repetition.

    Returns:
        The messages that stay, and what was taken out.
    """
    seen: set[Signature] = set()
    repeated = []
    for position, message in enumerate(messages):
        calls = tuple(s for call in calls_of(message) if (s := _signature(call, compare_goals)) is not None)
        if calls and seen.issuperset(calls):
            repeated.append(RepeatedTurn(position, calls, tuple(replies_to(messages, position))))
        seen.update(calls)
    return without(messages, {index for turn in repeated for index in (turn.position, *turn.replies)}), repeated


def _signature(call: Mapping[str, Any], compare_goals: bool) -> Signature | None:
    """Signature of a search or visit; None for other tools."""
    name, arguments = call.get("name"), call.get("arguments", {})
    if name not in ("search", "visit"):
        return None
    goal = ""
    if not isinstance(arguments, dict):
        values = _texts(arguments)
    elif name == "search":
        values = _texts(arguments.get("query", arguments.get("queries")))
    else:
        values = [text for key in _VISIT_KEYS for text in _texts(arguments.get(key))]
        goal = " ".join(_texts(arguments.get("goal"))) if compare_goals else ""
    return name, tuple(sorted(set(values))), goal


def _texts(value: Any) -> list[str]:
    """The non-empty texts of a text or a list of them."""
    items = value if isinstance(value, list) else [value]
    return [text for item in items if item is not None and (text := str(item).strip())]
