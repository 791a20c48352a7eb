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
    belief = LexicalBelief(COUNTS, mu=10.0, nu=2.0)
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
    # Eight more words: "paris" twice, "rome" once, and nothing after it.
    scores = await state.update(visit("Paris is big. They say Paris beats Rome."))
    assert scores[0] == pytest.approx(math.log((2 + 10 * paris) / 22))
    after_rome = 2 * (10 * oslo / 22) / (1 + 2)
    assert scores[1] == pytest.approx((math.log((1 + 10 * rome) / 22) + math.log(after_rome)) / 2)
    # Two more: "oslo" after "rome".
    _, score = await state.update(visit("Rome Oslo."))
    after_rome = (1 + 2 * (1 + 10 * oslo) / 24) / (2 + 2)
    assert score == pytest.approx((math.log((2 + 10 * rome) / 24) + math.log(after_rome)) / 2)


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


FILLER = [f"filler{number}" for number in range(9)]
ANSWER_WORDS = ["paris", "rome", "oslo", "the"]
texts = st.lists(st.lists(st.sampled_from([*FILLER, *ANSWER_WORDS]), min_size=1, max_size=8), max_size=5)


async def score_after(answer: str, *pages: list[list[str]]) -> list[float]:
    """Scores before and after each page, given as sentences; no two sentences of different pages are the same."""
    state = LexicalBelief(COUNTS, mu=50.0).open("Which city is it?", [answer])
    scores = [(await state.update(OPENING))[0]]
    for number, page in enumerate(pages):
        text = ". ".join(" ".join([*sentence, f"end{number}x{place}"]) for place, sentence in enumerate(page))
        scores.append((await state.update(visit(text)))[0])
    return scores


@settings(max_examples=60, deadline=None)
@given(texts, st.permutations(ANSWER_WORDS), st.integers(1, 4), st.integers(0, 3))
async def test_reading_the_answer_never_lowers_it(
    before: list[list[str]], order: list[str], length: int, copies: int
) -> None:
    """If a text holds the words of the answer only as the answer, and each at least as often as it was expected."""
    answer = order[:length]
    page = [answer] * (copies + 1)  # of (length + 1) words each, hence a share of 1 / (length + 1)
    state = LexicalBelief(COUNTS, mu=50.0).open("Which city is it?", [" ".join(answer)])
    await state.update([*OPENING, *visit(". ".join(" ".join(sentence) for sentence in before))])
    expected = max(state._probability(word) for word in answer)
    scores = await score_after(" ".join(answer), before, page)
    if expected <= 1 / (length + 2):  # each copy also brings its numbered end
        assert scores[2] >= scores[1] - 1e-12


@settings(max_examples=40, deadline=None)
@given(texts, st.integers(1, 20), st.permutations(ANSWER_WORDS), st.integers(1, 4))
async def test_reading_anything_else_lowers_it_by_no_more_than_its_length(
    before: list[list[str]], size: int, order: list[str], length: int
) -> None:
    page = [(FILLER * 3)[:size]]
    _, first, second = await score_after(" ".join(order[:length]), before, page)
    known = 4 + sum(len(sentence) + 1 for sentence in before)
    assert 0 > second - first >= -math.log((known + size + 1 + 50) / (known + 50)) - 1e-12


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["Paris is here.", "It rains.", "Rome and Paris.", "Oslo."]), max_size=5), st.data())
async def test_order_of_turns_and_repeated_pages_change_nothing(replies: list[str], data: st.DataObject) -> None:
    async def last(pages: list[str]) -> list[float]:
        messages = [*OPENING, *(message for page in pages for message in visit(page))]
        return await LexicalBelief(COUNTS).open("Which city is it?", ["Paris", "and Paris"]).update(messages)

    shuffled = data.draw(st.permutations(replies))
    assert await last(shuffled) == await last(replies) == await last(replies + shuffled)


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


def test_bad_arguments() -> None:
    belief = pickle.loads(pickle.dumps(LexicalBelief(COUNTS)))
    with pytest.raises(ValueError, match="at least one accepted answer"):
        belief.open("?", [])
    with pytest.raises(TypeError, match="sequence of strings"):
        belief.open("?", "Paris")
    with pytest.raises(ValueError, match="mu must be"):
        LexicalBelief(COUNTS, mu=0)
    with pytest.raises(ValueError, match="nu must be"):
        LexicalBelief(COUNTS, nu=math.inf)


def test_open_belief() -> None:
    belief = LexicalBelief(COUNTS)
    assert open_belief(belief) is belief
    assert open_belief(None) is None
    with pytest.raises(ValueError, match="pass corpus="):
        open_belief("lexical")
    with pytest.raises(ValueError, match="'oracle' is unknown"):
        open_belief("oracle")
