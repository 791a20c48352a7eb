"""What assistant turns of recordings hold: thoughts, answers, tool calls, and the replies that belong to them.

Recordings are read more leniently than turns of a running episode (:mod:`venus_env.protocol.parser`): tags count in any
case, and every call of a turn counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL | re.IGNORECASE)
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL | re.IGNORECASE)

RawMessage = Mapping[str, Any]
"""A message as found: ``role`` and ``content`` may be missing or of any type until it is validated."""

# The JSON5 reader is pure Python and takes seconds for a megabyte; real calls are far shorter.
_JSON5_MAX_CHARS = 100_000


def read_call(body: str) -> Any:
    """Value of the JSON or JSON5 in front of a call's ``<code>``, or None if it cannot be read."""
    text = body.split("<code>", 1)[0].strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if len(text) > _JSON5_MAX_CHARS:
            return None
    import json5  # rarely needed, and slow to import

    try:
        return json5.loads(text)
    except (ValueError, RecursionError):
        return None


@lru_cache(maxsize=2048)  # every stage looks at the same turns
def tool_calls(content: str) -> tuple[dict[str, Any] | None, ...]:
    """Every tool call of a turn, in order; None stands for one that is no readable JSON object. Not to be changed."""
    values = (read_call(match[1]) for match in CALL.finditer(content))
    return tuple(value if isinstance(value, dict) else None for value in values)


def calls_of(message: RawMessage) -> list[dict[str, Any]]:
    """The readable tool calls of a message; none if an assistant did not write it."""
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, str):
        return []
    return [call for call in tool_calls(content) if call is not None]


def tool_names(message: RawMessage) -> list[str]:
    """Names of the tools that a message calls."""
    names = (call.get("name") for call in calls_of(message))
    return [name for name in names if isinstance(name, str) and name]


def replies_to(messages: Sequence[RawMessage], index: int) -> list[int]:
    """Positions of the tool responses that directly follow the turn at ``index``."""
    found = []
    for position in range(index + 1, len(messages)):
        content = messages[position].get("content")
        if messages[position].get("role") != "user" or "<tool_response>" not in (content or ""):
            break
        found.append(position)
    return found


def without(messages: Sequence[RawMessage], positions: set[int]) -> list[RawMessage]:
    """The messages that stand at none of the positions."""
    return [message for index, message in enumerate(messages) if index not in positions]
