"""Raw REDSearcher rows (``meta``, ``messages``) → the protocol's messages (method 2.2, stage 1)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from venus_env.protocol.prompt import neutralise, wrap_tool_response
from venus_rl.data.calls import ANSWER, CALL, THINK, read_call
from venus_rl.data.search_results import parse_search_results

_SUMMARY = re.compile(r"<summary>(.*?)</summary>", re.DOTALL | re.IGNORECASE)
_STRAY = re.compile(r"</?(?:answer|summary)>")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def raw_messages(
    messages: Any, prompt: str, *, reference: bool = False
) -> tuple[list[dict[str, str]] | None, Counter[str]]:
    """Bring the messages of a raw row to the layout of the protocol.

    The first message is the question and the last one the final answer. A turn in between whose call cannot be read is
    left out with its reply.

    Args:
        messages: As found.
        prompt: The system message.
        reference: Do as the reference does: a leading system message becomes the question, tool output is not
            neutralised, and printed search results are parsed with its defects.

    Returns:
        The messages, or None if the row cannot be used; and how many turns were left out, by reason.
    """
    left_out: Counter[str] = Counter()
    if not isinstance(messages, list) or not messages:
        return None, left_out
    if not reference and isinstance(messages[0], dict) and messages[0].get("role") == "system":
        messages = messages[1:]
    if not all(isinstance(m, dict) and isinstance(m.get("content"), str) for m in messages):
        return None, left_out
    made = [{"role": "system", "content": prompt}]
    for index, message in enumerate(messages):
        role, content = message.get("role"), message["content"]
        if index == 0:
            made.append({"role": "user", "content": content})
        elif index == len(messages) - 1:
            answer = clean_answer_turn(content)
            if answer is None:
                return None, left_out
            made.append({"role": "assistant", "content": answer})
        elif role == "user":
            if made[-1]["role"] == "assistant":
                made.append({"role": "user", "content": _tool_response(content, reference)})
        elif role == "assistant":
            call = clean_call_turn(content)
            if call is None:
                left_out["unreadable_call"] += 1
            else:
                made.append({"role": "assistant", "content": call})
        else:
            return None, left_out
    return [{"role": m["role"], "content": repair_text(m["content"])} for m in made], left_out


def clean_call_turn(text: str) -> str | None:
    """A turn that calls a tool, in canonical form; None without a thought or a call that can be read."""
    thought, call = THINK.search(text), CALL.search(text)
    if thought is None or call is None:
        return None
    thinking, body = _STRAY.sub("", thought[1].strip()), call[1].strip()
    value = read_call(body)
    if not thinking or not isinstance(value, dict):
        return None
    written = _canonical_call(value, body)
    return None if written is None else f"<think>\n{thinking}\n</think>\n<tool_call>\n{written}\n</tool_call>"


def clean_answer_turn(text: str) -> str | None:
    """The final turn in canonical form: its last answer, and summaries as a part of the thought."""
    answers, thought = ANSWER.findall(text), THINK.search(text)
    if not answers or thought is None:
        return None
    thinking = _SUMMARY.sub(r"\1", thought[1].strip())
    thinking = _STRAY.sub("", ANSWER.sub(r"\1", thinking))
    summaries = [summary.strip() for summary in _SUMMARY.findall(text.rsplit("</think>", 1)[-1])]
    thinking = "\n\n".join([thinking, *summaries] if thinking else summaries)
    return f"<think>\n{thinking}\n</think>\n<answer>\n{answers[-1].strip()}\n</answer>"


def repair_text(text: str) -> str:
    """Join surrogate pairs to their character; where one is left alone, all of them go."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return text.encode("utf-8", "ignore").decode("utf-8")


def _tool_response(content: str, reference: bool) -> str:
    text = content.replace("<tool_response>", "").replace("</tool_response>", "").strip()
    if "Web Results" in text:
        text = parse_search_results(text, reference=reference)
    return wrap_tool_response(text if reference else neutralise(text))


def _canonical_call(call: Mapping[str, Any], body: str) -> str | None:
    """The call with its arguments as the tools declare them; None if they cannot be told."""
    name, arguments = call.get("name"), call.get("arguments")
    if not name or not isinstance(arguments, dict):
        return None
    if name == "PythonInterpreter":
        return None if arguments else body  # its code follows the JSON, in <code>
    if name == "search":
        queries = _as_list(arguments.get("query", arguments.get("queries")))
        if queries is None:
            return None
        arguments = {"query": queries}
    elif name == "visit":
        goal, urls = arguments.get("goal"), _as_list(arguments.get("url", arguments.get("urls")))
        if isinstance(goal, list):
            goal = goal[0] if goal else ""
        elif not isinstance(goal, str):
            return None
        if urls is None:
            return None
        arguments = {"url": urls, "goal": goal}
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def _as_list(value: Any) -> Sequence[Any] | None:
    return [value] if isinstance(value, str) else value if isinstance(value, list) else None
