"""Reads task files: ``venus.task/1``, HotpotQA-style rows with supporting titles, and verl's rows."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from corpora import SHIPPED
from venus_env.protocol.parser import clean_value
from venus_env.tasks.task import Evidence, Task

ANSWER_SPLIT = "<|answer_split|>"
"""Separates accepted answers inside verl's ``reward_model.ground_truth``."""

_COLUMNS = frozenset(
    [
        "schema",
        "id",
        "question",
        "answers",
        "answer",
        "evidence",
        "supporting_titles",
        "hops",
        "kind",
        "difficulty",
        "type",
        "split",
        "source",
    ],
)
_ACCEPTED = (
    "accepted are venus.task/1 (question, answers; optional id, evidence, hops, kind, difficulty, split, source), rows "
    "with question, answer and optional supporting_titles and type, and verl rows (prompt, reward_model.ground_truth)"
)


class TaskFileError(ValueError):
    """A task file that cannot be used; the message names file, row and column, and what would be accepted."""


def load_tasks(spec: str | Path, split: str | None = None) -> list[Task]:
    """Load the tasks of a file.

    Args:
        spec: ``"embedded"`` or ``"full"`` for the tasks of that corpus, or a ``.jsonl``, ``.jsonl.gz`` or ``.parquet``
            file.
        split: Keep only tasks of this split.

    Returns:
        At least one task, in file order, with unique ids (made from file name and row where the file has none).

    Raises:
        TaskFileError: The file is missing, has another format, a wrong row, or nothing of the wanted split.
    """
    tasks: list[Task] = []
    first_row: dict[str, int] = {}
    paths = _shipped_tasks(spec) if isinstance(spec, str) and spec in SHIPPED else [Path(spec)]
    for path in paths:
        for row, record in _records(path):
            task = _task(record, path, row)
            if task.id in first_row:
                raise TaskFileError(
                    f"{path}, row {row}: column 'id': {task.id!r} is already the id of row {first_row[task.id]}"
                )
            first_row[task.id] = row
            tasks.append(task)
    if not tasks:
        raise TaskFileError(f"{path} holds no tasks; {_ACCEPTED}")
    if split is None:
        return tasks
    kept = [task for task in tasks if task.split == split]
    if not kept:
        found = Counter(task.split or "(none)" for task in tasks)
        raise TaskFileError(f"{path} holds no task of split {split!r}; its splits are {dict(found)}")
    return kept


def _shipped_tasks(name: str) -> list[Path]:
    """The task files of a shipped corpus, the one under a share-alike licence last."""
    first, sharealike = SHIPPED[name] / "tasks.jsonl.gz", SHIPPED[name] / "tasks-sharealike.jsonl.gz"
    return [first, sharealike] if sharealike.is_file() else [first]


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    """Rows of a file with their numbers, from 1 (for JSON lines: the line number)."""
    if not path.is_file():
        raise TaskFileError(f"no task file at {path}; give 'embedded', 'full' or a .jsonl, .jsonl.gz or .parquet file")
    if path.suffix == ".parquet":
        yield from enumerate(_parquet(path), start=1)
        return
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise TaskFileError(f"cannot tell the format of {path}; its name must end in .jsonl, .jsonl.gz or .parquet")
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, _json_row(line, path, number)
    except (OSError, EOFError, zlib.error) as error:
        raise TaskFileError(f"cannot read {path}: {error}") from error


def _json_row(line: bytes, path: Path, number: int) -> Any:
    try:
        return clean_value(json.loads(line.decode("utf-8-sig")))
    except ValueError as error:
        raise TaskFileError(f"{path}, row {number}: not a line of JSON in UTF-8: {error}") from error
    except RecursionError:
        raise TaskFileError(f"{path}, row {number}: nested too deeply") from None


def _parquet(path: Path) -> list[dict[str, Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise TaskFileError(f"reading {path} needs pyarrow: pip install pyarrow") from error
    try:
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    except pyarrow.ArrowException as error:
        raise TaskFileError(f"cannot read {path}: {error}") from error
    return rows


def _task(record: Any, path: Path, row: int) -> Task:
    where = f"{path}, row {row}"
    if not isinstance(record, Mapping):
        raise TaskFileError(
            f"{where}: a row must be an object with named columns, not {type(record).__name__}; {_ACCEPTED}"
        )
    fallback_id = f"{path.name.split('.')[0]}-{row}"
    if "prompt" in record and "question" not in record:
        fields = _verl_fields(record, where)
    else:
        fields = _plain_fields(record, where)
    try:
        return Task.model_validate({**fields, "id": fields.get("id") or fallback_id})
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(str(part) for part in first["loc"])
        raise TaskFileError(f"{where}: column {column!r}: {first['msg']}; {_ACCEPTED}") from error


def _plain_fields(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Columns of a venus.task/1 or HotpotQA-style row as fields of a task."""
    unknown = sorted(set(record) - _COLUMNS)
    if unknown:
        raise TaskFileError(f"{where}: unknown column {unknown[0]!r}; {_ACCEPTED}")
    if "question" not in record:
        raise TaskFileError(f"{where}: column 'question' is missing; {_ACCEPTED}")
    if record.get("schema", "venus.task/1") != "venus.task/1":
        raise TaskFileError(f"{where}: column 'schema' is {record['schema']!r}; this reader knows venus.task/1")
    names = [name for name in ("answers", "answer") if name in record]
    if len(names) != 1:
        raise TaskFileError(f"{where}: give exactly one of the columns 'answers' and 'answer'; {_ACCEPTED}")
    if not isinstance(record["question"], str) or not record["question"].strip():
        raise TaskFileError(f"{where}: column 'question' must be text that is not blank; {_ACCEPTED}")
    fields: dict[str, Any] = {"question": record["question"], "answers": _texts(record[names[0]], where, names[0])}
    for column in ("id", "hops", "kind", "type", "difficulty", "split", "source"):
        if record.get(column) is not None:
            fields["kind" if column == "type" else column] = record[column]
    if record.get("evidence") is not None:
        fields["evidence"] = record["evidence"]
    elif record.get("supporting_titles") is not None:
        titles = _texts(record["supporting_titles"], where, "supporting_titles")
        fields["evidence"] = [Evidence(title=title) for title in titles]
    return fields


def _verl_fields(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Columns of a verl row as fields of a task; verl allows any further columns, so they are left alone."""
    prompt = record["prompt"]
    asked = (
        [m.get("content") for m in prompt if isinstance(m, Mapping) and m.get("role") == "user"]
        if isinstance(prompt, list)
        else []
    )
    if not asked or not isinstance(asked[-1], str) or not asked[-1].strip():
        raise TaskFileError(f"{where}: column 'prompt' must be a list of messages with a user message; {_ACCEPTED}")
    reward_model = record.get("reward_model")
    if not isinstance(reward_model, Mapping) or "ground_truth" not in reward_model:
        raise TaskFileError(f"{where}: column 'reward_model.ground_truth' is missing; {_ACCEPTED}")
    truths = _texts(reward_model["ground_truth"], where, "reward_model.ground_truth")
    extra = record.get("extra_info") if isinstance(record.get("extra_info"), Mapping) else {}
    fields = {
        "question": asked[-1],
        "answers": [part.strip() for truth in truths for part in truth.split(ANSWER_SPLIT) if part.strip()],
        "id": (extra or {}).get("index"),
        "split": (extra or {}).get("split"),
        "source": record.get("data_source"),
    }
    if isinstance(fields["id"], int):
        fields["id"] = str(fields["id"])
    return {name: value for name, value in fields.items() if value is not None}


def _texts(value: Any, where: str, column: str) -> list[str]:
    """A text or a list of texts as a list."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TaskFileError(f"{where}: column {column!r} must be text or a list of texts, not {value!r}; {_ACCEPTED}")
    return texts
