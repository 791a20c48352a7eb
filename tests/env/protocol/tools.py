"""Small real tools for the tests of the protocol and of the session."""

import asyncio
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, Field

from venus_env.protocol.turns import ToolResult
from venus_env.tools.base import ToolError

PAGES = {"https://x/lund": "Lund is a city in Sweden.", "https://x/malmo": "Malmö faces Copenhagen."}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class LookupArguments(BaseModel):
    query: Annotated[list[str], Field(min_length=1), BeforeValidator(_as_list)]


class ReadArguments(BaseModel):
    url: list[str]
    goal: str = Field(min_length=1)


class Lookup:
    """Finds urls of pages that contain a word; counts how often it ran."""

    name: ClassVar[str] = "search"
    aliases: ClassVar[tuple[str, ...]] = ("google",)
    description: ClassVar[str] = "Find pages."
    arguments: type[BaseModel] = LookupArguments

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, arguments: Any) -> ToolResult:
        self.runs += 1
        urls = [url for query in arguments.query for url, text in PAGES.items() if query.lower() in text.lower()]
        return ToolResult("\n".join(urls) or "No results.", ok=bool(urls), urls=tuple(urls))


class Read:
    """Returns the text of pages; `boom` has no infrastructure, `slow` takes for ever, `odd` breaks the contract."""

    name: ClassVar[str] = "visit"
    aliases: ClassVar[tuple[str, ...]] = ("browse",)
    description: ClassVar[str] = "Read pages."
    arguments: type[BaseModel] = ReadArguments

    async def __call__(self, arguments: Any) -> ToolResult:
        if "boom" in arguments.url:
            raise ToolError("the server is down")
        if "slow" in arguments.url:
            await asyncio.sleep(3600)
        if "odd" in arguments.url:
            return "text"  # type: ignore[return-value]
        found = [PAGES[url] for url in arguments.url if url in PAGES]
        return ToolResult("\n".join(found) or "No such page.", ok=bool(found), urls=tuple(arguments.url))
