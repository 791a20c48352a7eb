"""``venus.trajectory/1``: the record of one episode that training, evaluation and viewers share."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from venus_env.protocol.turns import End, Forced, Message


class TurnRecord(BaseModel):
    """One turn as stored in a trajectory; fields as in :class:`venus_env.protocol.turns.Turn`."""

    model_config = ConfigDict(extra="forbid")

    index: int
    kind: Literal["tool", "answer", "malformed"]
    format_ok: bool
    message_index: int
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    ok: bool = True
    duplicate: bool = False
    forced: bool = False
    error: str | None = None
    reward_terms: dict[str, float] = Field(default_factory=dict)


class Trajectory(BaseModel):
    """A whole episode: re-loadable, re-renderable, re-scorable.

    ``task`` holds the full task, accepted answers included: a trajectory is a training and evaluation record and is
    never shown to a policy.

    Attributes:
        schema_: Name of the format.
        task: The task as :meth:`venus_env.tasks.task.Task.record` gives it.
        messages: The conversation; empty if the episode could not even begin.
        turns: One record per turn of the policy.
        end: How the episode ended.
        forced: The limit at which a final answer was asked for, if it was.
        score: In [0, 1]; None where there is nothing to grade.
        usage: What the episode spent; what its policy counted by itself (tokens, requests) is under ``policy``.
        seed: Seed of the episode.
        metrics: Figures of the whole episode; ``return`` is the sum of all reward terms.
        versions: What it was recorded with.
        error: Why the infrastructure failed, where it is what ended the episode.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_: Literal["venus.trajectory/1"] = Field(default="venus.trajectory/1", alias="schema")
    task: dict[str, Any]
    messages: list[Message]
    turns: list[TurnRecord]
    end: End
    forced: Forced | None = None
    score: float | None = None
    usage: dict[str, Any] = Field(default_factory=dict)
    seed: int | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    error: str | None = None

    def record(self) -> dict[str, Any]:
        """Plain JSON value of this trajectory: one line of a ``venus.trajectory/1`` file."""
        return self.model_dump(mode="json", by_alias=True)
