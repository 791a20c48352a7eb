import pytest

from tests.env.protocol.tools import Lookup, Read
from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.episode import Episode
from venus_env.protocol.events import CallTool, Ended, Observed
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.state import EpisodeState, rules_of
from venus_env.protocol.turns import ToolResult

TOOLS = [Lookup(), Read()]
SEARCH = render_call("t", "search", {"query": ["Lund"]})


def play(episode: Episode, text: str) -> Observed | Ended:
    event = episode.act(text)
    return episode.observe(ToolResult("found", urls=("https://x/lund",))) if isinstance(event, CallTool) else event


def test_a_state_is_json_and_holds_everything() -> None:
    config = EpisodeConfig(max_turns=4, max_malformed=2)
    episode = Episode("Where?", TOOLS, config)
    play(episode, SEARCH)
    play(episode, "malformed")
    state = EpisodeState.model_validate_json(episode.state().model_dump_json())
    twin = Episode.from_state(state, "Where?", TOOLS, config)
    assert twin.messages == episode.messages
    assert twin.act(SEARCH) == episode.act(SEARCH)  # from memory: no tool is asked for
    assert twin.turns[-1].duplicate
    assert twin.forced == "turn_limit"
    assert play(twin, render_answer("t", "Lund")) == Ended("answered")
    assert twin.answer == "Lund"
    assert not episode.done
    # Malformed turns in a row go on being counted.
    twin = Episode.from_state(state, "Where?", TOOLS, config)
    assert twin.act("malformed") == Ended("malformed_limit")


def test_no_state_while_a_result_is_due() -> None:
    episode = Episode("Where?", TOOLS)
    episode.act(SEARCH)
    with pytest.raises(RuntimeError, match="a result of 'search' is due first"):
        episode.state()


def test_rules_leave_out_what_subclasses_add() -> None:
    class Wider(EpisodeConfig):
        colour: str = "blue"

    assert rules_of(Wider(max_turns=3)) == rules_of(EpisodeConfig(max_turns=3))


def test_other_rules_and_tools_are_named() -> None:
    state = Episode("Where?", TOOLS, EpisodeConfig(max_turns=3)).state()
    with pytest.raises(ValueError, match=r"max_turns \(3 there, 5 here\)"):
        Episode.from_state(state, "Where?", TOOLS, EpisodeConfig(max_turns=5))
    with pytest.raises(ValueError, match="its tools were others"):
        Episode.from_state(state, "Where?", TOOLS[:1], EpisodeConfig(max_turns=3))
