"""Stage ``normalise``: rows of several shapes → conversations of the protocol.

=========================  ==========================================================================================
raw REDSearcher rows       ``{meta: {question, answer}, messages}``, see :mod:`venus_rl.data.redsearcher`
clean rows                 ``{question, messages, gt}``; ``gt`` is a string (alternatives joined by
                           ``<|answer_split|>``) or a list of strings
recorded rollouts          ``{messages, finished, …}`` as reference trainers dump them; the answers are not in there
``venus.trajectory/1``     what the environment, the evaluation and the oracle write
chat APIs                  ``{messages}`` with ``tool_calls`` and role ``tool``, optionally ``question`` and ``gt``
ShareGPT                   ``{conversations: [{from, value}]}``, optionally ``question`` and ``gt``
=========================  ==========================================================================================

The system prompt of a row is kept where it belongs to this protocol; raw rows, chat APIs and ShareGPT get the given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import ValidationError

from venus_env.protocol.prompt import system_prompt
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.rewards.outcome import ANSWER_SPLIT
from venus_env.tools.base import Tool
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool
from venus_rl.data.calls import RawMessage
from venus_rl.data.chat_formats import is_openai, openai_messages, sharegpt_messages
from venus_rl.data.conversation import ConversationRow, Kind, RowError
from venus_rl.data.redsearcher import raw_messages, repair_text
from venus_rl.data.sources import Unreadable, raw_rows

PromptSource = Literal["row", "template"]


@dataclass(slots=True)
class ReadReport:
    """What was read: number of rows, and dropped ones by reason."""

    rows: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


@cache
def default_prompt(current_date: str | None = None) -> str:
    """The environment's system prompt with its own two tools."""
    # Only names, descriptions and argument models are read: no corpus has to be opened for them.
    return system_prompt(cast(list[Tool], [SearchTool, VisitTool]), "full", current_date)


def read_conversations(
    files: Iterable[Path], report: ReadReport, prompt: str | None = None
) -> Iterator[ConversationRow]:
    """Yield the usable conversations of all files in order, counting into ``report``.

    Args:
        files: Data files, see :func:`venus_rl.data.sources.find_files`.
        report: Counts rows and drops.
        prompt: System prompt of rows that have none of this protocol; the environment's if None.

    Raises:
        ValueError: A file is damaged, or a row has none of the accepted shapes.
    """
    for path in files:
        for number, raw in raw_rows(path):
            if isinstance(raw, Unreadable):
                raise ValueError(raw.message)
            report.rows += 1
            row = normalise(raw, f"{path.name}:{number}", f"{path}, row {number}", prompt or default_prompt())
            problem = conversation_problem(row.messages)
            if problem is None:
                yield row
            else:
                report.dropped[problem] += 1


def conversation_problem(messages: Sequence[RawMessage]) -> str | None:
    """Why these messages cannot be rendered for training, or None: roles and types only."""
    if len(messages) < 3:
        return "too_short"
    if any(not isinstance(message.get("content"), str) for message in messages):
        return "non_text_content"
    expected = ["system", "user", *(["assistant", "user"] * len(messages))][: len(messages)]
    for index, (message, role) in enumerate(zip(messages, expected, strict=True)):
        if message.get("role") != role:
            return f"bad_role_at_{index}"
    return None if messages[-1]["role"] == "assistant" else "ends_on_user"


def normalise(raw: Any, source: str, place: str, prompt: str, prompt_from: PromptSource = "row") -> ConversationRow:
    """Bring a row of any accepted shape to the one shape.

    Args:
        raw: The row as read.
        source: ``file name:row``, for reports.
        place: Path and row, for errors.
        prompt: System prompt for rows that have none of this protocol.
        prompt_from: ``template`` gives every row that prompt.

    Raises:
        RowError: It has none of the accepted shapes, or cannot be brought to the one shape.
    """
    if not isinstance(raw, dict):
        raise RowError("unknown_shape", f"{place}: expected an object, found {type(raw).__name__}")
    if raw.get("schema") == "venus.trajectory/1":
        row = _trajectory(raw, source, place)
    elif isinstance(raw.get("meta"), dict):
        row = _redsearcher(raw, source, place, prompt)
    elif raw.get("conversations") is not None:
        messages = sharegpt_messages(raw["conversations"], prompt, place)
        row = _with_answers(raw, messages, source, place, "sharegpt")
    else:
        row = _messages_row(raw, source, place, prompt)
    fixed = [_repaired(message) for message in row.messages]
    if prompt_from == "template" or not fixed or fixed[0].get("role") != "system":
        fixed = [{"role": "system", "content": prompt}, *fixed[bool(fixed) and fixed[0].get("role") == "system" :]]
    return ConversationRow(row.question, row.answers, tuple(fixed), source, row.kind, row.dropped_turns)


def normalise_as_reference(
    raw: Any, source: str, place: str, prompt: str, prompt_from: PromptSource = "template"
) -> ConversationRow:
    """Bring a raw or clean row to one shape exactly as the reference does (method 2.2); arguments as above.

    The answer is kept as the one string that it is.

    Raises:
        RowError: The reference drops the row; ``reason`` is its name for that.
    """
    if not isinstance(raw, dict):
        raise RowError("unknown_shape", f"{place}: expected an object, found {type(raw).__name__}")
    meta, messages = raw.get("meta"), raw.get("messages")
    question, answer = (
        (meta.get("question"), meta.get("answer")) if isinstance(meta, dict) else (raw.get("question"), raw.get("gt"))
    )
    if not (isinstance(question, str) and isinstance(answer, str) and question and answer):
        raise RowError("missing_question_or_gt", f"{place}: question and answer must be non-empty strings")
    if prompt_from == "row":
        prompt = _row_prompt(raw) or prompt
    if isinstance(meta, dict):
        made, left_out = raw_messages(messages, prompt, reference=True)
        if made is None:
            raise RowError("raw_clean_failed", f"{place}: its messages cannot be brought to the protocol")
        return ConversationRow(question, (answer,), tuple(made), source, "redsearcher", left_out)
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise RowError("clean_input_invalid", f"{place}: 'messages' must be a list of messages")
    clean = [_repaired(message) for message in messages]
    if clean[0].get("role") != "system":
        clean.insert(0, {"role": "system", "content": prompt})
    elif prompt_from == "template":
        clean[0] = {**clean[0], "content": prompt}
    return ConversationRow(question, (answer,), tuple(clean), source)


def _row_prompt(raw: Mapping[str, Any]) -> str | None:
    """System prompt that a row brings along."""
    first = next(iter(raw.get("messages") or ()), None)
    from_messages = first.get("content") if isinstance(first, dict) and first.get("role") == "system" else None
    for prompt in (raw.get("system_prompt"), from_messages):
        if isinstance(prompt, str) and prompt.strip():
            return prompt
    return None


def _repaired(message: RawMessage) -> RawMessage:
    content = message.get("content")
    return {**message, "content": repair_text(content)} if isinstance(content, str) else message


def _trajectory(raw: Mapping[str, Any], source: str, place: str) -> ConversationRow:
    try:
        trajectory = Trajectory.model_validate(raw)
    except ValidationError as error:
        raise RowError("unknown_shape", f"{place}: not a valid venus.trajectory/1: {error}") from error
    answers = tuple(trajectory.task.get("answers", ()))
    question = trajectory.task.get("question", "")
    return ConversationRow(question, answers, tuple(trajectory.messages), source, "trajectory")


def _redsearcher(raw: Mapping[str, Any], source: str, place: str, prompt: str) -> ConversationRow:
    question, answers = raw["meta"].get("question"), _answers(raw["meta"].get("answer"), f"{place}: 'meta.answer'")
    if not isinstance(question, str) or not question or not answers:
        raise RowError("missing_question_or_gt", f"{place}: needs meta.question and meta.answer, both non-empty")
    messages, left_out = raw_messages(raw.get("messages"), prompt)
    if messages is None:
        raise RowError(
            "raw_clean_failed",
            f"{place}: its messages must be user and assistant texts in turn, the last with <think> and <answer>",
        )
    return ConversationRow(question, answers, tuple(messages), source, "redsearcher", left_out)


def _messages_row(raw: Mapping[str, Any], source: str, place: str, prompt: str) -> ConversationRow:
    messages = raw.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise RowError(
            "unknown_shape",
            f"{place}: no list of messages under 'messages' (keys: {', '.join(map(str, raw)) or 'none'}); accepted are "
            "rows {question, messages, gt}, raw rows {meta, messages}, recorded rollouts {messages, finished, …}, "
            "messages with tool_calls, {conversations} and venus.trajectory/1",
        )
    if is_openai(messages):
        return _with_answers(raw, openai_messages(messages, prompt, place), source, place, "openai")
    kept = [Message(role=m.get("role"), content=m.get("content")) for m in messages]  # type: ignore[typeddict-item]
    return _with_answers(raw, kept, source, place, "clean" if "question" in raw else "rollout")


def _with_answers(
    raw: Mapping[str, Any], messages: Sequence[Any], source: str, place: str, kind: Kind
) -> ConversationRow:
    question = raw.get("question")
    if question is None:
        question = next((m["content"] for m in messages if m["role"] == "user"), "")
    if not isinstance(question, str):
        raise RowError("missing_question_or_gt", f"{place}: 'question' must be a string, found {question!r}")
    return ConversationRow(question, _answers(raw.get("gt"), f"{place}: 'gt'"), tuple(messages), source, kind)


def _answers(gt: Any, what: str) -> tuple[str, ...]:
    if gt is None:
        return ()
    answers = gt.split(ANSWER_SPLIT) if isinstance(gt, str) else gt
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise RowError("missing_question_or_gt", f"{what} must be a string or a list of strings, found {gt!r}")
    return tuple(answer.strip() for answer in answers if answer.strip())
