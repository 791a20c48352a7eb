import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.env.protocol.tools import Lookup, Read
from venus_env.protocol.format import check_turn_format
from venus_env.protocol.parser import (
    Answer,
    Call,
    Malformed,
    call_key,
    clean_text,
    is_repetitive,
    parse_turn,
    repair_turn,
)
from venus_env.protocol.prompt import neutralise
from venus_env.protocol.schema import as_toolbox, resolve_call

VECTORS = json.loads((Path(__file__).resolve().parents[2] / "vectors/parse.json").read_text())
CASES = {vector["id"]: vector for vector in VECTORS["vectors"]}

# Where this parser differs from the reference's training-time parser on purpose.
CLOSED_IN_FRONT = "the thought is closed in front of the action, as at inference, so it no longer contains the action"
OVERRIDES: dict[str, tuple[str, Call | Answer | type[Malformed]]] = {
    "unclosed_think_tool": (CLOSED_IN_FRONT, Call("t \n", "search", {"query": ["a"]})),
    "unclosed_think_answer": (CLOSED_IN_FRONT, Answer("t \n", "1")),
    "args_not_dict": ("a call never runs with guessed arguments; the reference runs it with {}", Malformed),
    "name_not_string": ("a name that is no string names no tool", Malformed),
    # The reference drops unknown keys while parsing; here resolve_call does, which knows the tools (tested below).
    "extra_args_filtered": ("unknown keys are dropped later", Call("t", "search", {"query": ["a"], "topk": 5})),
}


def reference(vector: dict) -> Call | Answer | type[Malformed]:
    expected = vector["output"]["rl"]
    if expected["flag"] == "END":
        return Answer(expected["thinking_or_error"], expected["payload"])
    if expected["flag"] == "CALL":
        return Call(expected["thinking_or_error"], expected["payload"]["name"], expected["payload"]["arguments"])
    return Malformed


@pytest.mark.parametrize("case", CASES)
def test_parses_as_the_reference_except_where_it_is_wrong(case: str) -> None:
    parsed = parse_turn(repair_turn(CASES[case]["input"]["content"]))
    expected = OVERRIDES[case][1] if case in OVERRIDES else reference(CASES[case])
    assert parsed == expected or (expected is Malformed and isinstance(parsed, Malformed))


@pytest.mark.parametrize("case", OVERRIDES)
def test_overrides_are_needed(case: str) -> None:
    assert OVERRIDES[case][1] != reference(CASES[case]), "agrees with the reference: delete the override"


@pytest.mark.parametrize("case", CASES)
def test_repairs_as_the_reference_does_at_inference(case: str) -> None:
    assert repair_turn(CASES[case]["input"]["content"]) == CASES[case]["output"]["inference"]["sanitized"]


def test_unknown_argument_keys_never_reach_the_tool() -> None:
    call = parse_turn(CASES["extra_args_filtered"]["input"]["content"])
    assert isinstance(call, Call)
    resolved = resolve_call(as_toolbox([Lookup(), Read()]), call.name, call.arguments)
    assert not isinstance(resolved, str)
    assert resolved[1].model_dump() == {"query": ["a"]}


@pytest.mark.parametrize("case", VECTORS["is_repetitive"], ids=lambda case: case["id"])
def test_repetition(case: dict) -> None:
    inputs = case["input"]
    assert is_repetitive(inputs["content"], inputs["tail_len"], inputs["threshold"]) is case["output"]


@pytest.mark.parametrize("case", VECTORS["tool_call_key"], ids=lambda case: case["output"])
def test_call_key(case: dict) -> None:
    assert call_key(case["input"]["name"], case["input"]["arguments"]) == case["output"]


def test_template_opened_thought() -> None:
    text = 't\n</think>\n<tool_call>{"name": "search", "arguments": {"query": ["a"]}}</tool_call>'
    assert repair_turn(text, think_opened=True) == repair_turn(text) == "<think>\n" + text
    # Without a closing tag only the driver can know that a thought was under way.
    unclosed = "t <answer>1</answer>"
    assert parse_turn(repair_turn(unclosed, think_opened=True)) == Answer("\nt \n", "1")
    assert isinstance(parse_turn(repair_turn(unclosed)), Malformed)


def test_unclosed_thought_is_closed_before_the_first_action_only() -> None:
    assert repair_turn("<think>a<tool_call>b<answer>c") == "<think>a\n</think>\n<tool_call>b<answer>c"
    assert repair_turn("<answer>0</answer><think>a<answer>1") == "<answer>0</answer><think>a\n</think>\n<answer>1"
    assert repair_turn("<think>a") == "<think>a\n</think>"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ('{"name": "search", "arguments": ["a"]}', "'arguments' must be a JSON object, not a list"),
        ('{"name": "search"}', "has no 'arguments'"),
        ("{}", "has no 'name' and no 'arguments'"),
        ("3", "must be a JSON object, not a number"),
        ('{"name": " ", "arguments": {}}', "'name' must be a non-empty string"),
        ('{"name": "search", "arguments": {"query": ["a"}}', "not valid JSON"),
        ("[" * 200_000, "nested too deeply"),
        ("{" * 100_000, "not valid JSON"),
        ('{"name": "search", "arguments": {"n": ' + "9" * 5000 + "}}", "not valid JSON"),
    ],
)
def test_unreadable_calls_say_what_is_wrong(body: str, complaint: str) -> None:
    parsed = parse_turn(f"<think>t</think><tool_call>{body}</tool_call>")
    assert isinstance(parsed, Malformed)
    assert complaint in parsed.reason


def test_surrogates() -> None:
    assert clean_text("a\ud83d\ude00b") == "a😀b"
    assert clean_text("a\ud83db\ude00") == "a\ufffdb\ufffd"
    assert clean_text("end\ud83d") == "end\ufffd"
    body = json.dumps({"name": "search", "arguments": {"query": ["\ud800"], "\udfff": [{"a": "\ud800"}]}})
    parsed = parse_turn(f"<think>t</think><tool_call>{body}</tool_call>")
    assert isinstance(parsed, Call)
    assert parsed.arguments == {"query": ["\ufffd"], "\ufffd": [{"a": "\ufffd"}]}


@pytest.mark.parametrize("piece", ["<think>", "<answer>", "<tool_call>", "<code>", "</think>", "{", "<|", "<\u2060"])
def test_time_is_linear_in_the_length_of_garbage(piece: str) -> None:
    text = "<think></think><tool_call>" + piece * 40_000
    started = time.process_time()
    parse_turn(repair_turn(text))
    parse_turn(text + "</tool_call>")
    check_turn_format(text, final=False)
    neutralise(text)
    assert time.process_time() - started < 2.0  # a quadratic reader takes minutes


PIECES = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>", "<tool_response>", "{", "}"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(st.characters(), max_size=5)).map("".join))
def test_any_text_parses_and_repair_is_idempotent(text: str) -> None:
    repaired = repair_turn(text)
    assert repair_turn(repaired) == repaired
    assert isinstance(parse_turn(repaired), Call | Answer | Malformed)
    clean_text(text).encode()
