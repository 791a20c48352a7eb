"""Messages as a person reads them on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from venus_env.protocol.prompt import unwrap_tool_response
from venus_env.protocol.turns import Message


def transcript(messages: Iterable[Message], max_chars: int | None = None) -> str:
    """Lay out messages one under the other, each under a heading and indented.

    Args:
        messages: What to show.
        max_chars: Longer texts are cut there, with the number of characters left out.
    """
    blocks = []
    for message in messages:
        text = unwrap_tool_response(message["content"])
        wrapped = text is not message["content"]
        heading = {"system": "prompt", "assistant": "policy"}.get(message["role"], "tool" if wrapped else "question")
        if max_chars is not None and len(text) > max_chars:
            text = f"{text[:max_chars]}… ({len(text) - max_chars} more characters)"
        blocks.append(f"[{heading}]\n{textwrap.indent(text, '  ')}\n")
    return "\n".join(blocks)
