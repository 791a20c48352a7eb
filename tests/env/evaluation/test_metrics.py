from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_env.evaluation.metrics import estimate, final_answer, pass_at_k, summarise
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.trajectory import Trajectory, TurnRecord
from venus_env.protocol.turns import Message


def episode(
    question: str, answer: str | None, end: str = "answered", hops: int | None = None, **extra: Any
) -> Trajectory:
    """One visit that gained 0.5, a repetition of it, a badly formed search, then the answer if there is one."""
    messages: list[Message] = [{"role": "system", "content": "s"}, {"role": "user", "content": question}]
    turns: list[TurnRecord] = []

    def add(text: str, **fields: Any) -> None:
        turns.append(TurnRecord(index=len(turns), message_index=len(messages), **fields))
        messages.append({"role": "assistant", "content": text})
        messages.append({"role": "user", "content": "<tool_response>\nr\n</tool_response>"})

    visit = render_call("", "visit", {"url": ["u"], "goal": "g"})
    add(visit, kind="tool", tool="visit", format_ok=True, reward_terms={"information_gain": 0.5})
    add(visit, kind="tool", tool="visit", format_ok=True, duplicate=True)
    add("x", kind="tool", tool="search", format_ok=False, reward_terms={"format": -1.0})
    if answer is not None:
        add(render_answer("", answer), kind="answer", format_ok=True, reward_terms={"outcome": 1.0})
        messages.pop()
    return Trajectory(
        task={"id": question, "question": question, "answers": ["Paris"], "hops": hops},
        messages=messages,
        turns=turns,
        end=end,  # type: ignore[arg-type]
        usage={"context_tokens": 100},
        **extra,
    )


def test_summary_by_hand() -> None:
    summary = summarise(
        [
            episode("a", "Paris", hops=1, score=1.0),
            episode("a", "city of Paris", hops=1, score=0.0),
            episode("b", "Rome", hops=2, score=0.0, forced="turn_limit"),
            episode("b", None, end="turn_limit", hops=2, score=0.0),
            episode("c", None, end="tool_failure", hops=2),
        ]
    )
    assert (summary.episodes, summary.graded) == (5, 4)
    assert summary.ends == {"answered": 3, "tool_failure": 1, "turn_limit": 1}
    assert summary.forced == 0.25
    # Question means .5 and 0: mean .25, standard deviation .3536, divided by the root of two.
    assert summary.exact_match.mean == 0.25
    assert summary.exact_match.standard_error == pytest.approx(0.25)
    assert summary.exact_match.questions == 2
    assert summary.score == summary.exact_match
    assert summary.f1.mean == pytest.approx((1 + 2 / 4) / 4)
    assert {hops: each.mean for hops, each in summary.exact_match_by_hops.items()} == {1: 0.5, 2: 0.0}
    assert {k: each.mean for k, each in summary.pass_at.items()} == {1: 0.25, 2: 0.5}
    # Three episodes with an answer turn, one without.
    assert summary.turns == 3.75
    assert summary.return_per_episode == pytest.approx((3 * 0.5 + -0.5) / 4)
    assert summary.reward_terms == {"format": -1.0, "information_gain": 0.5, "outcome": 0.75}
    assert summary.tool_calls == {"all": 3.0, "search": 1.0, "visit": 2.0}
    assert summary.duplicate_rate == pytest.approx(1 / 3)
    assert summary.format_error_rate == pytest.approx(4 / 15)
    assert summary.gain_coverage == 0.5
    assert summary.context_tokens == 100


def test_nothing_graded() -> None:
    summary = summarise([episode("a", None, end="aborted")])
    assert summary.exact_match.mean is None
    assert summary.gain_coverage is None
    assert summary.pass_at == {}
    assert summarise([]).episodes == 0
    with pytest.raises(ValueError, match=r"\['a'\] are still running"):
        summarise([episode("a", None, end="running")])


def test_final_answer_is_read_as_the_episode_read_it() -> None:
    assert final_answer(episode("a", "  Paris\n")) == "Paris"
    assert final_answer(episode("a", None, end="turn_limit")) is None
    unopened = episode("a", "Paris")
    unopened.messages[-1]["content"] = "it is</think><answer>Paris</answer>"
    assert final_answer(unopened) == "Paris"


def test_estimate() -> None:
    assert estimate([]).mean is None
    assert estimate([0.5]).standard_error is None
    # Values 1, 2, 3: variance 1, three of them.
    assert estimate([1.0, 2.0, 3.0]).standard_error == pytest.approx(math.sqrt(1 / 3))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=8))
def test_pass_at_k_is_the_average_over_all_choices_of_k(samples: list[float]) -> None:
    estimates = pass_at_k({"q": samples})
    assert list(estimates) == [k for k in (1, 2, 4, 8) if k <= len(samples)]
    for k, found in estimates.items():
        choices = [max(choice) for choice in combinations(samples, k)]
        assert found.mean == pytest.approx(sum(choices) / len(choices))


def test_pass_at_k_leaves_out_questions_with_too_few_samples() -> None:
    estimates = pass_at_k({"a": [1.0], "b": [0.0, 1.0]})
    assert (estimates[1].mean, estimates[1].questions) == (0.75, 2)
    assert (estimates[2].mean, estimates[2].questions) == (1.0, 1)
