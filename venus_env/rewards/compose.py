"""One configuration of the reward, and the rule that turns the facts about a turn into named reward terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from venus_env.protocol.turns import INFRASTRUCTURE_ENDS, End, TurnKind
from venus_env.rewards.format import format_reward
from venus_env.rewards.information_gain import GainKind, GainTurns
from venus_env.rewards.outcome import exact_match, word_f1

OutcomeRule = Literal["f1", "em"]

_RULES = {"f1": word_f1, "em": exact_match}


class RewardConfig(BaseModel):
    """What an episode is rewarded for.

    Attributes:
        outcome: Reward of the answer turn: word F1 or exact match, in [0, 1].
        score: What ``info["score"]`` and evaluations report, independent of the reward and of the turn's form.
        format_penalty: A badly formed turn earns minus this instead of its gain or outcome.
        information_gain: Reward tool turns by information gain; needs a belief.
        gain_turns: Score every tool turn, or only visits (a visit then also earns what the searches before it brought).
        gain_kind: Difference of log-probabilities, or of probabilities.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    outcome: OutcomeRule = "f1"
    score: OutcomeRule = "em"
    format_penalty: float = Field(default=1.0, ge=0.0, allow_inf_nan=False)
    information_gain: bool = True
    gain_turns: GainTurns = "every"
    gain_kind: GainKind = "log_prob_diff"

    def scores_turn(self, kind: TurnKind, tool: str | None) -> bool:
        """Whether the belief has to be asked after this turn (answers and malformed turns never are)."""
        if not self.information_gain or kind != "tool":
            return False
        return self.gain_turns == "every" or tool == "visit"


def compose_turn(
    config: RewardConfig,
    *,
    kind: TurnKind,
    format_ok: bool,
    gain: float | None = None,
    outcome: float | None = None,
) -> dict[str, float]:
    """Name the reward terms of one turn; their sum is the reward of the step.

    A term is present exactly when it applies: a tool turn that the belief did not score has no ``information_gain``
    (absent is not 0.0: coverage is counted by it).

    Args:
        config: The reward rule.
        kind: What the turn amounted to.
        format_ok: Verdict of ``check_turn_format`` for the turn's position.
        gain: Information gain of a tool turn, None if not scored.
        outcome: Outcome of an answer turn from :func:`outcome_reward`; must be given for ``kind="answer"``.

    Returns:
        ``{"format": -penalty}`` for a badly formed or malformed turn, whatever else it brought;
        ``{"outcome": x}`` for an answer; ``{"information_gain": x}`` or ``{}`` for a tool turn.
    """
    penalty = format_reward(format_ok and kind != "malformed", config.format_penalty)
    if penalty is not None:
        return {"format": penalty}
    if kind == "answer":
        if outcome is None:
            raise ValueError("an answer turn needs its outcome: pass outcome=outcome_reward(config, answer, answers)")
        return {"outcome": outcome}
    if gain is None or not config.information_gain:
        return {}
    return {"information_gain": gain}


def outcome_reward(config: RewardConfig, answer: str | None, answers: Sequence[str]) -> float:
    """Outcome of ``answer`` under ``config.outcome``."""
    return _RULES[config.outcome](answer, answers)


def episode_score(
    config: RewardConfig, end: End, answer: str | None, answers: Sequence[str], verdict: float | None = None
) -> float | None:
    """Score of an episode in [0, 1]; None where there is nothing to grade.

    An episode that ran out of a budget without an answer is a failure of the policy and scores 0.0. One that is still
    running, or that the infrastructure ended, says nothing about the policy: None.

    Args:
        config: The reward rule.
        end: How the episode ended.
        answer: The final answer, if there is one.
        answers: Accepted answers.
        verdict: What a judge said of the answer, in place of the configured rule.
    """
    if end == "running" or end in INFRASTRUCTURE_ENDS:
        return None
    if end != "answered":
        return 0.0
    return _RULES[config.score](answer, answers) if verdict is None else verdict
