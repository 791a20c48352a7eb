"""Stage ``validate``: is this a conversation of the protocol, from the system prompt to the final answer?"""

from __future__ import annotations

from collections.abc import Sequence

from venus_rl.data.calls import ANSWER, CALL, THINK, RawMessage, tool_calls


def turn_count(messages: Sequence[RawMessage]) -> int:
    """Number of turns, the answer included."""
    return max(len(messages) - 1, 0) // 2


def find_problem(messages: Sequence[RawMessage], *, reference: bool = False) -> str | None:
    """Why these messages are no conversation to learn from, or None.

    Args:
        messages: A conversation.
        reference: Let pass what the reference lets pass: a conversation that ends on a tool response without any
            answer, and calls that are no JSON object with a name and arguments.
    """
    if len(messages) < 3:
        return "too_short"
    if not isinstance(messages[0], dict) or messages[0].get("role") != "system":
        return "bad_role_start"
    for index, message in enumerate(messages[1:], start=1):
        if not isinstance(message, dict):
            return "non_dict_message"
        role = "user" if index % 2 else "assistant"
        if message.get("role") != role:
            return f"bad_role_at_{index}"
        content = message.get("content", "")
        if not isinstance(content, str):
            return f"non_str_content_at_{index}"
        final = index == len(messages) - 1
        problem = _user_problem(content, index) if role == "user" else _assistant_problem(content, final, reference)
        if problem is not None:
            return problem
    if not reference and len(messages) % 2 == 0:
        return "ends_on_user"
    return None


def _user_problem(content: str, index: int) -> str | None:
    opened, closed = "<tool_response>" in content, "</tool_response>" in content
    if index == 1:
        return "first_user_contains_tool_response" if opened or closed else None
    return None if opened and closed else f"user_missing_tool_response_at_{index}"


def _assistant_problem(content: str, final: bool, reference: bool) -> str | None:
    if not THINK.search(content):
        return "assistant_missing_think"
    answers, calls = ANSWER.search(content) is not None, CALL.search(content) is not None
    if final:
        if not answers:
            return "final_assistant_missing_answer"
        return "final_assistant_contains_tool" if calls else None
    if not calls:
        return "assistant_missing_tool_call"
    if answers:
        return "assistant_tool_turn_contains_answer"
    return None if reference or _readable(content) else "unreadable_tool_call"


def _readable(content: str) -> bool:
    """Whether every call of a turn is an object with a name and arguments."""
    return all(
        call is not None and isinstance(call.get("name"), str) and isinstance(call.get("arguments"), dict)
        for call in tool_calls(content)
    )
