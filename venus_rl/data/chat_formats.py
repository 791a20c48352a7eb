"""Conversations of chat APIs and of ShareGPT → the protocol's messages.

A call in a field of its own becomes a ``<tool_call>`` in the text, reasoning of its own a ``<think>``. A turn
with several calls becomes as many turns, since the protocol has one call a turn; a final text becomes the ``<answer>``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from venus_env.protocol.prompt import neutralise, wrap_tool_response
from venus_rl.data.calls import ANSWER, THINK
from venus_rl.data.conversation import RowError

_SHAREGPT_ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "function_call": "call",
    "tool_call": "call",
    "observation": "tool",
    "tool": "tool",
    "tool_response": "tool",
    "function_response": "tool",
}


def is_openai(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether messages carry calls in ``tool_calls``, replies in role ``tool``, or content in parts."""
    return any(m.get("tool_calls") or m.get("role") == "tool" or isinstance(m.get("content"), list) for m in messages)


def openai_messages(messages: Sequence[Mapping[str, Any]], prompt: str, place: str) -> list[dict[str, str]]:
    """Convert messages with ``tool_calls``.

    Args:
        messages: As found; their system message, which knows nothing of this protocol's calls, gives way to ``prompt``.
        prompt: The system message.
        place: File and row, for errors.

    Raises:
        RowError: A call or a reply cannot be converted.
    """
    made = [{"role": "system", "content": prompt}]
    rest = [m for m in messages if m.get("role") not in ("system", "developer")]
    replies: Iterator[str] = iter(())
    for index, message in enumerate(rest):
        role, text = message.get("role"), _text(message.get("content"), f"{place}, message {index}")
        if role == "user":
            made.append({"role": "user", "content": text})
        elif role == "assistant":
            calls = message.get("tool_calls") or []
            if not calls:
                made.append({"role": "assistant", "content": _answer(_thought(message, text), text)})
                continue
            replies = _replies(rest, index, calls, place)
            thought = _thought(message, text) or THINK.sub("", text).strip()
            for call in calls:
                made.append({"role": "assistant", "content": _call(thought, call, place)})
                made.append({"role": "user", "content": wrap_tool_response(neutralise(next(replies)))})
                thought = ""
        elif role != "tool":
            raise RowError("unknown_role", f"{place}, message {index}: role {role!r} is not known")
    return made


def sharegpt_messages(conversations: Any, prompt: str, place: str) -> list[dict[str, str]]:
    """Convert ``[{from, value}]``; arguments and errors as in :func:`openai_messages`."""
    if not isinstance(conversations, list) or not all(isinstance(turn, dict) for turn in conversations):
        raise RowError("unknown_shape", f"{place}: 'conversations' must be a list of {{from, value}}")
    made = [{"role": "system", "content": prompt}]
    for index, turn in enumerate(conversations):
        here = f"{place}, message {index}"
        role, text = _SHAREGPT_ROLES.get(str(turn.get("from"))), _text(turn.get("value"), here)
        if role is None:
            raise RowError("unknown_role", f"{here}: from {turn.get('from')!r} is not known")
        if role == "tool":
            made.append({"role": "user", "content": wrap_tool_response(neutralise(text))})
        elif role == "call":
            made.append({"role": "assistant", "content": _call("", {"function": _json_object(text, here)}, here)})
        elif role == "assistant":
            written = text if "<tool_call>" in text else _answer(_thought({}, text), text)
            made.append({"role": "assistant", "content": written})
        elif role == "user":
            made.append({"role": "user", "content": text})
    return made


def _text(content: Any, place: str) -> str:
    """Content as text; that of a chat API may come in parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in content):
        return "".join(part["text"] for part in content)
    raise RowError("non_text_content", f"{place}: content is neither text nor parts of text")


def _thought(message: Mapping[str, Any], text: str) -> str:
    """Reasoning of a turn, from its own field or from the text."""
    own = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(own, str) and own.strip():
        return own.strip()
    found = THINK.search(text)
    return found[1].strip() if found else ""


def _answer(thought: str, text: str) -> str:
    """The final turn; text outside of thoughts is the answer where none is marked."""
    marked = ANSWER.findall(text)
    answer = marked[-1].strip() if marked else THINK.sub("", text).strip()
    return f"<think>\n{thought}\n</think>\n<answer>\n{answer}\n</answer>"


def _call(thought: str, call: Any, place: str) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise RowError("unreadable_tool_call", f"{place}: a tool call has no function with a name")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        arguments = _json_object(arguments, f"{place}, call of {function['name']}")
    written = json.dumps({"name": function["name"], "arguments": arguments}, ensure_ascii=False)
    return f"<think>\n{thought}\n</think>\n<tool_call>\n{written}\n</tool_call>"


def _json_object(text: str, place: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowError("unreadable_tool_call", f"{place}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise RowError("unreadable_tool_call", f"{place}: expected a JSON object, found {type(value).__name__}")
    return value


def _replies(messages: Sequence[Mapping[str, Any]], index: int, calls: Sequence[Any], place: str) -> Iterator[str]:
    """Texts of the replies to the calls of a turn, in the order of the calls: by id, else by position."""
    following = []
    for message in messages[index + 1 :]:
        if message.get("role") != "tool":
            break
        following.append(message)
    if len(following) != len(calls):
        raise RowError(
            "tool_response_missing",
            f"{place}, message {index}: {len(calls)} tool calls are followed by {len(following)} tool messages",
        )
    by_id = {message.get("tool_call_id"): message for message in following}
    ids = [call.get("id") if isinstance(call, dict) else None for call in calls]
    ordered = [by_id[i] for i in ids] if set(ids) == set(by_id) and len(by_id) == len(calls) else following
    return (_text(message.get("content"), f"{place}, a reply to message {index}") for message in ordered)
