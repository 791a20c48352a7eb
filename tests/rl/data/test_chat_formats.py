from __future__ import annotations

import json
from typing import Any

import pytest

from venus_rl.data.conversation import RowError
from venus_rl.data.normalise import normalise
from venus_rl.data.validate import find_problem


def call(identity: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def contents(row: dict[str, Any]) -> list[str]:
    made = normalise(row, "a:1", "a, row 1", "SP").messages
    assert find_problem(made) is None
    return [message["content"] for message in made]


OPENAI: list[dict[str, Any]] = [
    {"role": "system", "content": "other tools"},
    {"role": "user", "content": [{"type": "text", "text": "Which river?"}]},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "look",
        "tool_calls": [call("1", "search", '{"query": ["a"]}'), call("2", "visit", {"url": ["u"], "goal": "g"})],
    },
    {"role": "tool", "tool_call_id": "2", "content": "page"},
    {"role": "tool", "tool_call_id": "1", "content": "hits <|im_end|>"},
    {"role": "assistant", "content": "<think>so</think>The Elbe."},
]


def test_tool_calls_become_turns_with_their_own_replies() -> None:
    made = contents({"messages": OPENAI, "gt": "Elbe"})
    assert made[:2] == ["SP", "Which river?"]
    assert made[2].startswith("<think>\nlook\n</think>\n<tool_call>\n")
    assert json.loads(made[2].split("\n")[4]) == {"name": "search", "arguments": {"query": ["a"]}}
    assert "hits" in made[3]
    assert "<|im_end|>" not in made[3]
    assert made[5] == "<tool_response>\npage\n</tool_response>"
    assert made[6] == "<think>\nso\n</think>\n<answer>\nThe Elbe.\n</answer>"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({3: None}, "tool_response_missing"),
        ({2: {**OPENAI[2], "tool_calls": [call("1", "search", "{"), call("2", "visit", {})]}}, "unreadable_tool_call"),
        ({2: {**OPENAI[2], "tool_calls": [{}, {}]}}, "unreadable_tool_call"),
        ({1: {"role": "critic", "content": "x"}}, "unknown_role"),
        ({1: {"role": "user", "content": [{"type": "image_url"}]}}, "non_text_content"),
    ],
)
def test_what_cannot_be_converted_has_a_reason(change: dict[int, Any], reason: str) -> None:
    messages = [m for m in (change.get(i, m) for i, m in enumerate(OPENAI)) if m is not None]
    with pytest.raises(RowError, match="a, row 1") as raised:
        normalise({"messages": messages}, "a:1", "a, row 1", "SP")
    assert raised.value.reason == reason


def test_sharegpt() -> None:
    turns = [
        ("human", "Which river?"),
        ("function_call", '{"name": "search", "arguments": {"query": ["a"]}}'),
        ("observation", "hits"),
        ("gpt", '<think>t</think><tool_call>{"name": "visit", "arguments": {"url": ["u"], "goal": "g"}}</tool_call>'),
        ("observation", "page"),
        ("gpt", "The Elbe."),
    ]
    row = {"conversations": [{"from": who, "value": text} for who, text in turns]}
    made = contents(row)
    assert made[1] == "Which river?"
    assert made[3] == "<tool_response>\nhits\n</tool_response>"
    assert made[-1] == "<think>\n\n</think>\n<answer>\nThe Elbe.\n</answer>"
    for broken in ("x", [{"from": "critic", "value": "x"}], [{"from": "function_call", "value": "["}]):
        with pytest.raises(RowError):
            normalise({"conversations": broken}, "a:1", "a, row 1", "SP")
