from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venus_rl.igpo.advantage import AdvantageConfig
from venus_rl.igpo.schedule import AdvantageSchedule, GateState, curriculum_weights, mean_outcome
from venus_rl.igpo.turn_rewards import RewardEvent, TurnRewards


def gates(outcomes: list[float | None], **options: float) -> list[GateState]:
    schedule, states = AdvantageSchedule(**options), [GateState()]  # type: ignore[arg-type]
    for outcome in outcomes:
        states.append(schedule.gate(states[-1], outcome))
    return states[1:]


def test_curriculum_is_linear_and_stays_at_its_end() -> None:
    assert curriculum_weights(0, 10) == (0.5, 1.0)
    assert curriculum_weights(5, 10) == (0.75, 0.75)
    assert curriculum_weights(12, 10) == curriculum_weights(10, 10) == curriculum_weights(0, 0) == (1.0, 0.5)


def test_the_average_by_hand() -> None:
    """0.2; then 0.2 + 0.1 * (1.2 - 0.2) = 0.3; then 0.3 + 0.1 * (0 - 0.3) = 0.27."""
    averages = [state.average for state in gates([0.2, 1.2, 0.0], warmup_threshold=9.0)]
    assert averages == pytest.approx([0.2, 0.3, 0.27])


def test_the_gate_opens_when_the_average_gets_there_and_never_closes() -> None:
    opened = [state.open for state in gates([0.2, 1.2, 0.0, 0.0, -1.0], warmup_threshold=0.3)]
    assert opened == [False, True, True, True, True]


def test_without_a_threshold_the_gate_is_open_from_the_first_step() -> None:
    assert [state.open for state in gates([-1.0, None])] == [True, True]


def test_a_batch_without_outcomes_changes_nothing() -> None:
    assert gates([0.25, None], warmup_threshold=0.5)[1] == GateState(average=0.25)
    assert gates([None], warmup_threshold=0.5)[0] == GateState()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.integers(0, 30))
def test_a_stored_state_continues_as_if_nothing_had_happened(outcomes: list[float], cut: int) -> None:
    schedule = AdvantageSchedule(warmup_threshold=0.4)
    straight = gates(list(outcomes), warmup_threshold=0.4)[-1]
    state = GateState()
    for number, outcome in enumerate(outcomes):
        if number == cut:
            state = GateState.model_validate_json(state.model_dump_json())
        state = schedule.gate(state, outcome)
    assert state == straight


def test_rules_of_a_step() -> None:
    base = AdvantageConfig(mode="separate", curriculum_gain=2.0)
    schedule = AdvantageSchedule(base=base, total=4, curriculum_gain=(1.0, 0.5), warmup_threshold=0.5)
    closed, opened = GateState(average=0.1), GateState(average=0.1, open=True)
    assert schedule.at(2, opened) == base.model_copy(update={"curriculum_gain": 1.5})
    assert schedule.at(2, closed).algorithm == "grpo"
    grpo = AdvantageSchedule(base=AdvantageConfig(algorithm="grpo"))
    assert grpo.at(1, opened).algorithm == "grpo"


def test_mean_outcome_counts_answer_penalties_and_leaves_out_lost_rollouts() -> None:
    rollouts = [
        TurnRewards((RewardEvent(0, 9.0, "information_gain", 0), RewardEvent(1, 1.0, "outcome", 1))),
        TurnRewards((RewardEvent(1, -1.0, "answer_penalty", 0),)),
        TurnRewards((RewardEvent(1, 1.0, "outcome", 0),)),
        TurnRewards((RewardEvent(1, 50.0, "outcome", 0),), excluded=True),
    ]
    assert mean_outcome(rollouts) == pytest.approx(1 / 3)
    assert mean_outcome(rollouts[3:]) is mean_outcome([]) is None
