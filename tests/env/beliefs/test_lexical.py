from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.env.beliefs.test_evidence import turn
from venus_env.beliefs.base import Belief, BeliefState, open_belief, turn_boundaries
from venus_env.beliefs.lexical import LexicalBelief
from venus_env.protocol.trajectory import Trajectory, TurnRecord
from venus_env.protocol.turns import Message

COUNTS = {"the": 6, "paris": 2, "rome": 1}
TOTAL = 9 + 3 + 1  # words, kinds of words, one for the unseen
OPENING: list[Message] = [{"role": "system", "content": "Paris."}, {"role": "user", "content": "Which city is it?"}]


def visit(text: str) -> list[Message]:
    return turn("visit", {"url": ["u"], "goal": "g"}, text)


async def test_by_hand() -> None:
    belief = LexicalBelief(COUNTS, mu=10.0)
    state = belief.open("Which city is it?", ["Paris", "Rome Oslo"])
    assert isinstance(belief, Belief)
    assert isinstance(state, BeliefState)
    # Question: 4 words, none of an answer.
    paris, rome, oslo = 3 / TOTAL, 2 / TOTAL, 1 / TOTAL
    expected = [
        math.log(10 * paris / 14),
        (math.log(10 * rome / 14) + math.log(10 * oslo / 14)) / 2,
    ]
    assert await state.update(OPENING) == pytest.approx(expected)
    # Eight more words, "paris" twice among them.
    scores = await state.update(visit("Paris is big. They say Paris is old."))
    assert scores[0] == pytest.approx(math.log((2 + 10 * paris) / 22))
    assert scores[1] == pytest.approx((math.log(10 * rome / 22) + math.log(10 * oslo / 22)) / 2)


async def test_reading_the_answer_helps_and_reading_anything_else_does_not() -> None:
    state = LexicalBelief({"word": 1000}).open("Who?", ["Ada Lovelace"])
    (start,) = await state.update(OPENING)
    (elsewhere,) = await state.update(visit("Nothing of interest stands on this page."))
    (found,) = await state.update(visit("The first programmer was Ada Lovelace."))
    (repeated,) = await state.update(visit("The first programmer was Ada Lovelace."))
    assert elsewhere < start < found == repeated


async def test_words_in_the_question_are_known_from_the_start() -> None:
    belief = LexicalBelief(COUNTS)
    (known,) = await belief.open("Is Rome older?", ["Rome"]).update([])
    (unknown,) = await belief.open("Is it older?", ["Rome"]).update([])
    assert known > unknown


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["Paris is here.", "It rains.", "Rome and Paris.", ""]), max_size=6), st.data())
async def test_one_pass_equals_increments(replies: list[str], data: st.DataObject) -> None:
    belief = LexicalBelief(COUNTS)
    messages = [*OPENING, *(message for reply in replies for message in visit(reply))]
    cut = data.draw(st.integers(0, len(messages)))
    parts = belief.open("Which city is it?", ["Paris"])
    await parts.update(messages[:cut])
    assert await parts.update(messages[cut:]) == await belief.open("Which city is it?", ["Paris"]).update(messages)


async def test_score_of_a_trajectory() -> None:
    belief = LexicalBelief(COUNTS)
    messages = [*OPENING, *visit("It rains."), *visit("Paris is big."), {"role": "assistant", "content": "Paris"}]
    turns = [TurnRecord(index=i, kind="tool", format_ok=True, message_index=2 + 2 * i) for i in range(3)]
    trajectory = Trajectory(task={}, messages=messages, turns=turns, end="answered")
    boundaries = turn_boundaries(trajectory)
    assert boundaries == [2, 4, 6]
    state = belief.open("Which city is it?", ["Paris"])
    expected = [await state.update(messages[a:b]) for a, b in ((0, 2), (2, 4), (4, 6))]
    assert await belief.score(trajectory, boundaries, ["Paris"]) == expected
    assert await belief.score(trajectory, [2, 2], ["Paris"]) == [expected[0], expected[0]]
    with pytest.raises(ValueError, match=r"must ascend within \[2, 7\]"):
        await belief.score(trajectory, [4, 2], ["Paris"])


async def test_answers_without_words_and_bad_arguments() -> None:
    belief = pickle.loads(pickle.dumps(LexicalBelief(COUNTS)))
    (score,) = await belief.open("?", ["++"]).update([])
    assert math.isfinite(score)
    with pytest.raises(ValueError, match="at least one accepted answer"):
        belief.open("?", [])
    with pytest.raises(TypeError, match="sequence of strings"):
        belief.open("?", "Paris")
    with pytest.raises(ValueError, match="mu must be"):
        LexicalBelief(COUNTS, mu=0)


def test_open_belief() -> None:
    belief = LexicalBelief(COUNTS)
    assert open_belief(belief) is belief
    assert open_belief(None) is None
    with pytest.raises(ValueError, match="pass corpus="):
        open_belief("lexical")
    with pytest.raises(ValueError, match="'oracle' is unknown"):
        open_belief("oracle")
