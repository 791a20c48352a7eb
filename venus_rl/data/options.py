"""Settings of the cleaning pipeline: the keys of ``python -m venus_rl.data clean`` and of ``data.clean`` in a run."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class JudgeConfig(BaseModel):
    """The language model that judges answers, with ``correctness=llm``."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    url: str | None = Field(None, description="OpenAI-compatible endpoint, e.g. http://localhost:8000/v1")
    model: str | None = Field(None, description="model name as the endpoint knows it")
    key_variable: str | None = Field(None, description="environment variable that holds the endpoint's key")
    cache: Path | None = Field(None, description="SQLite file of replies; null: judge.sqlite in the output folder")
    concurrency: int = Field(16, ge=1, description="requests at a time")
    max_requests: int | None = Field(None, ge=0, description="budget of requests; what is left is undecided")
    max_reply_tokens: int = Field(4096, ge=16, description="tokens of a reply, thinking included")
    timeout_s: float = Field(300.0, gt=0, description="seconds for one attempt")
    attempts: int = Field(3, ge=1, description="attempts per request")
    backoff_s: float = Field(1.0, ge=0, description="first pause between attempts; it doubles each time")


class CleanConfig(BaseModel):
    """The stages of the pipeline; the defaults are the paper's, without its judge."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    reference: bool = Field(
        False, description="reproduce the reference's output row for row, with its defects (docs/data.md)"
    )
    prompt_from: Literal["row", "template"] | None = Field(
        None, description="system prompt: the row's, or the template for all; null: row (template with reference)"
    )
    prompt_file: Path | None = Field(None, description="text of the template; null: the environment's system prompt")
    current_date: str | None = Field(None, min_length=1, description="date in the environment's system prompt")
    tools: list[str] | None = Field(
        ["search", "visit"], description="turns that call other tools are taken out; null keeps all"
    )
    deduplicate: bool = Field(True, description="take out turns that only repeat earlier searches or visits")
    compare_goals: bool = Field(False, description="a visit of the same pages with another goal is no repetition")
    validate_turns: bool = Field(True, description="check every turn; false: only that the roles alternate")
    correctness: Literal["none", "exact", "f1", "llm"] = Field(
        "none", description="keep right answers only: equal to an accepted one, word F1, or by a judge"
    )
    f1_threshold: float = Field(0.8, gt=0, le=1, description="least word F1 of a right answer")
    undecided: Literal["reject", "keep"] = Field(
        "reject", description="rows without a verdict (judge failed, budget spent, no accepted answer)"
    )
    judge: JudgeConfig = Field(JudgeConfig(), description="the judge of correctness=llm")
    thresholds: list[int] = Field([50, 100], description="upper ends of the turn buckets, inclusive")
    multipliers: list[int] = Field([1, 2, 5], description="copies per bucket, one more than thresholds; 0 leaves out")
    shuffle: bool | None = Field(None, description="spread copies apart by a seeded shuffle; null: not reference")
    seed: int = Field(42, ge=0, description="seed of the shuffle")
    tokenizer: str | None = Field(
        None, description="Hugging Face folder; reports token lengths under its chat template"
    )

    @model_validator(mode="after")
    def _consistent(self) -> CleanConfig:
        if len(self.multipliers) != len(self.thresholds) + 1:
            raise ValueError(
                f"multipliers {self.multipliers} must have one entry more than thresholds {self.thresholds}"
            )
        if sorted(set(self.thresholds)) != self.thresholds or min([*self.thresholds, *self.multipliers]) < 0:
            raise ValueError("thresholds must ascend, and neither they nor multipliers may be negative")
        if self.correctness == "llm" and not (self.judge.url and self.judge.model):
            raise ValueError("correctness=llm needs judge.url and judge.model")
        return self

    @property
    def shuffled(self) -> bool:
        """Whether the output is shuffled."""
        return not self.reference if self.shuffle is None else self.shuffle
