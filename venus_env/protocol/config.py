"""Rules and budgets of an episode."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from venus_env.protocol.prompt import PromptStyle


class EpisodeConfig(BaseModel):
    """Rules and budgets of an episode.

    Attributes:
        prompt: Style of the system prompt.
        current_date: Date in the system prompt, as text; None leaves it out.
        max_turns: Turns of the policy, the one that answers included.
        turn_jitter: Spread of the turn limit between episodes: j draws it from max_turns - j + 1 … max_turns + j - 1,
            the middle twice as likely as the others, so that a policy cannot count on an exact limit.
        max_context_tokens: Length that the whole conversation may reach.
        max_turn_tokens: Length of one turn of the policy. Policies read it as their generation limit; here it is the
            room that is kept for one more turn, and again for the final answer after that. None: an eighth of the
            context, at most 8,192.
        max_malformed: Malformed turns in a row that end the episode.
        max_tool_calls: Calls that may run (repeated ones do not run); reaching it counts as the turn limit.
        time_limit_s: Seconds from the start; needs a clock.
        tool_timeout_s: Seconds that one tool call may take; drivers apply it. None waits for ever.
        force_final_answer: Whether reaching a limit asks for a final answer first, or ends the episode at once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: PromptStyle = "full"
    current_date: str | None = Field(default="2026-03-01", min_length=1)
    max_turns: int = Field(default=200, ge=1)
    turn_jitter: int = Field(default=0, ge=0)
    max_context_tokens: int = Field(default=261_000, ge=64)
    max_turn_tokens: int | None = Field(default=None, ge=1)
    max_malformed: int = Field(default=5, ge=1)
    max_tool_calls: int | None = Field(default=None, ge=0)
    time_limit_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tool_timeout_s: float | None = Field(default=150.0, gt=0, allow_inf_nan=False)
    force_final_answer: bool = True

    @model_validator(mode="after")
    def _leave_room_for_a_turn(self) -> EpisodeConfig:
        if self.answer_tokens >= self.max_context_tokens:
            raise ValueError(
                f"max_turn_tokens ({self.max_turn_tokens}) must be smaller than max_context_tokens "
                f"({self.max_context_tokens}): one turn has to fit in the context"
            )
        return self

    @model_validator(mode="after")
    def _leave_something_to_do(self) -> EpisodeConfig:
        if self.max_tool_calls == 0 and not self.force_final_answer:
            raise ValueError("max_tool_calls=0 leaves nothing to do but answer: it needs force_final_answer=True")
        return self

    @property
    def answer_tokens(self) -> int:
        """Tokens kept free for the final answer."""
        return self.max_turn_tokens if self.max_turn_tokens is not None else min(8_192, self.max_context_tokens // 8)
