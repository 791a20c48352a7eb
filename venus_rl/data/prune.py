"""Stage ``prune``: turns that call a tool which the trained agent will not have are taken out, with their replies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from venus_rl.data.calls import RawMessage, replies_to, tool_names, without


@dataclass(frozen=True, slots=True)
class PrunedTurn:
    """A turn that was taken out.

    Attributes:
        position: Index of the assistant message in the input.
        tools: The tools that were not allowed, as named in the call.
        replies: Indices of its tool responses, taken out as well.
    """

    position: int
    tools: tuple[str, ...]
    replies: tuple[int, ...]


def prune(messages: Sequence[RawMessage], allowed: Collection[str]) -> tuple[list[RawMessage], list[PrunedTurn]]:
    """Take out every turn that calls a tool outside of ``allowed``, and the tool responses that directly follow it.

    Args:
        messages: A conversation.
        allowed: Names of tools in lower case; names in calls are compared without regard to case.

    Returns:
        The messages that stay, and what was taken out. Turns whose calls cannot be read stay: see ``validate``.
    """
    pruned = []
    for position, message in enumerate(messages):
        tools = tuple(name for name in tool_names(message) if name.lower() not in allowed)
        if tools:
            pruned.append(PrunedTurn(position, tools, tuple(replies_to(messages, position))))
    return without(messages, {index for turn in pruned for index in (turn.position, *turn.replies)}), pruned
