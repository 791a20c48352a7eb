from __future__ import annotations

from typing import Any

import pytest

from tests.rl.data.vectors import cleaning
from venus_rl.data.prune import prune

VECTORS = cleaning("prune_disallowed_tool_turns")


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_vectors(vector: dict[str, Any]) -> None:
    messages, pruned = prune(vector["input"]["messages"], set(vector["input"]["allowed"]))
    assert messages == vector["output"]["messages"]
    assert [
        {
            "assistant_position": turn.position,
            "dropped_tools": list(turn.tools),
            "tool_response_positions": list(turn.replies),
        }
        for turn in pruned
    ] == vector["output"]["info"]


def test_only_what_an_assistant_wrote_is_a_call() -> None:
    quoted = '<tool_response>\n<tool_call>{"name": "x", "arguments": {}}</tool_call>\n</tool_response>'
    messages = [{"role": "user", "content": quoted}, {"role": "assistant", "content": None}]
    assert prune(messages, {"search"}) == (messages, [])
