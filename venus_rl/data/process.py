"""The stages that look at one trajectory alone, in order: normalise → prune → dedup → validate."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from venus_env.rewards.outcome import ANSWER_SPLIT
from venus_rl.data.calls import RawMessage, tool_names
from venus_rl.data.conversation import RowError
from venus_rl.data.dedup import remove_repeats
from venus_rl.data.normalise import conversation_problem, normalise, normalise_as_reference
from venus_rl.data.options import CleanConfig
from venus_rl.data.prune import prune
from venus_rl.data.sources import Unreadable
from venus_rl.data.validate import find_problem, turn_count

Stage = Literal["read", "normalise", "validate", "correctness"]
"""The stages that reject rows; ``read`` is damage in a file."""

Counts = dict[str, Counter[str]]
"""What each stage did, by its name."""


@dataclass(frozen=True, slots=True)
class Clean:
    """A trajectory that went through; ``turns`` and ``tools`` are those of ``messages``."""

    question: str
    answers: tuple[str, ...]
    messages: list[RawMessage]
    source: str
    turns: int
    counts: Counts

    @property
    def gt(self) -> str:
        """Accepted answers in one string, as training frameworks read them."""
        return ANSWER_SPLIT.join(self.answers)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that was dropped.

    Attributes:
        source: ``file name:row``.
        stage: Who dropped it.
        reason: Short name to count by.
        detail: What was wrong, with the place.
        row: The row as it was read, as JSON; empty where it could not be read.
        counts: What the stages before did.
    """

    source: str
    stage: Stage
    reason: str
    detail: str
    row: str
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """A raw row and where it stands."""

    path: Path
    number: int
    value: Any

    @property
    def source(self) -> str:
        """``file name:row``."""
        return f"{self.path.name}:{self.number}"

    @property
    def json(self) -> str:
        """The row as read."""
        return json.dumps(self.value, ensure_ascii=False, default=str)


def process(item: Item, config: CleanConfig, prompt: str) -> Clean | Rejected:
    """Take one row through the stages; depends on nothing but the arguments."""
    if isinstance(item.value, Unreadable):
        return Rejected(item.source, "read", "unreadable", item.value.message, "")
    place = f"{item.path}, row {item.number}"
    counts: Counts = {}
    try:
        if config.reference:
            row = normalise_as_reference(item.value, item.source, place, prompt, config.prompt_from or "template")
        else:
            row = normalise(item.value, item.source, place, prompt, config.prompt_from or "row")
            if row.kind in ("clean", "redsearcher") and not (row.question and row.answers):
                raise RowError("missing_question_or_gt", f"{place}: needs 'question' and 'gt', both non-empty")
    except RowError as error:
        return Rejected(item.source, "normalise", error.reason, str(error), item.json)
    counts["normalise"] = Counter({f"kind:{row.kind}": 1}) + Counter(
        {f"turns_left_out:{reason}": number for reason, number in row.dropped_turns.items()}
    )
    messages: list[RawMessage] = list(row.messages)
    counts["before"] = Counter({f"turns:{turn_count(messages)}": 1})
    if config.tools is not None:
        messages, pruned = prune(messages, {tool.lower() for tool in config.tools})
        counts["prune"] = Counter(
            trajectories=bool(pruned),
            turns_removed=len(pruned),
            replies_removed=sum(len(turn.replies) for turn in pruned),
        ) + Counter(f"tool:{tool}" for turn in pruned for tool in turn.tools)
    if config.deduplicate:
        messages, repeated = remove_repeats(messages, compare_goals=config.compare_goals)
        counts["dedup"] = Counter(
            trajectories=bool(repeated),
            turns_removed=len(repeated),
            replies_removed=sum(len(turn.replies) for turn in repeated),
        ) + Counter(f"tool:{tool}" for turn in repeated for tool in {name for name, _, _ in turn.calls})
    problem = find_problem(messages, reference=config.reference) if config.validate_turns else None
    problem = problem or (None if config.reference else conversation_problem(messages))
    if problem is not None:
        return Rejected(item.source, "validate", problem, f"{place}: {problem}", item.json, counts)
    counts["tools"] = Counter(name for message in messages for name in tool_names(message))
    return Clean(row.question, row.answers, messages, item.source, turn_count(messages), counts)
