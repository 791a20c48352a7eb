"""From the text of one turn to what it asks for.

A turn is ``<think>…</think>`` followed by one ``<tool_call>…</tool_call>`` or one ``<answer>…</answer>``. Reading is
lenient about layout and strict about content: the first pair of each tag counts wherever it stands, while a call that
cannot be read never runs with guessed arguments. How tidy a turn is, is judged apart from this, in
:mod:`venus_env.protocol.format`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ACTION_OPENS = re.compile(r"<answer>|<tool_call>")
_SURROGATE = re.compile(r"[\ud800-\udfff]")

# Deeper than any call means; well below what JSON writers and readers refuse.
_MAX_DEPTH = 100

# The JSON5 reader is pure Python; beyond this a body is refused unless it is plain JSON. Real calls are far shorter.
_JSON5_MAX_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Call:
    """The turn calls a tool; whether that tool exists and takes these arguments is decided later."""

    thinking: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """The turn gives the final answer (``text`` as written, possibly empty)."""

    thinking: str
    text: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """The turn cannot be acted on; ``reason`` tells the policy what to change."""

    reason: str


def clean_text(text: str) -> str:
    """Make any ``str`` encodable: surrogate pairs become their character, lone surrogates U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def repair_turn(text: str, think_opened: bool = False) -> str:
    r"""Return ``text`` as the parser should read it, with the slips mended that models make most.

    Four things happen, in this order:

    1. ``think_opened``: the chat template has already written ``<think>``, so it is put back in front.
    2. Whatever follows the first ``<tool_response>`` is dropped: the model was writing the environment's part.
    3. A thought that is never closed is closed in front of the first action that follows, or at the end without one.
       (Closing it always at the end would make the action a part of the thought.)
    4. A thought that is closed but never opened is opened at the start.

    Args:
        text: The turn as generated.
        think_opened: Whether the generation prompt ended with an opened ``<think>``.
    """
    if think_opened and not text.lstrip().startswith("<think>"):
        text = "<think>\n" + text
    text = text.split("<tool_response>", 1)[0]
    opened, closed = "<think>" in text, "</think>" in text
    if opened and not closed:
        action = _ACTION_OPENS.search(text, text.index("<think>"))
        if action is None:
            return text + "\n</think>"
        return f"{text[: action.start()]}\n</think>\n{text[action.start() :]}"
    if closed and not opened:
        return "<think>\n" + text
    return text


def parse_turn(text: str) -> Call | Answer | Malformed:
    """Read one turn; mend it first with :func:`repair_turn` if it comes straight from a model.

    Tags are case-sensitive, and the first pair of each kind counts wherever it stands, inside the thought too: two
    tool calls are read as the first of them, and a turn that contains both a call and an answer is refused.
    """
    thought = _first_block(text, "think")
    if thought is None:
        return Malformed("there is no <think></think> block")
    answer = _first_block(text, "answer")
    call = _first_block(text, "tool_call")
    if answer is not None and call is not None:
        return Malformed("it contains both a <tool_call> and an <answer>")
    if answer is not None:
        return Answer(thought, answer)
    if call is not None:
        parsed = parse_call_body(call)
        return Malformed(parsed) if isinstance(parsed, str) else Call(thought, *parsed)
    return Malformed("there is no complete <tool_call></tool_call> or <answer></answer> block")


def parse_call_body(body: str) -> tuple[str, dict[str, Any]] | str:
    """Read the inside of a ``<tool_call>``: the tool's name and its arguments, or a sentence on what is wrong.

    JSON is tried first, then JSON5 (single quotes, bare keys, trailing commas). Code for a tool named
    ``PythonInterpreter`` may follow the JSON in ``<code></code>``, the one published exception to the rule.
    """
    code = _first_block(body, "code")
    if code is not None and "pythoninterpreter" in body.lower():
        return "PythonInterpreter", {"code": code}
    try:
        value = clean_value(_loads(body))
    except ValueError as error:
        return f"the tool call is not valid JSON ({error})"
    except RecursionError:
        return "the tool call is nested too deeply"
    if not isinstance(value, dict):
        return f"the tool call must be a JSON object, not {_json_kind(value)}"
    missing = [key for key in ("name", "arguments") if key not in value]
    if missing:
        return f"the tool call has no {' and no '.join(map(repr, missing))}"
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or not name.strip():
        return f"the tool call's 'name' must be a non-empty string, not {_json_kind(name)}"
    if not isinstance(arguments, dict):
        return f"the tool call's 'arguments' must be a JSON object, not {_json_kind(arguments)}"
    return name.strip(), arguments


def is_repetitive(text: str, tail: int = 50, threshold: int = 5) -> bool:
    """Whether generation has run into a loop: the last ``tail`` characters occur more than ``threshold`` times."""
    return len(text) >= tail and text.count(text[-tail:]) > threshold


def call_key(name: str, arguments: Mapping[str, Any]) -> str:
    """Key under which a call counts as a repetition: equal names and arguments, whatever the order of the keys."""
    return json.dumps({"name": name, "arguments": dict(arguments)}, sort_keys=True, ensure_ascii=False)


def _first_block(text: str, tag: str) -> str | None:
    """Text between the first opening tag and the next closing one; linear in time, however many tags there are."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    start = text.find(opening)
    end = text.find(closing, start + len(opening)) if start >= 0 else -1
    return text[start + len(opening) : end] if end >= 0 else None


def _loads(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        if len(body) > _JSON5_MAX_CHARS:
            raise
        import json5  # rarely needed, and slow to import

        try:
            return json5.loads(body)
        except ValueError:
            # The strict reader's message carries a line and a column and names what it expected.
            raise error from None


def clean_value(value: Any, depth: int = 0) -> Any:
    """Make a value that JSON or JSON5 spelt one that JSON can write: lone surrogates become U+FFFD.

    Raises:
        RecursionError: It is nested too deeply.
        ValueError: It holds a number that is not finite, which JSON has no way to write.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number in JSON")
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(value, list):
        return [clean_value(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean_text(str(key)): clean_value(item, depth + 1) for key, item in value.items()}
    return value


def _json_kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
