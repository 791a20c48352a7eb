"""The protocol between a policy and its environment: pure functions and one state machine, no input or output."""

from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.episode import Episode, estimate_tokens
from venus_env.protocol.events import CallTool, Ended, Observed
from venus_env.protocol.format import check_turn_format
from venus_env.protocol.parser import Answer, Call, Malformed, call_key, is_repetitive, parse_turn, repair_turn
from venus_env.protocol.prompt import (
    neutralise,
    render_answer,
    render_call,
    restore,
    system_prompt,
    unwrap_tool_response,
    wrap_tool_response,
)
from venus_env.protocol.schema import resolve_call, tool_schema, tool_signature
from venus_env.protocol.trajectory import Trajectory, TurnRecord
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS, End, Forced, Message, ToolResult, Turn, Usage

__all__ = [
    "INFRASTRUCTURE_ENDS",
    "Answer",
    "Call",
    "CallTool",
    "End",
    "Ended",
    "Episode",
    "EpisodeConfig",
    "Forced",
    "Malformed",
    "Message",
    "Observed",
    "ToolResult",
    "Trajectory",
    "Turn",
    "TurnRecord",
    "Usage",
    "call_key",
    "check_turn_format",
    "estimate_tokens",
    "is_repetitive",
    "neutralise",
    "parse_turn",
    "render_answer",
    "render_call",
    "repair_turn",
    "resolve_call",
    "restore",
    "system_prompt",
    "tool_schema",
    "tool_signature",
    "unwrap_tool_response",
    "wrap_tool_response",
]
