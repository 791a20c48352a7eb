"""A tool is a name, a description, a pydantic model of its arguments and one async call."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from pydantic import BaseModel

from venus_env.protocol.turns import ToolResult


class ToolError(Exception):
    """The tool's infrastructure failed (server down, index unreadable): the episode ends as ``tool_failure``.

    A tool that works but finds nothing returns ``ToolResult(ok=False)`` instead.
    """


class Tool(Protocol):
    """What an environment needs from a tool.

    Attributes:
        name: Name in the prompt and in calls.
        aliases: Other names that calls may use.
        description: One sentence for the prompt.
        arguments: Pydantic model of the arguments; its JSON schema is what the prompt shows.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]]
    description: ClassVar[str]
    arguments: type[BaseModel]

    async def __call__(self, arguments: Any) -> ToolResult:
        """Run the tool on validated arguments (an instance of ``self.arguments``).

        Raises:
            ToolError: The infrastructure behind the tool failed.
        """
        ...
