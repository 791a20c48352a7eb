from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_env.protocol.turns import Turn
from venus_env.tokens import TurnSpan
from venus_rl.igpo.events import scatter_to_tokens
from venus_rl.igpo.turn_rewards import RewardEvent, TurnRewardConfig, TurnRewards, build_turn_rewards

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "reward_placement.json").read_text())["vectors"]

SEARCH, VISIT = "search", "visit"


def turn(index: int, tool: str | None = SEARCH, *, ok: bool = True, kind: str = "tool", forced: bool = False) -> Turn:
    return Turn(index, kind, ok, 2 * index + 2, tool=tool if kind == "tool" else None, forced=forced)  # type: ignore[arg-type]


def spans(count: int, length: int = 3, gap: int = 2) -> list[TurnSpan]:
    """Turns of ``length`` tokens with ``gap`` context tokens between them, from token 0."""
    return [TurnSpan(i, i * (length + gap), i * (length + gap) + length) for i in range(count)]


def values(rewards: TurnRewards) -> list[tuple[int, float, str]]:
    return [(e.turn, round(e.value, 9), e.kind) for e in rewards.events]


# search, search, visit, search, visit, search, answer; every turn scored
TURNS = [turn(0), turn(1), turn(2, VISIT), turn(3), turn(4, VISIT), turn(5), turn(6, kind="answer")]
GAINS = [0.1, -0.2, 0.5, 0.0, 0.25, 0.7, None]


def test_visit_segment_gives_the_visit_the_telescoped_gain_once() -> None:
    rewards = build_turn_rewards(TURNS, spans(7), GAINS, 1.0, TurnRewardConfig())
    assert values(rewards) == [(2, 0.4, "information_gain"), (4, 0.25, "information_gain"), (6, 1.0, "outcome")]
    assert [e.position for e in rewards.events] == [12, 22, 32]  # last token of turns 2, 4 and 6
    assert rewards.tool_turns == 6
    shifted = [TurnSpan(s.turn, s.start + 40, s.end + 40) for s in spans(7)]
    assert build_turn_rewards(TURNS, shifted, GAINS, 1.0, TurnRewardConfig(), prompt_length=40) == rewards


def test_scoring_only_visits_gives_the_same_events() -> None:
    only_visits = [None, None, 0.4, None, 0.25, None, None]
    assert build_turn_rewards(TURNS, spans(7), only_visits, 1.0, TurnRewardConfig()) == build_turn_rewards(
        TURNS, spans(7), GAINS, 1.0, TurnRewardConfig()
    )


def test_visit_copied_also_gives_it_to_the_searches_before() -> None:
    rewards = build_turn_rewards(TURNS, spans(7), GAINS, 0.0, TurnRewardConfig(assignment="visit_copied"))
    assert values(rewards) == [
        (0, 0.4, "information_gain"),
        (1, 0.4, "information_gain"),
        (2, 0.4, "information_gain"),
        (3, 0.25, "information_gain"),
        (4, 0.25, "information_gain"),
        (6, 0.0, "outcome"),
    ]


def test_every_turn_keeps_each_gain_zero_included() -> None:
    rewards = build_turn_rewards(TURNS, spans(7), GAINS, 1.0, TurnRewardConfig(assignment="every_turn"))
    assert [e.value for e in rewards.events] == [0.1, -0.2, 0.5, 0.0, 0.25, 0.7, 1.0]


def test_a_visit_that_could_not_be_scored_passes_its_gain_on() -> None:
    gains = [0.1, 0.2, None, 0.3, 0.4, None, None]
    assert values(build_turn_rewards(TURNS, spans(7), gains, 1.0, TurnRewardConfig()))[0] == (
        4,
        1.0,
        "information_gain",
    )


def test_penalty_replaces_the_gain_also_of_unscored_turns_and_the_outcome_of_a_bad_answer() -> None:
    turns = [turn(0, ok=False), turn(1, VISIT, ok=False), turn(2, VISIT), turn(3, kind="answer", ok=False)]
    rewards = build_turn_rewards(turns, spans(4), [None, 0.5, 0.2, None], 1.0, TurnRewardConfig(format_penalty=0.5))
    assert values(rewards) == [
        (0, -0.5, "penalty"),
        (1, -0.5, "penalty"),
        (2, 0.2, "information_gain"),  # not 0.7: the penalised visit's gain is gone, as in the reference
        (3, -0.5, "answer_penalty"),
    ]
    free = build_turn_rewards(turns, spans(4), [None, 0.5, 0.2, None], 1.0, TurnRewardConfig(format_penalty=0.0))
    assert values(free) == [(1, 0.5, "information_gain"), (2, 0.2, "information_gain"), (3, 1.0, "outcome")]


def test_malformed_turns_are_penalised() -> None:
    turns = [turn(0, kind="malformed"), turn(1, kind="answer")]
    assert values(build_turn_rewards(turns, spans(2), [None, None], 1.0, TurnRewardConfig())) == [
        (0, -1.0, "penalty"),
        (1, 1.0, "outcome"),
    ]


def test_an_episode_cut_short_keeps_the_last_gain_beside_the_outcome() -> None:
    rewards = build_turn_rewards([turn(0, VISIT)], spans(1), [0.3], 0.0, TurnRewardConfig())
    assert [(e.position, e.value, e.kind) for e in rewards.events] == [
        (2, 0.3, "information_gain"),
        (2, 0.0, "outcome"),
    ]


def test_a_forced_turn_without_a_proper_answer_is_an_answer_penalty() -> None:
    turns = [turn(0, VISIT), turn(1, kind="malformed", forced=True)]
    assert values(build_turn_rewards(turns, spans(2), [0.3, None], 0.0, TurnRewardConfig()))[-1] == (
        1,
        -1.0,
        "answer_penalty",
    )


def test_infrastructure_ending_is_excluded_and_mismatches_are_named() -> None:
    assert build_turn_rewards(TURNS, spans(7), GAINS, None, TurnRewardConfig()) == TurnRewards((), 6, True)
    with pytest.raises(ValueError, match="7 turns, 6 token spans"):
        build_turn_rewards(TURNS, spans(6), GAINS, 1.0, TurnRewardConfig())
    with pytest.raises(ValueError, match="gain of turn 1 is nan"):
        build_turn_rewards(TURNS, spans(7), [0.1, float("nan"), *GAINS[2:]], 1.0, TurnRewardConfig())


def _spans_by_control_tokens(ids: list[int]) -> list[TurnSpan]:
    """Assistant turns of the vectors' toy sequences, end token included."""
    found: list[TurnSpan] = []
    start, assistant = 0, True
    for i, token in enumerate(ids):
        if token == 1:
            assistant, start = ids[i + 1] == 10, i + 3
        elif token == 2 and assistant:
            found.append(TurnSpan(len(found), start, i + 1))
    return found


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_reference_placement(vector: dict) -> None:  # type: ignore[type-arg]
    """Every trained token earns what it does in the reference, where a stretch ends after the tool text."""
    given, expected = vector["input"], vector["output"]["scores"]
    ids = given["token_ids"]
    turn_spans = _spans_by_control_tokens(ids)
    if vector["id"] == "injected_special_tokens":
        # Defect 7.13: text of a tool holds <|im_start|>assistant and becomes a turn. With explicit spans it is none.
        turn_spans = [TurnSpan(0, 0, 2), TurnSpan(1, 18, 20)]
        expected = {"13": 0.5, "19": 1.0}
    turns = [turn(i, VISIT) for i in range(len(turn_spans) - 1)] + [turn(len(turn_spans) - 1, kind="answer")]
    given_gains = given["info_gain_reward"][: len(turns) - 1]
    gains: list[float | None] = [*given_gains, *[None] * (len(turns) - len(given_gains))]
    # zero_becomes_1e-10: the reference marks an exact zero so that it is seen; here it is an event like any other.
    rate = 0.5 if vector["id"] == "diminish" else 0.0
    config = TurnRewardConfig(assignment="every_turn", diminish=rate)
    rewards = build_turn_rewards(turns, turn_spans, gains, given["outcome_score"], config)
    ours = scatter_to_tokens([rewards], [np.array([e.value for e in rewards.events])], len(ids))[0]
    theirs = np.zeros(len(ids))
    start = 0
    for position, score in sorted((int(p), s) for p, s in expected.items()):
        theirs[start : position + 1] = score
        start = position + 1
    trained = [i for span in turn_spans for i in range(span.start, span.end)]
    np.testing.assert_allclose(ours[trained], theirs[trained], atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([SEARCH, VISIT]), st.booleans(), st.one_of(st.none(), st.floats(-2, 2))), max_size=8
    ),
    st.sampled_from(["visit_segment", "visit_copied", "every_turn"]),
)
def test_events_are_ordered_and_the_outcome_comes_last(
    facts: list[tuple[str, bool, float | None]], assignment: str
) -> None:
    turns = [turn(i, tool, ok=ok) for i, (tool, ok, _) in enumerate(facts)] + [turn(len(facts), kind="answer")]
    gains = [gain for *_, gain in facts] + [None]
    config = TurnRewardConfig(assignment=assignment)  # type: ignore[arg-type]
    rewards = build_turn_rewards(turns, spans(len(turns)), gains, 0.5, config)
    positions = [e.position for e in rewards.events]
    assert positions == sorted(set(positions))
    assert rewards.events[-1] == RewardEvent(spans(len(turns))[-1].end - 1, 0.5, "outcome", len(facts))
    assert sum(e.kind == "penalty" for e in rewards.events) == sum(not ok for _, ok, _ in facts)
