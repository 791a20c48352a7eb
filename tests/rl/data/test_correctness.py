from __future__ import annotations

from collections.abc import Sequence

import pytest

from venus_env.rewards.llm_judge import JudgeError
from venus_rl.data.correctness import ask, final_answer, match


def test_the_last_answer_of_the_last_message_counts() -> None:
    messages = [
        {"role": "assistant", "content": "<answer>0</answer>"},
        {"role": "assistant", "content": "<think>t</think><answer>1</answer>\n<answer>\n 2 \n</answer>"},
    ]
    assert final_answer(messages) == "2"
    assert final_answer([{"role": "assistant", "content": "none"}]) == final_answer([]) == ""


@pytest.mark.parametrize(
    ("answers", "prediction", "threshold", "verdict"),
    [
        (("Elbe", "the Labe"), "The Labe.", None, "correct"),
        (("Elbe",), "the river Elbe", None, "wrong"),
        (("Elbe",), "the river Elbe", 0.5, "correct"),
        (("Elbe",), "the river Elbe", 0.51, "wrong"),
        (("Elbe",), "", 0.1, "wrong"),
        ((), "Elbe", None, "no_answers"),
    ],
)
def test_matching(answers: tuple[str, ...], prediction: str, threshold: float | None, verdict: str) -> None:
    assert match(answers, prediction, threshold).value == verdict


async def test_a_failed_judge_has_not_said_wrong() -> None:
    class Moody:
        async def grade(self, question: str, answers: Sequence[str], prediction: str) -> float:
            if prediction == "?":
                raise JudgeError("the server is down")
            return float(prediction)

    made = await ask(Moody(), [("q", ("a",), "1"), ("q", ("a",), "0"), ("q", ("a",), "?"), ("q", (), "1")])
    assert [verdict.value for verdict in made] == ["correct", "wrong", "undecided", "no_answers"]
    assert made[2].detail == "the server is down"
