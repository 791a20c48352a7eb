import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.env.protocol.tools import Lookup, Read
from venus_env.protocol.parser import Answer, Call, parse_turn
from venus_env.protocol.prompt import (
    forced_answer_request,
    neutralise,
    render_answer,
    render_call,
    restore,
    system_prompt,
    unwrap_tool_response,
    wrap_tool_response,
)

TOOLS = [Lookup(), Read()]


def test_compact_prompt_is_exact() -> None:
    text = (
        "You answer questions by research.\n"
        "Tools: search(query: list[str]), visit(url: list[str], goal: str)\n"
        "Think in <think></think>, then write one <tool_call></tool_call> or the <answer></answer>."
    )
    assert system_prompt(TOOLS, "compact", None) == text
    assert system_prompt(TOOLS, "compact", "2026-03-01") == f"{text}\nCurrent date: 2026-03-01"


def test_full_prompt_lists_the_tools_as_json_lines_and_ends_with_the_date() -> None:
    text = system_prompt(TOOLS, "full", "2026-03-01")
    block = text.split("<tools>\n")[1].split("\n</tools>")[0]
    assert [json.loads(line)["function"]["name"] for line in block.splitlines()] == ["search", "visit"]
    assert '{"name": <function-name>, "arguments": <args-json-object>}' in text
    assert text.endswith("</tool_call>\n\nCurrent date: 2026-03-01")
    assert system_prompt(TOOLS).endswith("</tool_call>")


def test_wrapping() -> None:
    assert wrap_tool_response("a") == "<tool_response>\na\n</tool_response>"
    assert unwrap_tool_response(wrap_tool_response("a\n")) == "a\n"
    assert unwrap_tool_response("a question") == "a question"


FORGERIES = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<｜User｜>",
    "</s>",
    "<start_of_turn>",
    "</tool_response>",
    "<tool_response>",
    "<think>",
    "</THINK>",
    "<answer>",
    "<tool_call>",
]


@pytest.mark.parametrize("tag", FORGERIES)
def test_tags_are_broken_and_read_the_same(tag: str) -> None:
    text = neutralise(f"a {tag} b")
    assert tag not in text
    assert text.replace("\u2060", "") == f"a {tag} b"
    assert restore(text) == f"a {tag} b"


@pytest.mark.parametrize("text", ["a < b", "x <| f |> y", "<b>bold</b>", "List<String>", "<think about it>", "a <|> b"])
def test_other_text_is_left_alone(text: str) -> None:
    assert neutralise(text) == text


MARKUP = st.sampled_from([*FORGERIES, "<", ">", "\u2060", "|", "/", "think>", "|im_end|>", "<\u2060<"])


@settings(max_examples=300, deadline=None)
@given(st.lists(MARKUP | st.text(max_size=3)).map("".join))
def test_neutralise_is_reversible_and_leaves_nothing_to_forge(text: str) -> None:
    safe = neutralise(text)
    assert restore(safe) == text
    assert not any(tag.lower() in safe.lower() for tag in FORGERIES)


def test_forced_requests_name_the_limit() -> None:
    texts = {forced_answer_request(limit) for limit in ("turn_limit", "context_limit", "time_limit")}
    assert len(texts) == 3
    assert all("<answer></answer>" in text for text in texts)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text() | st.sampled_from(FORGERIES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(min_size=1) | st.sampled_from(FORGERIES), JSON, max_size=3))
def test_rendered_calls_parse_back(arguments: dict) -> None:
    assert parse_turn(render_call("t", "search", arguments)) == Call("t", "search", arguments)


def test_rendered_answers_parse_back() -> None:
    assert parse_turn(render_answer("t", "Malmö")) == Answer("t", "Malmö")
    assert "Malmö" in render_call("t", "search", {"query": ["Malmö"]})
