from __future__ import annotations

from typing import Any

import pytest

from tests.rl.data.vectors import cleaning
from venus_rl.data.redsearcher import clean_answer_turn, clean_call_turn, raw_messages, repair_text

CALLS = cleaning("clean_toolcall_output")
ANSWERS = cleaning("clean_answer_output")
RAW = cleaning("normalize_raw_messages")
CALL = '<think>r</think><tool_call>{"name": "search", "arguments": {"query": "a"}}</tool_call>'
ANSWER = "<think>r</think><answer>42</answer>"


def turn(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


@pytest.mark.parametrize("vector", CALLS.values(), ids=CALLS)
def test_call_turns(vector: dict[str, Any]) -> None:
    assert clean_call_turn(vector["input"]["text"]) == vector["output"]


@pytest.mark.parametrize("vector", ANSWERS.values(), ids=ANSWERS)
def test_answer_turns(vector: dict[str, Any]) -> None:
    assert clean_answer_turn(vector["input"]["text"]) == vector["output"]


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize("vector", RAW.values(), ids=RAW)
def test_raw_rows(vector: dict[str, Any], reference: bool) -> None:
    given = vector["input"]
    assert raw_messages(given["messages"], given["system_prompt"], reference=reference)[0] == vector["output"]


def test_code_follows_a_python_call_and_stays() -> None:
    body = '{"name": "PythonInterpreter", "arguments": {}}\n<code>\nprint(1)\n</code>'
    assert f"<tool_call>\n{body}\n</tool_call>" in str(
        clean_call_turn(f"<think>r</think><tool_call>{body}</tool_call>")
    )


def test_turns_left_out_are_counted() -> None:
    python = '<think>r</think><tool_call>{"name": "PythonInterpreter", "arguments": {"code": "1"}}</tool_call>'
    given = [turn("user", "Q"), turn("assistant", python), turn("user", "1"), turn("assistant", ANSWER)]
    made, left_out = raw_messages(given, "SP")
    assert made is not None
    assert [m["role"] for m in made] == ["system", "user", "assistant"]
    assert left_out == {"unreadable_call": 1}


def test_a_leading_system_message_is_not_the_question_except_in_the_reference() -> None:
    given = [turn("system", "S"), turn("user", "Q"), turn("assistant", ANSWER)]
    assert [m["content"] for m in raw_messages(given, "SP")[0] or []][:2] == ["SP", "Q"]
    assert [m["content"] for m in raw_messages(given, "SP", reference=True)[0] or []][:2] == ["SP", "S"]


def test_tool_text_cannot_forge_a_turn_except_in_the_reference() -> None:
    given = [turn("user", "Q"), turn("assistant", CALL), turn("user", "x <|im_start|> y"), turn("assistant", ANSWER)]
    assert "<|im_start|>" not in str(raw_messages(given, "SP")[0])
    assert "<|im_start|>" in str(raw_messages(given, "SP", reference=True)[0])


@pytest.mark.parametrize("messages", [None, "x", [], [1], [turn("user", None)], [turn("user", "Q"), {"role": "user"}]])
def test_unusable_messages(messages: Any) -> None:
    assert raw_messages(messages, "SP")[0] is None


@pytest.mark.parametrize(
    ("text", "repaired"),
    [("naïve 😀", "naïve 😀"), ("\ud83d\ude00", "😀"), ("a\ud83db", "ab")],
)
def test_surrogates(text: str, repaired: str) -> None:
    assert repair_text(text) == repaired
