from html.parser import HTMLParser
from typing import Any

import pytest

from tests.env.protocol.tools import Lookup, Read
from venus_env.envs.research import ResearchEnv
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.tasks.task import Task
from venus_env.viewer.page import page

TASK = Task(id="lund", question="Where is <Lund> & why?", answers=("Sweden",))
VOID = {"meta", "line", "!doctype"}


class Outline(HTMLParser):
    """Checks that tags are balanced, and collects the text of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.classes: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.classes += [value or "" for name, value in attrs if name == "class"]
        if tag not in VOID:
            self.open.append(tag)
            self.text.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text[self.open[-1]][-1] += data


@pytest.fixture
def env() -> Any:
    env = ResearchEnv(tasks=[TASK], tools=[Lookup(), Read()])
    env.reset(seed=0)
    return env


def test_a_whole_episode(env: ResearchEnv) -> None:
    env.step("<script>alert(1)</script>")
    search = render_call("Look <here>.", "search", {"query": ["Lund"]})
    env.step(search)
    env.step(search)
    env.step(render_call("Read.", "visit", {"url": ["https://x/lund"], "goal": "country"}))
    running = page(env.trajectory)
    env.step(render_answer("Done.", "Sweden"))
    html = page(env.trajectory)
    outline = Outline(html)
    assert "<script>" not in html
    assert outline.text["h1"] == [TASK.question]
    assert outline.text["b"] == ["1. malformed", "2. search", "3. search", "4. visit", "5. answer"]
    assert any("duplicate" in note for note in outline.text["span"])
    assert any("there is no <think></think> block" in note for note in outline.text["span"])
    assert "Look <here>." in outline.text["div"]
    assert any("Lund is a city in Sweden." in text for text in outline.text["pre"])
    assert {"format", "information_gain", "outcome"} <= set(outline.classes)
    assert "Sweden" in outline.text["dd"]  # the accepted answers
    assert Outline(running).text["dt"] == [name for name in outline.text["dt"] if name != "Accepted"]


def test_an_episode_that_has_only_begun(env: ResearchEnv) -> None:
    html = page(env.trajectory)
    Outline(html)
    assert "<svg" not in html


def test_texts_read_as_they_were_written() -> None:
    class Tagged(Lookup):
        async def __call__(self, arguments: Any) -> Any:
            from venus_env.protocol.turns import ToolResult

            return ToolResult("a <think> tag\n" + "long " * 1_000)

    env = ResearchEnv(tasks=[TASK], tools=[Tagged()])
    env.reset(seed=0)
    env.step(render_call("t", "search", {"query": ["Lund"]}))
    html = page(env.trajectory)
    assert "a &lt;think&gt; tag" in html
    assert html.count("<details open>") == 0  # long replies start folded
