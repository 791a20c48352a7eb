"""Tools that a policy may call: ``search`` and ``visit``, typed, async, over any corpus."""

from venus_env.tools.base import Tool, ToolError
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool

__all__ = ["SearchTool", "Tool", "ToolError", "VisitTool"]
