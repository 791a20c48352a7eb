"""``venus.task/1``: a question, its accepted answers and, where known, the evidence that proves them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Evidence(BaseModel):
    """One supporting statement on a gold path.

    Attributes:
        url: Page that states it; empty where only the title is known (HotpotQA-style rows).
        title: Title of that page.
        sentence: The sentence that states the fact, verbatim from the page where known.
        relation: Name of the fact read there, e.g. ``birthplace`` (embedded world only).
        value: What is read there: the next hop's title, or the answer (embedded world only).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = ""
    title: str
    sentence: str = ""
    relation: str | None = None
    value: str | None = None


class Task(BaseModel):
    """One question with its accepted answers.

    Attributes:
        id: Unique in its file.
        question: What the policy reads; nothing else of a task ever reaches a policy.
        answers: Accepted answers, at least one, none blank.
        evidence: Gold path in reading order; empty where unknown.
        hops: Number of pages that have to be read in sequence; None where unknown.
        kind: Question family (``bridge``, ``comparison``, …).
        difficulty: How hard the maker of the question takes it to be (``easy``, ``medium``, ``hard``).
        split: ``train``, ``dev`` or ``test``.
        source: Where the question comes from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    question: str
    answers: tuple[str, ...] = Field(min_length=1)
    evidence: tuple[Evidence, ...] = ()
    hops: int | None = None
    kind: str | None = None
    difficulty: str | None = None
    split: str | None = None
    source: str | None = None

    @field_validator("answers")
    @classmethod
    def _no_blank_answers(cls, answers: tuple[str, ...]) -> tuple[str, ...]:
        if any(not answer.strip() for answer in answers):
            raise ValueError("answers must not be blank")
        return answers

    def record(self) -> dict[str, Any]:
        """Plain JSON value of this task, for trajectories and files."""
        return self.model_dump(mode="json", exclude_defaults=True)
