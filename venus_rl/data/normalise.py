"""Conversations from files of several shapes, as rows of one shape.

=========================  ==========================================================================================
expert rows                ``{question, messages, gt}``; ``gt`` is a string (alternatives joined by
                           ``<|answer_split|>``) or a list of strings
recorded rollouts          ``{messages, finished, …}`` as reference trainers dump them; the answers are not in there
``venus.trajectory/1``     what the environment, the evaluation and the oracle write
=========================  ==========================================================================================

They come as ``.json`` (one row or a list), ``.jsonl``, ``.jsonl.gz`` or ``.parquet``. A row that cannot be a training
conversation is dropped and counted by reason; a file that cannot be read is an error that names the place.
"""

from __future__ import annotations

import glob
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message

SUFFIXES = (".json", ".jsonl", ".jsonl.gz", ".parquet")
_ANSWER_SPLIT = "<|answer_split|>"


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One conversation to learn from.

    Attributes:
        question: What was asked.
        answers: Accepted answers; empty where the source does not tell.
        messages: System, user, then assistant and user in turn, ending with the assistant.
        source: ``file name:row``, for reports.
    """

    question: str
    answers: tuple[str, ...]
    messages: tuple[Message, ...]
    source: str


@dataclass(slots=True)
class ReadReport:
    """What was read: number of rows, and dropped ones by reason."""

    rows: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


def find_files(sources: Iterable[str | Path]) -> list[Path]:
    """Expand files, folders (searched in depth) and glob patterns to a sorted list of data files.

    Raises:
        FileNotFoundError: A source matches no data file.
    """
    found: dict[Path, None] = {}
    for source in sources:
        path = Path(source)
        if path.is_dir():
            matches = [p for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES)]
        elif path.is_file():
            matches = [path]
        else:
            matches = [Path(p) for p in glob.glob(str(source), recursive=True) if p.endswith(SUFFIXES)]
        if not matches:
            raise FileNotFoundError(
                f"{source}: no such file, folder or pattern with data files ({', '.join(SUFFIXES)})"
            )
        found |= dict.fromkeys(sorted(matches))
    return list(found)


def read_conversations(files: Iterable[Path], report: ReadReport) -> Iterator[ConversationRow]:
    """Yield the usable conversations of all files in order, counting into ``report``.

    Raises:
        ValueError: A file is damaged, or a row has none of the accepted shapes.
    """
    for path in files:
        for number, raw in _raw_rows(path):
            report.rows += 1
            row = _normalise(raw, f"{path.name}:{number}", f"{path}, row {number}")
            problem = conversation_problem(row.messages)
            if problem is None:
                yield row
            else:
                report.dropped[problem] += 1


def conversation_problem(messages: Sequence[Message]) -> str | None:
    """Why these messages cannot be a training conversation, or None."""
    if len(messages) < 3:
        return "too_short"
    if any(not isinstance(message.get("content"), str) for message in messages):
        return "non_text_content"
    expected = ["system", "user", *(["assistant", "user"] * len(messages))][: len(messages)]
    for index, (message, role) in enumerate(zip(messages, expected, strict=True)):
        if message.get("role") != role:
            return f"bad_role_at_{index}"
    return None if messages[-1]["role"] == "assistant" else "ends_on_user"


def _raw_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Rows of one file, numbered from 1 (in JSON lines: by line)."""
    if path.name.endswith(".parquet"):
        import pyarrow.parquet

        number = 0
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=64):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    elif path.name.endswith(".json"):
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: not valid JSON: {error}") from error
        yield from enumerate(value if isinstance(value, list) else [value], start=1)
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        opener = gzip.open if path.name.endswith(".gz") else open
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    try:
                        yield number, json.loads(line)
                    except ValueError as error:
                        raise ValueError(f"{path}, line {number}: not valid JSON: {error}") from error
    else:
        raise ValueError(f"{path}: cannot read this kind of file; accepted are {', '.join(SUFFIXES)}")


def _normalise(raw: Any, source: str, place: str) -> ConversationRow:
    if not isinstance(raw, dict):
        raise ValueError(f"{place}: expected an object, found {type(raw).__name__}")
    if raw.get("schema") == "venus.trajectory/1":
        try:
            trajectory = Trajectory.model_validate(raw)
        except ValidationError as error:
            raise ValueError(f"{place}: not a valid venus.trajectory/1: {error}") from error
        answers = tuple(trajectory.task.get("answers", ()))
        return ConversationRow(trajectory.task.get("question", ""), answers, tuple(trajectory.messages), source)
    messages = raw.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ValueError(
            f"{place}: no list of messages under 'messages' (keys: {', '.join(map(str, raw)) or 'none'}); accepted are "
            "rows {question, messages, gt}, recorded rollouts {messages, finished, …} and venus.trajectory/1"
        )
    kept = tuple(Message(role=m.get("role"), content=m.get("content")) for m in messages)  # type: ignore[typeddict-item]
    question = raw.get("question")
    if question is None:
        question = next((m["content"] for m in kept if m["role"] == "user"), "")
    return ConversationRow(question, _answers(raw.get("gt"), place), kept, source)


def _answers(gt: Any, place: str) -> tuple[str, ...]:
    if gt is None:
        return ()
    answers = gt.split(_ANSWER_SPLIT) if isinstance(gt, str) else gt
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise ValueError(f"{place}: 'gt' must be a string or a list of strings, found {gt!r}")
    return tuple(answer.strip() for answer in answers if answer.strip())
