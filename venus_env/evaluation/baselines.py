"""What a score has to be compared with: answering from memory, and a single search.

A question that a policy answers without reading, or whose answer stands in the first search results, says little about
research. Both figures stand beside every result.
"""

from __future__ import annotations

from collections.abc import Sequence

from venus_env.evaluation.metrics import Estimate, estimate, summarise
from venus_env.evaluation.runner import evaluate
from venus_env.policies.base import EpisodePolicies, Policy
from venus_env.protocol.config import EpisodeConfig
from venus_env.rewards.outcome import normalise_answer
from venus_env.session import ResearchSession
from venus_env.tasks.task import Task
from venus_env.tools.base import Tool
from venus_env.tools.search import SearchTool

_BATCH = 256  # queries per search


async def closed_book_score(
    policy: Policy | EpisodePolicies,
    tasks: Sequence[Task],
    tools: Sequence[Tool],
    config: EpisodeConfig,
    *,
    concurrency: int = 64,
    seed: int = 0,
    progress: bool = True,
) -> Estimate:
    """Exact match of the same policy when it has to answer at once.

    The prompt stays what it is, tools included, and the question asks for the final answer right away.
    """
    at_once = config.model_copy(update={"max_turns": 1, "turn_jitter": 0, "force_final_answer": True})
    trajectories = await evaluate(
        policy,
        tasks,
        lambda task, episode_seed: ResearchSession(task, tools, config=at_once, seed=episode_seed),
        concurrency=concurrency,
        seed=seed,
        progress=progress,
    )
    return summarise(trajectories).exact_match


async def single_search_score(search: SearchTool, tasks: Sequence[Task]) -> Estimate:
    """Share of questions with an accepted answer in what one search for the question itself shows.

    An answer counts wherever its words stand together in the title or the snippet of one of the top results.
    """
    return estimate(await single_search_hits(search, tasks))


async def single_search_hits(search: SearchTool, tasks: Sequence[Task]) -> list[float]:
    """Per question, in order: 1.0 if one search for it shows an accepted answer, else 0.0."""
    found: list[float] = []
    for start in range(0, len(tasks), _BATCH):
        batch = tasks[start : start + _BATCH]
        results = await search.corpus.search([task.question for task in batch], search.top_k)
        for task, hits in zip(batch, results, strict=True):
            shown = [f"{hit.passage.title} \n {search.snippet(task.question, hit.passage)}" for hit in hits]
            found.append(float(any(contains_answer(text, task.answers) for text in shown)))
    return found


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether the words of one of the ``answers`` stand together in ``text``, after normalisation."""
    padded = f" {normalise_answer(text)} "
    wanted = (normalise_answer(answer) for answer in answers)
    return any(answer and f" {answer} " in padded for answer in wanted)
