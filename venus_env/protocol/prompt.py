r"""Every text that the environment writes, and the canonical form of what a policy writes.

Tool output travels in user messages wrapped in ``<tool_response>``. Everything that the environment says after the
question is wrapped in the same way, requests for a final answer included: chat templates of the Qwen3 family drop all
earlier thinking as soon as they meet a user message that is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from venus_env.protocol.schema import Toolbox, as_toolbox, tool_schema, tool_signature
from venus_env.protocol.turns import Forced

if TYPE_CHECKING:  # tools are built on this package, not the other way round
    from venus_env.tools.base import Tool

PromptStyle = Literal["full", "compact"]

_ROLE = """\
You are a deep research assistant. You answer questions, everyday ones and academic ones alike, by gathering evidence \
before you commit to an answer. Search broadly, open the pages that look promising, and check what matters against \
more than one credible and independent source. Reason in <think></think> at the start of every turn. As long as \
evidence is missing, follow your reasoning with exactly one tool call; once you have enough, follow it with your \
complete final answer, all of it inside <answer></answer>."""

_TOOLS = """\
# Tools

You may call one function per turn. The functions are described here, one JSON object a line, inside <tools></tools>:
<tools>
{tools}
</tools>

To call one, write a JSON object with its name and its arguments inside <tool_call></tool_call>:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""

_COMPACT = """\
You answer questions by research.
Tools: {tools}
Think in <think></think>, then write one <tool_call></tool_call> or the <answer></answer>."""

_FORCED_REASON: dict[Forced, str] = {
    "turn_limit": "You have used all your tool calls.",
    "context_limit": "The conversation has reached its maximum length.",
    "time_limit": "The time for this question is over.",
    "cutoff": "The time for this question is over.",
}
_FORCED_REQUEST = (
    "Do not call any more tools. From what you have found so far, give your final answer now, inside <answer></answer>."
)

# WORD JOINER: invisible, kept by Unicode normalisation, and rare enough in web pages.
_GUARD = "\u2060"
_FORGEABLE = re.compile(
    rf"<({_GUARD}*)(?=\|[^<>\s]*\|>|｜[^<>\s]*｜>"  # <|im_start|> and the like
    r"|/?(?:think|tool_call|tool_response|tools|answer|code)>"  # this protocol's tags
    r"|/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn)>)",  # sentence and turn marks of other models
    re.IGNORECASE,
)


def system_prompt(tools: Toolbox | Iterable[Tool], style: PromptStyle = "full", current_date: str | None = None) -> str:
    """Build the system message: what to do, which tools there are, how to call them and, if given, today's date.

    Args:
        tools: The tools to describe, in order.
        style: ``full`` for language models that know the calling convention; ``compact`` for tiny ones.
        current_date: Last line of the prompt, as text; no line when None.
    """
    box = as_toolbox(tools)
    if style == "full":
        lines = "\n".join(json.dumps(tool_schema(tool), ensure_ascii=False) for tool in box.values())
        text = f"{_ROLE}\n\n{_TOOLS.format(tools=lines)}"
        return text if current_date is None else f"{text}\n\nCurrent date: {current_date}"
    text = _COMPACT.format(tools=", ".join(tool_signature(tool) for tool in box.values()))
    return text if current_date is None else f"{text}\nCurrent date: {current_date}"


def wrap_tool_response(text: str) -> str:
    """Wrap the environment's part of a turn; ``text`` must have gone through :func:`neutralise` if a tool wrote it."""
    return f"<tool_response>\n{text}\n</tool_response>"


def unwrap_tool_response(content: str) -> str:
    """Undo :func:`wrap_tool_response`; text that is not wrapped is returned as it is."""
    if content.startswith("<tool_response>\n") and content.endswith("\n</tool_response>"):
        return content[len("<tool_response>\n") : -len("\n</tool_response>")]
    return content


def neutralise(text: str) -> str:
    """Make sure that no text from outside can forge a turn.

    An invisible character goes between ``<`` and the rest of every special token and protocol tag, so the text reads
    the same to a human but neither tokenises as a special token nor parses as a tag. :func:`restore` takes it out
    again; text that already contains the invisible character there gets one more, so nothing is lost.
    """
    return _FORGEABLE.sub(lambda match: f"<{match[1]}{_GUARD}", text)


def restore(text: str) -> str:
    """Undo :func:`neutralise` exactly."""
    return _FORGEABLE.sub(lambda match: f"<{match[1][1:]}", text)


def forced_answer_request(limit: Forced) -> str:
    """Text that asks for the final answer because ``limit`` has been reached."""
    return f"{_FORCED_REASON[limit]} {_FORCED_REQUEST}"


def malformed_reply(reason: str) -> str:
    """Text that tells the policy why its turn was not acted on and what a turn looks like."""
    return (
        f"Error: {reason}. Write your reasoning in <think></think>, then either one "
        '<tool_call>{"name": ..., "arguments": {...}}</tool_call> or your final answer in <answer></answer>.'
    )


def bad_call_reply(problem: str) -> str:
    """Text that tells the policy why its tool call did not run."""
    return f"Error: {problem}. Nothing was run; correct the call and try again."


def render_call(thought: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Write a tool-calling turn in canonical form; tags inside the arguments are escaped, as JSON allows."""
    call = json.dumps({"name": name, "arguments": dict(arguments)}, ensure_ascii=False)
    call = _FORGEABLE.sub(lambda match: rf"\u003c{match[1]}", call)
    return f"<think>{thought}</think>\n<tool_call>{call}</tool_call>"


def render_answer(thought: str, text: str) -> str:
    """Write an answering turn in canonical form."""
    return f"<think>{thought}</think>\n<answer>{text}</answer>"
