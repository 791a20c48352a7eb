from __future__ import annotations

from typing import Any

import pytest

from tests.rl.data.vectors import DEFECTS, cleaning
from venus_rl.data.validate import find_problem, turn_count

VECTORS = cleaning("validate_messages")


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_vectors(vector: dict[str, Any], reference: bool) -> None:
    messages, expected = vector["input"]["messages"], vector["output"]
    problem = find_problem(messages, reference=reference)
    if vector["id"] in DEFECTS and not reference:
        assert (
            problem == {"ends_on_user": "ends_on_user", "unparseable_tool_passes": "unreadable_tool_call"}[vector["id"]]
        )
    else:
        assert (problem or "ok") == expected["reason"]
    assert turn_count(messages) == expected["turns"]


def test_a_call_needs_a_name_and_arguments() -> None:
    def conversation(call: str) -> list[dict[str, str]]:
        return [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "Q"},
            {"role": "assistant", "content": f"<think>r</think><tool_call>{call}</tool_call>"},
            {"role": "user", "content": "<tool_response>\n1\n</tool_response>"},
            {"role": "assistant", "content": "<think>r</think><answer>42</answer>"},
        ]

    assert find_problem(conversation('{"name": "search", "arguments": {}}')) is None
    assert find_problem(conversation("{'name': 'search', 'arguments': {},}")) is None  # JSON5
    for call in ("{}", "[]", '{"name": "search"}', '{"name": 5, "arguments": {}}'):
        assert find_problem(conversation(call)) == "unreadable_tool_call"
