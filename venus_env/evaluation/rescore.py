"""Gives a recorded episode the rewards and the score that it would have earned under another rule, belief or judge."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from venus_env.beliefs.base import Belief
from venus_env.evaluation.metrics import final_answer
from venus_env.protocol.parser import clean_text
from venus_env.protocol.trajectory import Trajectory, TurnRecord
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS, End
from venus_env.rewards.compose import RewardConfig, compose_turn, episode_score, outcome_reward
from venus_env.rewards.information_gain import best_score, turn_gains
from venus_env.rewards.judge import Judge, check_verdict

logger = logging.getLogger(__name__)

_OPENING = 2  # system prompt and question: what is known at boundary 0


async def rescore(
    trajectory: Trajectory, *, rewards: RewardConfig, belief: Belief | None = None, judge: Judge | None = None
) -> Trajectory:
    """Compute the reward terms of every turn, the score and ``metrics["return"]`` of an episode anew.

    The rule is that of :class:`venus_env.session.ResearchSession`, so the rewards, the belief and the judge that an
    episode was recorded with give the same record again. What the policy and the tools did stays as it was recorded.

    An infrastructure ending stays what it is: no score, and no terms for the turn that failed. There is one exception:
    where only the judge of the final answer had failed, the answer is graded now and the episode counts as answered. A
    judge that fails now ends the episode as ``judge_failure``, and so does a belief that fails; since a belief scores
    all turns at once, no turn has terms then.

    Args:
        trajectory: The episode, which is not changed.
        rewards: What is rewarded.
        belief: Scores the accepted answers for information gain; None leaves information gain out.
        judge: Grades the answer in place of the rules that ``rewards`` names for outcome and score.

    Raises:
        ValueError: The trajectory's task names no accepted answers, so that nothing can be graded.
    """
    answers = _answers(trajectory)
    end, problem = _recorded_ending(trajectory)
    answer = final_answer(trajectory.model_copy(update={"end": end}))
    try:
        gains = await _gains(trajectory, rewards, belief, answers)
    except Exception as error:
        problem = _failed(trajectory, "belief", error)
        lost = end if end in INFRASTRUCTURE_ENDS else "judge_failure"
        return _record(trajectory, [{} for _ in trajectory.turns], lost, None, problem)
    verdict: float | None = None
    if end == "answered" and judge is not None:
        try:
            question = str(trajectory.task.get("question", ""))
            verdict = check_verdict(await judge.grade(question, answers, answer or ""))
        except Exception as error:
            end, problem = "judge_failure", _failed(trajectory, "judge", error)

    outcome = outcome_reward(rewards, answer, answers) if verdict is None else verdict
    terms = [
        compose_turn(rewards, kind=turn.kind, format_ok=turn.format_ok, gain=gain, outcome=outcome)
        for turn, gain in zip(trajectory.turns, gains, strict=True)
    ]
    if terms and _failed_in_last_turn(trajectory, end):
        terms[-1] = {}
    return _record(trajectory, terms, end, episode_score(rewards, end, answer, answers, verdict), problem)


def _answers(trajectory: Trajectory) -> list[str]:
    answers = trajectory.task.get("answers")
    if not isinstance(answers, list | tuple) or not answers or not all(isinstance(each, str) for each in answers):
        raise ValueError(
            f"the task {trajectory.task.get('id')!r} of a trajectory has no accepted answers (task.answers is "
            f"{answers!r}), so it cannot be scored: record it with its whole task"
        )
    return list(answers)


def _recorded_ending(trajectory: Trajectory) -> tuple[End, str | None]:
    """How the episode ended, grading left aside, and what went wrong last."""
    if not trajectory.turns:
        return trajectory.end, trajectory.error
    last = trajectory.turns[-1]
    if trajectory.end == "judge_failure" and last.kind == "answer":  # a belief is not asked about an answer
        return "answered", None
    return trajectory.end, last.error


async def _gains(
    trajectory: Trajectory, rewards: RewardConfig, belief: Belief | None, answers: Sequence[str]
) -> list[float | None]:
    """Information gain of each turn, None where it is not scored."""
    scored = [rewards.scores_turn(turn.kind, turn.tool) and _replied(trajectory, turn) for turn in trajectory.turns]
    if belief is None or not any(scored):
        return [None] * len(scored)
    after = [turn.message_index + 2 for turn in trajectory.turns]
    boundaries = [_OPENING, *(boundary for boundary, wanted in zip(after, scored, strict=True) if wanted)]
    start, *rest = [best_score(row) for row in await belief.score(trajectory, boundaries, answers)]
    following = iter(rest)
    return turn_gains([start, *(next(following) if wanted else None for wanted in scored)], rewards.gain_kind)


def _replied(trajectory: Trajectory, turn: TurnRecord) -> bool:
    return len(trajectory.messages) > turn.message_index + 1


def _failed_in_last_turn(trajectory: Trajectory, end: End) -> bool:
    """Whether the infrastructure failed in the last turn; an episode given up between two turns has lost none."""
    if end == "aborted":
        return not _replied(trajectory, trajectory.turns[-1])
    return end in INFRASTRUCTURE_ENDS


def _failed(trajectory: Trajectory, who: str, error: Exception) -> str:
    logger.error("task %s: the %s failed", trajectory.task.get("id"), who, exc_info=error)
    return clean_text(f"the {who} failed: {type(error).__name__}: {error}")


def _record(
    trajectory: Trajectory, terms: Sequence[dict[str, float]], end: End, score: float | None, problem: str | None
) -> Trajectory:
    turns = [turn.model_copy(update={"reward_terms": own}) for turn, own in zip(trajectory.turns, terms, strict=True)]
    if turns:
        turns[-1].error = problem
    metrics = {**trajectory.metrics, "return": float(sum(sum(own.values()) for own in terms))}
    error = problem if end in INFRASTRUCTURE_ENDS else None
    changed = {"turns": turns, "end": end, "score": score, "metrics": metrics, "error": error}
    return trajectory.model_copy(update=changed)
