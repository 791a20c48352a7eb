"""Figures over many episodes: scores with standard errors, pass@k, and how the episodes went."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from venus_env.protocol.parser import Answer, parse_turn, repair_turn
from venus_env.protocol.prompt import restore
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS
from venus_env.rewards.outcome import exact_match, word_f1


class Estimate(BaseModel):
    """A mean over questions with its standard error.

    Attributes:
        mean: None without a single question.
        standard_error: Of the mean over questions, not over episodes (samples of one question are not independent);
            None with fewer than two questions.
        questions: Number of questions.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mean: float | None
    standard_error: float | None
    questions: int


class Summary(BaseModel):
    """What a set of trajectories amounts to. Everything but ``ends`` is over graded episodes.

    Attributes:
        episodes: All episodes.
        graded: Episodes that count: all that the infrastructure did not end.
        ends: Episodes by ending.
        forced: Share that was asked for a final answer at a limit.
        exact_match: Exact match of the final answer.
        f1: Word F1 of the final answer.
        score: The score that the episodes carry.
        exact_match_by_hops: Exact match by number of hops, where known.
        pass_at: Unbiased estimate of the chance that at least one of k samples is an exact match.
        return_per_episode: Mean sum of rewards.
        reward_terms: Mean sum per episode of each reward term.
        turns: Mean number of turns.
        tool_calls: Mean number of tool calls, by tool and in ``all``.
        duplicate_rate: Share of tool calls that repeated an earlier one.
        format_error_rate: Share of turns that were badly formed.
        gain_coverage: Share of well-formed tool turns with an information gain; None without such turns.
        context_tokens: Mean length of the conversation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    episodes: int
    graded: int
    ends: dict[str, int]
    forced: float | None
    exact_match: Estimate
    f1: Estimate
    score: Estimate
    exact_match_by_hops: dict[int, Estimate]
    pass_at: dict[int, Estimate]
    return_per_episode: float | None
    reward_terms: dict[str, float]
    turns: float | None
    tool_calls: dict[str, float]
    duplicate_rate: float | None
    format_error_rate: float | None
    gain_coverage: float | None
    context_tokens: float | None


def summarise(trajectories: Sequence[Trajectory]) -> Summary:
    """Summarise finished episodes; those that the infrastructure ended are counted and otherwise left out."""
    running = [trajectory.task.get("id") for trajectory in trajectories if trajectory.end == "running"]
    if running:
        raise ValueError(f"the episodes of tasks {running[:5]} are still running: summarise finished ones")
    graded = [trajectory for trajectory in trajectories if trajectory.end not in INFRASTRUCTURE_ENDS]
    matches = _per_question(graded, lambda trajectory: exact_match(final_answer(trajectory), _answers(trajectory)))
    hops = {_question(trajectory): trajectory.task.get("hops") for trajectory in graded}
    turns = [turn for trajectory in graded for turn in trajectory.turns]
    calls = [turn for turn in turns if turn.kind == "tool"]
    rewardable = [turn for turn in calls if turn.format_ok]
    return Summary(
        episodes=len(trajectories),
        graded=len(graded),
        ends=dict(sorted(Counter(trajectory.end for trajectory in trajectories).items())),
        forced=_mean(trajectory.forced is not None for trajectory in graded),
        exact_match=estimate(_means(matches).values()),
        f1=estimate(_means(_per_question(graded, lambda each: word_f1(final_answer(each), _answers(each)))).values()),
        score=estimate(_means(_per_question(graded, lambda each: each.score or 0.0)).values()),
        exact_match_by_hops={
            number: estimate(mean for question, mean in _means(matches).items() if hops[question] == number)
            for number in sorted({number for number in hops.values() if number is not None})
        },
        pass_at=pass_at_k(matches),
        return_per_episode=_mean(sum(sum(turn.reward_terms.values()) for turn in each.turns) for each in graded),
        reward_terms=_reward_terms(graded),
        turns=_mean(len(trajectory.turns) for trajectory in graded),
        tool_calls=_tool_calls(graded),
        duplicate_rate=_mean(turn.duplicate for turn in calls),
        format_error_rate=_mean(not turn.format_ok for turn in turns),
        gain_coverage=_mean("information_gain" in turn.reward_terms for turn in rewardable),
        context_tokens=_mean(trajectory.usage.get("context_tokens", 0) for trajectory in graded),
    )


def final_answer(trajectory: Trajectory) -> str | None:
    """The answer that an episode gave, read as the episode read it; None if it gave none."""
    if trajectory.end != "answered" or not trajectory.turns:
        return None
    turn = parse_turn(repair_turn(trajectory.messages[trajectory.turns[-1].message_index]["content"]))
    return restore(turn.text).strip() if isinstance(turn, Answer) else None


def estimate(values: Iterable[float]) -> Estimate:
    """Mean and standard error over questions."""
    numbers = list(values)
    count = len(numbers)
    if count == 0:
        return Estimate(mean=None, standard_error=None, questions=0)
    mean = math.fsum(numbers) / count
    if count == 1:
        return Estimate(mean=mean, standard_error=None, questions=1)
    variance = math.fsum((number - mean) ** 2 for number in numbers) / (count - 1)
    return Estimate(mean=mean, standard_error=math.sqrt(variance / count), questions=count)


def pass_at_k(results: Mapping[str, Sequence[float]]) -> dict[int, Estimate]:
    """``1 - C(n - c, k) / C(n, k)`` averaged over questions, for n samples of which c are right.

    Args:
        results: Per question, 1.0 for each right sample and 0.0 for each wrong one.

    Returns:
        Estimates for k = 1, 2, 4, … up to the most samples that any question has; a question with fewer than k samples
        is left out at k.
    """
    most = max((len(samples) for samples in results.values()), default=0)
    estimates = {}
    k = 1
    while k <= most:
        estimates[k] = estimate(
            1.0 - math.comb(len(samples) - round(sum(samples)), k) / math.comb(len(samples), k)
            for samples in results.values()
            if len(samples) >= k
        )
        k *= 2
    return estimates


def _question(trajectory: Trajectory) -> str:
    return str(trajectory.task["id"])


def _answers(trajectory: Trajectory) -> list[str]:
    return list(trajectory.task["answers"])


def _per_question(trajectories: Sequence[Trajectory], value: Callable[[Trajectory], float]) -> dict[str, list[float]]:
    grouped: dict[str, list[float]] = defaultdict(list)
    for trajectory in trajectories:
        grouped[_question(trajectory)].append(value(trajectory))
    return grouped


def _means(grouped: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {question: math.fsum(values) / len(values) for question, values in grouped.items()}


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else None


def _reward_terms(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for trajectory in trajectories:
        for turn in trajectory.turns:
            for name, value in turn.reward_terms.items():
                sums[name] += value  # type: ignore[assignment]  # a Counter of floats
    return {name: total / len(trajectories) for name, total in sorted(sums.items())}


def _tool_calls(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    if not trajectories:
        return {}
    counts = Counter(turn.tool or "?" for each in trajectories for turn in each.turns if turn.kind == "tool")
    calls = {"all": counts.total(), **dict(sorted(counts.items()))}
    return {tool: count / len(trajectories) for tool, count in calls.items()}
