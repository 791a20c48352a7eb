"""Stage ``correctness``: does the final answer agree with an accepted one? A judge that fails has not said "wrong"."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from venus_env.rewards.judge import Judge, check_verdict
from venus_env.rewards.llm_judge import JudgeError
from venus_env.rewards.outcome import exact_match, word_f1
from venus_rl.data.calls import ANSWER, RawMessage


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known about an answer, and why where it is not obvious.

    ``undecided``: the judge failed or its budget is spent; ``no_answers``: the source does not tell what is right.
    """

    value: Literal["correct", "wrong", "undecided", "no_answers"]
    detail: str = ""


def final_answer(messages: Sequence[RawMessage]) -> str:
    """Text of the last answer in the last message; empty if there is none."""
    answers = ANSWER.findall(messages[-1].get("content") or "") if messages else []
    return str(answers[-1]).strip() if answers else ""


def match(answers: Sequence[str], prediction: str, f1_threshold: float | None = None) -> Verdict:
    """Compare words.

    Args:
        answers: Accepted answers, aliases included.
        prediction: The final answer.
        f1_threshold: Least word F1 of a right answer; None demands that it equals an accepted one after normalisation.
    """
    if not answers:
        return Verdict("no_answers", "no accepted answer is known")
    if f1_threshold is None:
        right = exact_match(prediction, answers) == 1.0
        return Verdict("correct" if right else "wrong", "" if right else f"answered {prediction[:200]!r}")
    score = word_f1(prediction, answers)
    return Verdict("correct" if score >= f1_threshold else "wrong", f"word F1 {score:.3f}")


async def ask(judge: Judge, questions: Sequence[tuple[str, Sequence[str], str]]) -> list[Verdict]:
    """Have a judge decide on every ``(question, accepted answers, final answer)``, all at once; in the same order."""
    return list(await asyncio.gather(*(_ask(judge, *question) for question in questions)))


async def _ask(judge: Judge, question: str, answers: Sequence[str], prediction: str) -> Verdict:
    if not answers:
        return Verdict("no_answers", "no accepted answer is known")
    try:
        verdict = check_verdict(await judge.grade(question, answers, prediction))
    except JudgeError as error:
        return Verdict("undecided", str(error))
    return Verdict("correct") if verdict >= 0.5 else Verdict("wrong", f"answered {prediction[:200]!r}")
