"""Fuzzing of parser and episode: no text of a policy raises, and an episode always ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.env.protocol.tools import Lookup, Read
from venus_env.protocol.episode import CallTool, Episode, EpisodeConfig
from venus_env.protocol.format import check_turn_format
from venus_env.protocol.parser import parse_turn, repair_turn
from venus_env.protocol.turns import ToolResult

PIECES = [
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>", "<tool_response>", "<code>"),
    *(
        '{"name": "search", "arguments": {"query": ["a"]}}',
        '{"name": "visit"',
        "}",
        "[",
        "'",
        "\\ud800",
        "\n",
        "<|im_end|>",
    ),
]
TURN = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=12).map("".join)


@pytest.mark.nightly
@settings(max_examples=20_000, deadline=None)
@given(texts=st.lists(TURN, min_size=9, max_size=9), result=st.text(max_size=30))
def test_no_text_breaks_an_episode(texts: list[str], result: str) -> None:
    episode = Episode("Where?", [Lookup(), Read()], EpisodeConfig(max_turns=8, max_context_tokens=2_000))
    for text in texts:
        parse_turn(repair_turn(text))
        check_turn_format(text, final=False)
        if episode.done:
            break
        if isinstance(episode.act(text), CallTool):
            episode.observe(ToolResult(result))
    assert episode.done
    assert len(episode.turns) <= 8
