"""The one shape that rows of all sources are brought to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from venus_rl.data.calls import RawMessage

Kind = Literal["redsearcher", "clean", "rollout", "trajectory", "openai", "sharegpt"]
"""Where a row came from; the table is in :mod:`venus_rl.data.normalise`."""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One conversation to learn from.

    Attributes:
        question: What was asked.
        answers: Accepted answers; empty where the source does not tell.
        messages: System, user, then assistant and user in turn, ending with the assistant, once it is validated.
        source: ``file name:row``, for reports.
        kind: Shape of the row that it was read from.
        dropped_turns: Turns that could not be brought to this shape, by reason.
    """

    question: str
    answers: tuple[str, ...]
    messages: tuple[RawMessage, ...]
    source: str
    kind: Kind = field(default="clean", compare=False)
    dropped_turns: Counter[str] = field(default_factory=Counter, compare=False)


class RowError(ValueError):
    """A row that cannot be used.

    Attributes:
        reason: Short name to count by.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
