"""Fuzzing of parser and episode: no text of a policy raises, and an episode always ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.env.protocol.tools import Lookup, Read
from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.episode import Episode
from venus_env.protocol.events import CallTool
from venus_env.protocol.format import check_turn_format
from venus_env.protocol.parser import parse_turn, repair_turn
from venus_env.protocol.state import EpisodeState
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


TOOLS = [Lookup(), Read()]
CONFIGS = st.builds(
    EpisodeConfig,
    max_turns=st.integers(1, 8),
    max_context_tokens=st.sampled_from([700, 900, 2_000]),
    max_malformed=st.integers(1, 5),
    max_tool_calls=st.none() | st.integers(1, 4),
    force_final_answer=st.booleans(),
    prompt=st.just("compact"),
)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@settings(max_examples=20_000, deadline=None)
@given(config=CONFIGS, texts=st.lists(TURN, min_size=8, max_size=8), result=st.text(max_size=3_000))
def test_no_text_breaks_an_episode(config: EpisodeConfig, texts: list[str], result: str) -> None:
    episode = Episode("Where?", TOOLS, config)
    twin = Episode("Where?", TOOLS, config)
    for text in texts:
        parse_turn(repair_turn(text))
        check_turn_format(text, final=False)
        if episode.done:
            break
        # A twin that goes on from a state after every turn must not differ.
        state = EpisodeState.model_validate_json(twin.state().model_dump_json())
        twin = Episode.from_state(state, "Where?", TOOLS, config)
        for played in (episode, twin):
            if isinstance(played.act(text), CallTool):
                played.observe(ToolResult(result))
        assert twin.state() == episode.state()
        check_invariants(episode)
    assert episode.done


def check_invariants(episode: Episode) -> None:
    usage, turns = episode.usage, episode.turns
    assert usage.turns == len(turns) <= episode.config.max_turns
    assert sum(turn.kind == "malformed" for turn in turns) == usage.malformed_turns
    assert sum(turn.kind == "tool" for turn in turns) == usage.tool_calls == sum(usage.tools.values())
    assert sum(turn.duplicate for turn in turns) == usage.duplicate_calls
    assert all(turn.kind != "answer" for turn in turns[:-1])
    assert (episode.end == "answered") == (turns[-1].kind == "answer") == (episode.answer is not None)
    roles = [message["role"] for message in episode.messages]
    assert roles[:2] == ["system", "user"]
    assert roles[2:] == (["assistant", "user"] * len(turns))[: len(roles) - 2]
    assert len(roles) in (2 * len(turns) + 1, 2 * len(turns) + 2)
    for message in episode.messages:
        message["content"].encode()
    for reply in episode.messages[3::2]:  # exactly one wrapper, whatever the tool said
        assert reply["content"].startswith("<tool_response>\n")
        assert reply["content"].count("<tool_response>") == reply["content"].count("</tool_response>") == 1
