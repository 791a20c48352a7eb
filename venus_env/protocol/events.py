"""What follows from a turn: the return values of :class:`venus_env.protocol.episode.Episode`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

from venus_env.protocol.turns import End, Message, Turn

if TYPE_CHECKING:  # tools are built on this package, not the other way round
    from venus_env.tools.base import Tool


@dataclass(frozen=True, slots=True)
class CallTool:
    """Run ``tool`` on ``arguments``, then report with ``Episode.observe`` or ``Episode.fail``."""

    tool: Tool
    arguments: BaseModel
    turn: Turn


@dataclass(frozen=True, slots=True)
class Observed:
    """The environment has replied with ``message``; it is the policy's turn."""

    message: Message


@dataclass(frozen=True, slots=True)
class Ended:
    """The episode is over."""

    end: End
