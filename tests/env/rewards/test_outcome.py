from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_env.rewards.outcome import ANSWER_SPLIT, exact_match, normalise_answer, word_f1

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "reward_placement.json").read_text())["compute_f1"]

# The reference reads the answer out of the whole response and scores -2 for unbalanced tags. Here the parser does the
# first and the format penalty the second, so vectors about them do not apply to the outcome.
ANSWERED = [v for v in VECTORS if v["output"] >= 0 and v["input"]["solution_str"].count("<answer>") == 1]


def test_vectors_that_apply_are_found() -> None:
    assert len(ANSWERED) == 5
    skipped = [v for v in VECTORS if v not in ANSWERED]
    assert sum(v["output"] == -2.0 for v in skipped) == 3  # unbalanced tags
    assert len(skipped) == 5  # and: no answer at all, two answers


@pytest.mark.parametrize("vector", ANSWERED)
def test_reference_vectors(vector: dict[str, object]) -> None:
    given_ = vector["input"]
    assert isinstance(given_, dict)
    answer = given_["solution_str"].split("<answer>")[1].split("</answer>")[0]
    score = exact_match if given_["val_type"] == "em" else word_f1
    assert score(answer, given_["ground_truth"].split(ANSWER_SPLIT)) == pytest.approx(vector["output"], abs=1e-9)


def test_f1_by_hand() -> None:
    # 2 shared of 3 predicted and 4 wanted: 2*2/7.
    assert word_f1("the red fox", ["a red fox runs"]) == pytest.approx(4 / 7)
    # Multiset: the second "no" of the prediction finds no partner. 1 shared of 2 and 1.
    assert word_f1("no no", ["no"]) == pytest.approx(2 / 3)
    assert word_f1("Paris", ["Rome", "Paris, France", "paris!"]) == 1.0
    assert word_f1(None, ["x"]) == word_f1("", ["x"]) == word_f1("?!", ["?!"]) == 0.0


def test_exact_match() -> None:
    assert exact_match("  the  U.S. ", ["The U S"]) == 1.0
    assert exact_match("Malmo", ["Malmö"]) == 0.0
    assert exact_match("Malmo\u0308", ["malmö"]) == 1.0  # composed and decomposed accents are the same text
    assert exact_match("１２", ["12"]) == 1.0
    assert exact_match("", ["..."]) == exact_match("?", ["..."]) == exact_match(None, ["x"]) == 0.0
    assert exact_match("...", ["..."]) == 1.0


def test_wrong_answers_argument_is_named() -> None:
    with pytest.raises(TypeError, match=r"pass \['Paris'\]"):
        exact_match("Paris", "Paris")
    with pytest.raises(ValueError, match="at least one accepted answer"):
        word_f1("Paris", [])


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30), st.lists(st.text(max_size=30), min_size=1, max_size=3))
def test_properties(prediction: str, answers: list[str]) -> None:
    f1, match = word_f1(prediction, answers), exact_match(prediction, answers)
    assert 0.0 <= f1 <= 1.0
    assert normalise_answer(normalise_answer(prediction)) == normalise_answer(prediction)
    if match and normalise_answer(prediction):
        assert f1 == 1.0
    assert word_f1(prediction, [*answers, prediction]) == (1.0 if normalise_answer(prediction) else 0.0)
