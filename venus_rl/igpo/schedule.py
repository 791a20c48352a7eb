"""What changes from step to step: the curriculum, and the gate that keeps gains out until the policy answers (4.7)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from venus_rl.igpo.advantage import AdvantageConfig
from venus_rl.igpo.turn_rewards import TurnRewards

Ramp = tuple[float, float]
"""First and last value of a linear ramp over the run."""


class GateState(BaseModel):
    """State of the warm-up gate; pure data, so that it can be stored and compared.

    Attributes:
        average: Moving average of the batches' mean outcome; None before the first batch.
        open: Whether gains count. Once true it stays true.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    average: float | None = Field(default=None, allow_inf_nan=False)
    open: bool = False


class AdvantageSchedule(BaseModel):
    """The advantage rules of a run, of which some depend on the step.

    Attributes:
        base: The rules that hold throughout.
        total: Steps of the run, over which the ramps go.
        curriculum_outcome: Ramp of the factor on the outcome pool; the method's is (0.5, 1.0).
        curriculum_gain: Ramp of the factor on the gain pool; the method's is (1.0, 0.5).
        warmup_threshold: Gains count from the first step on at which the average outcome reaches this; 0: at once.
        warmup_alpha: Weight of the newest batch in that average.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: AdvantageConfig = AdvantageConfig()
    total: int = Field(default=1, ge=0)
    curriculum_outcome: Ramp = (1.0, 1.0)
    curriculum_gain: Ramp = (1.0, 1.0)
    warmup_threshold: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    warmup_alpha: float = Field(default=0.1, gt=0.0, le=1.0)

    def gate(self, state: GateState, outcome: float | None) -> GateState:
        """State after a batch of mean outcome ``outcome``; None, where nothing was graded, changes nothing.

        The average starts at the first batch's mean. The batch that opens the gate already counts with its gains.
        """
        average = state.average
        if outcome is not None:
            average = outcome if average is None else average + self.warmup_alpha * (outcome - average)
        reached = self.warmup_threshold <= 0 or (average is not None and average >= self.warmup_threshold)
        return GateState(average=average, open=state.open or reached)

    def at(self, step: int, state: GateState) -> AdvantageConfig:
        """Rules of ``step`` (counted from 1), given the gate's state after its batch.

        Behind a closed gate the step is GRPO's: outcomes and format penalties, no gains.
        """
        outcome, gain = curriculum_weights(step, self.total, outcome=self.curriculum_outcome, gain=self.curriculum_gain)
        return self.base.model_copy(
            update={
                "algorithm": self.base.algorithm if state.open else "grpo",
                "curriculum_outcome": self.base.curriculum_outcome * outcome,
                "curriculum_gain": self.base.curriculum_gain * gain,
            }
        )


def curriculum_weights(
    step: int, total: int, *, outcome: Ramp = (0.5, 1.0), gain: Ramp = (1.0, 0.5)
) -> tuple[float, float]:
    """Linear (outcome, gain) weights at ``step`` of ``total``, each from its first to its second value."""
    progress = min(max(step / total, 0.0), 1.0) if total > 0 else 1.0
    return outcome[0] + (outcome[1] - outcome[0]) * progress, gain[0] + (gain[1] - gain[0]) * progress


def mean_outcome(rollouts: Sequence[TurnRewards]) -> float | None:
    """Mean outcome of a batch, answer penalties included; None if every rollout was lost to infrastructure."""
    outcomes = [
        event.value
        for rollout in rollouts
        if not rollout.excluded
        for event in rollout.events
        if event.kind in ("outcome", "answer_penalty")
    ]
    return sum(outcomes) / len(outcomes) if outcomes else None
