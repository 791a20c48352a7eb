from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rl.data.vectors import cleaning
from venus_rl.data.dedup import remove_repeats

VECTORS = cleaning("remove_duplicate_tool_calls")


def call(name: str, **arguments: Any) -> dict[str, str]:
    body = json.dumps({"name": name, "arguments": arguments})
    return {"role": "assistant", "content": f"<think>r</think><tool_call>{body}</tool_call>"}


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_vectors(vector: dict[str, Any]) -> None:
    messages, repeated = remove_repeats(vector["input"]["messages"])
    assert messages == vector["output"]["messages"]
    assert [
        {
            "assistant_position": turn.position,
            "duplicate_queries": [{"tool": tool, "values": list(values)} for tool, values, _ in turn.calls],
            "tool_response_positions": list(turn.replies),
        }
        for turn in repeated
    ] == vector["output"]["info"]


def test_a_visit_for_another_goal_is_a_repetition_unless_goals_are_compared() -> None:
    messages = [call("visit", url=["u"], goal="one"), call("visit", urls="u", goal="two")]
    assert len(remove_repeats(messages)[0]) == 1
    assert len(remove_repeats(messages, compare_goals=True)[0]) == 2


def test_other_tools_may_repeat() -> None:
    messages = [call("scholar", query="a"), call("scholar", query="a")]
    assert remove_repeats(messages) == (messages, [])
