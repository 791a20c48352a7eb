"""The documentation runs: every example, and every code block marked as runnable (a fence of ```python runnable)."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```python runnable\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(name: str) -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs/examples" / name))


def test_every_example_has_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    names = [path.name for path in (ROOT / "docs/examples").glob("*.py")]
    assert names
    assert [name for name in names if f'run("{name}")' not in source] == []


def test_own_rl_loop_learns_to_search_then_read_then_answer() -> None:
    example = run("own_rl_loop.py")
    returns = example["returns"]
    assert sum(returns[-50:]) / 50 > sum(returns[:50]) / 50 + 0.5
    favourites = [example["MOVES"][index] for index in example["logits"].argmax(1).tolist()]
    assert favourites == ["search", "visit", "answer"]


def test_own_tool() -> None:
    example = run("own_tool.py")
    assert '"name": "calculator"' in example["system_prompt"]
    search, by_zero, difference, _ = example["replies"]
    assert "244329" in search
    assert "92782" in search
    assert "Cannot divide by zero." in by_zero
    assert "151547" in difference
    assert example["info"]["score"] == 1.0


def test_own_reward() -> None:
    results = run("own_reward.py")["results"]
    assert [score for _, score in results.values()] == pytest.approx([1.0, 0.8228, 0.0], abs=1e-3)
    assert results["244329"][0] == pytest.approx([-0.05, 0.95])


def test_own_corpus() -> None:
    example = run("own_corpus.py")
    assert len(example["replies"]) == 2
    for env, reply in zip((example["indexed"], example["handmade"]), example["replies"], strict=True):
        assert "third floor" in reply
        assert "https://wiki.acme.example/printer" in env.unwrapped.messages[3]["content"]


def test_own_belief() -> None:
    example = run("own_belief.py")
    assert example["gains"][0] == 0.0
    assert all(gain > 0 for gain in example["gains"][1:])
    assert example["info"]["score"] == 1.0


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name)
def test_code_blocks_run_one_after_the_other(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        above = "\n" * text.count("\n", 0, block.start(1))  # so that a traceback names the line of the page
        exec(compile(above + block[1], str(page), "exec"), namespace)
    if page.name == "README.md":  # its question, search and answer fit together
        assert namespace["info"]["score"] == 1.0
    if page.name == "plugging-in.md":
        assert len(namespace["scores"]) == 10
