"""Whether a turn is laid out as asked. The verdict feeds the format penalty; it never decides what runs."""

from __future__ import annotations

import re

from venus_env.protocol.parser import parse_call_body

_THINK_TAG = re.compile(r"</?think>")
_THINK_CLOSE = "</think>"


def check_turn_format(text: str, final: bool) -> bool:
    """Check the layout of one turn as it was written, without any repair.

    A well-formed turn starts with a thought (more may follow one another, none inside another), and after the last
    thought it holds nothing but one action: an answer that is not blank if ``final``, otherwise one tool call that
    can be read. Tags of the other kind of action may not appear anywhere, nor may those of the action inside a
    thought. Whether the tool exists and accepts the arguments is not a matter of format.

    Args:
        text: The whole assistant message.
        final: Whether an answer is due (True) or a tool call (False).
    """
    if not text.lstrip().startswith("<think>"):
        return False
    thinks = _THINK_TAG.findall(text)
    if thinks != ["<think>", _THINK_CLOSE] * (len(thinks) // 2):
        return False
    due, other = ("answer", "tool_call") if final else ("tool_call", "answer")
    if f"<{other}>" in text or f"</{other}>" in text:
        return False
    opening, closing = f"<{due}>", f"</{due}>"
    if text.count(opening) != 1 or text.count(closing) != 1:
        return False
    action = text[text.rindex(_THINK_CLOSE) + len(_THINK_CLOSE) :].strip()
    if not (action.startswith(opening) and action.endswith(closing)):
        return False
    body = action[len(opening) : -len(closing)]
    if final:
        return bool(body.strip())
    return not isinstance(parse_call_body(body), str)
