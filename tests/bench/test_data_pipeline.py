from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.data_pipeline import measure, stage_split, trajectories
from tests.rl.data.test_pipeline import row
from venus_rl.data.normalise import default_prompt, normalise_as_reference
from venus_rl.data.validate import find_problem

RESULT = [{"query": "q", "web_page_info_list": [{"title": "T", "url": "u", "snippet": "s"}]}]


@pytest.fixture
def traces() -> list[Any]:
    made = [row(number, 30) for number in range(2)]
    for message in made[0]["messages"][3::2]:
        message["content"] = f"<tool_response>\n{json.dumps(RESULT)}\n</tool_response>"
    return made


@pytest.mark.parametrize("kind", ["raw", "clean"])
def test_variants_are_seeded_and_usable(traces: list[Any], kind: str) -> None:
    made = list(trajectories(traces, 8, kind, seed=1))
    assert made == list(trajectories(traces, 8, kind, seed=1)) != list(trajectories(traces, 8, kind, seed=2))
    if kind == "raw":
        assert "## Web Results" in json.dumps(made)
    for raw in made:
        assert find_problem(normalise_as_reference(raw, "", "", default_prompt()).messages, reference=True) is None


def test_what_is_measured(traces: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in trajectories(traces, 6, "raw", seed=0)))
    made = measure(path, workers=1)
    assert (made["rows"], made["kept"]) == (6, 6)
    assert made["peak_rss_mb"] > 10
    assert set(stage_split(path, 6)) == {"read", "normalise", "prune", "dedup", "validate", "write"}
