"""What the benchmarks play: pages of real text, a tool that serves them in a known time, and turns that call it."""

from __future__ import annotations

import asyncio
import functools
from typing import Any, ClassVar

from pydantic import BaseModel

from corpora import EMBEDDED
from venus_env.corpus.rows import read_passages
from venus_env.protocol.prompt import render_call
from venus_env.protocol.turns import ToolResult

PAGE_CHARACTERS = 4_000
"""Length of a page: about 1,000 tokens."""

UNLIMITED = 10**9


class PageArguments(BaseModel):
    """Which page, and how long reading it takes."""

    page: int
    seconds: float = 0.0


class PageTool:
    """Serves pages cut from the embedded corpus, at once or after a given time; 249 of them differ entirely."""

    name: ClassVar[str] = "visit"
    aliases: ClassVar[tuple[str, ...]] = ()
    description: ClassVar[str] = "Read a page."
    arguments: type[BaseModel] = PageArguments

    async def __call__(self, arguments: Any) -> ToolResult:
        if arguments.seconds:
            await asyncio.sleep(arguments.seconds)
        return ToolResult(page_text(arguments.page))


def page_text(page: int) -> str:
    """A fresh copy of a page, as a real tool would make one."""
    text = _corpus_text()
    start = page * PAGE_CHARACTERS % (len(text) - PAGE_CHARACTERS)
    return text[start : start + PAGE_CHARACTERS]


def page_turn(page: int, seconds: float = 0.0) -> str:
    """The turn that asks for a page."""
    return render_call("This page may say more; I read it.", "visit", {"page": page, "seconds": seconds})


def page_environment(belief: str | None, turns: int) -> dict[str, Any]:
    """Arguments of an environment whose episodes last ``turns`` pages and longer."""
    return {
        "tools": [PageTool()],
        "belief": belief,
        "max_turns": turns + 2,
        "max_context_tokens": UNLIMITED,
    }


@functools.cache
def _corpus_text() -> str:
    return "\n".join(passage.text for passage in read_passages(EMBEDDED / "passages.jsonl.gz"))
