import json
from pathlib import Path

import pytest

from venus_env.protocol.format import check_turn_format
from venus_env.protocol.prompt import render_answer, render_call

VECTORS = json.loads((Path(__file__).resolve().parents[2] / "vectors/format_check.json").read_text())["vectors"]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["id"])
def test_verdicts_of_the_reference(case: dict) -> None:
    assert check_turn_format(case["input"]["content"], case["input"]["is_final_turn"]) is case["output"]


def test_both_layouts_pass() -> None:
    compact = render_call("t", "search", {"query": ["a"]})
    assert compact == '<think>t</think>\n<tool_call>{"name": "search", "arguments": {"query": ["a"]}}</tool_call>'
    assert check_turn_format(compact, final=False)
    assert check_turn_format(compact.replace("l>{", "l>\n{").replace("}<", "}\n<"), final=False)
    assert check_turn_format(render_answer("t", "42"), final=True)
    assert not check_turn_format(render_answer("t", "42"), final=False)
    assert not check_turn_format(render_answer("t", ""), final=True)


@pytest.mark.parametrize(
    ("text", "final"),
    [
        ("<think>x<answer>1</answer>", True),  # never closed
        ("<think>x</think><answer>1", True),
        ("<think>x</think>\n<answer>1</answer>\nDone.", True),
        ("<think>x</think></think><answer>1</answer>", True),
        ("</think><think><answer>1</answer>", True),
        ('<think>x</think><tool_call>{"name": 5, "arguments": {}}</tool_call>', False),  # unreadable, hence bad form
        (
            '<think>x</think><tool_call>{"name": "s", "arguments": {}}</tool_call><tool_response>f</tool_response>',
            False,
        ),
    ],
)
def test_bad_form(text: str, final: bool) -> None:
    assert not check_turn_format(text, final)


def test_code_after_the_json_is_readable() -> None:
    call = '<tool_call>{"name": "PythonInterpreter", "arguments": {}}\n<code>print(1)</code></tool_call>'
    assert check_turn_format(f"<think>x</think>{call}", final=False)
