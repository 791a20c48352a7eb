"""How hard questions are, measured: a guess, a single search, and the oracle, by kind and by number of hops."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from venus_env.corpus.document import Corpus
from venus_env.evaluation.baselines import single_search_hits
from venus_env.evaluation.runner import evaluate
from venus_env.policies.scripted import OraclePolicy, Style
from venus_env.protocol.config import EpisodeConfig
from venus_env.rewards.compose import RewardConfig
from venus_env.rewards.outcome import exact_match
from venus_env.session import ResearchSession
from venus_env.tasks.task import Task
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool

ORACLE_STYLES: tuple[Style, ...] = ("direct", "recover", "cross_check")
DEEP = 3
_MAX_TURNS = 40

Scores = dict[str, list[float]]


def measure(
    corpus: Corpus, train: Sequence[Task], test: Sequence[Task], *, oracle_episodes: int, seed: int = 0
) -> dict[str, Any]:
    """Measure the questions of a split.

    Args:
        corpus: The world's pages.
        train: Training questions; a guess draws on their answers.
        test: Questions to measure.
        oracle_episodes: Test questions that the oracle plays, drawn at random, in each of its styles.
        seed: Draws them.

    Returns:
        JSON value: per row (kind, hops, or both) the number of questions and the share that a guess, a single search
        and the oracle answer; the last is None for rows of which the oracle has played nothing.
    """
    guessed = closed_book(train, test)
    searched = asyncio.run(single_search_hits(SearchTool(corpus), test))
    played = random.Random(f"{seed}/oracle").sample(range(len(test)), min(oracle_episodes, len(test)))
    styles = {
        style: asyncio.run(oracle_scores(corpus, [test[number] for number in played], style, seed))
        for style in ORACLE_STYLES
    }
    oracle: dict[int, float] = {
        number: fmean(scores[place] for scores in styles.values()) for place, number in enumerate(played)
    }

    def row(members: Sequence[int]) -> dict[str, Any]:
        known = [oracle[number] for number in members if number in oracle]
        return {
            "questions": len(members),
            "closed_book": _share(guessed[number] for number in members),
            "single_search": _share(searched[number] for number in members),
            "oracle": _share(known) if known else None,
        }

    def rows(key: Callable[[Task], str]) -> dict[str, dict[str, Any]]:
        groups: dict[str, list[int]] = defaultdict(list)
        for number, task in enumerate(test):
            groups[key(task)].append(number)
        return {name: row(groups[name]) for name in sorted(groups)}

    return {
        "all": row(range(len(test))),
        "deep": row([number for number, task in enumerate(test) if (task.hops or 0) >= DEEP]),
        "hops": rows(lambda task: str(task.hops)),
        "kind": rows(lambda task: str(task.kind)),
        "kind and hops": rows(lambda task: f"{task.kind}, {task.hops}"),
        "difficulty": rows(lambda task: str(task.difficulty)),
        "oracle styles": {style: _share(scores) for style, scores in styles.items()},
        "oracle episodes": len(played) * len(styles),
    }


def closed_book(train: Sequence[Task], test: Sequence[Task]) -> list[float]:
    """Score of answering with the most frequent training answer to the same kind of question about the same fact."""
    usual: dict[tuple[str | None, str | None], Counter[str]] = defaultdict(Counter)
    for task in train:
        usual[_asked(task)][task.answers[0]] += 1
    guesses = {asked: counted.most_common(1)[0][0] for asked, counted in usual.items()}
    return [exact_match(guesses.get(_asked(task)), task.answers) for task in test]


def _asked(task: Task) -> tuple[str | None, str | None]:
    return task.kind, task.evidence[-1].relation if task.evidence else None


async def oracle_scores(corpus: Corpus, tasks: Sequence[Task], style: Style, seed: int) -> list[float]:
    """Exact match of the oracle on each task through the real tools, in the order given."""
    tools = (SearchTool(corpus), VisitTool(corpus))
    config = EpisodeConfig(max_turns=_MAX_TURNS)
    rewards = RewardConfig(information_gain=False)
    trajectories = await evaluate(
        OraclePolicy(style, seed),
        tasks,
        lambda task, episode_seed: ResearchSession(task, tools, config=config, rewards=rewards, seed=episode_seed),
        seed=seed,
    )
    return [trajectory.score or 0.0 for trajectory in trajectories]


def _share(values: Iterable[float]) -> float:
    return round(fmean(values), 4)
