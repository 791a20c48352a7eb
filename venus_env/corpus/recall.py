"""How well a corpus finds the pages that questions need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from venus_env.corpus.document import Corpus
from venus_env.corpus.errors import CorpusError
from venus_env.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Recall:
    """Macro-averaged recall of evidence pages.

    Attributes:
        questions: Questions that name their evidence.
        skipped: Questions that do not.
        at: Mean share of a question's evidence titles among the first k pages, by k.
    """

    questions: int
    skipped: int
    at: dict[int, float]


async def measure_recall(corpus: Corpus, tasks: Sequence[Task], ks: Sequence[int]) -> Recall:
    """Search each question as it stands and look for the titles of its evidence.

    Raises:
        CorpusError: No task names its evidence.
    """
    if not ks or min(ks) < 1:
        raise ValueError(f"recall: every k must be at least 1, got {list(ks)}")
    wanted = [(task.question, {item.title for item in task.evidence}) for task in tasks if task.evidence]
    if not wanted:
        raise CorpusError("recall needs tasks with evidence (or supporting_titles); none of these tasks has any")
    found = await corpus.search([question for question, _ in wanted], max(ks))
    shares: dict[int, list[float]] = {k: [] for k in sorted(set(ks))}
    for (_, titles), hits in zip(wanted, found, strict=True):
        seen = [hit.passage.title for hit in hits]
        for k, values in shares.items():
            values.append(len(titles.intersection(seen[:k])) / len(titles))
    return Recall(
        questions=len(wanted),
        skipped=len(tasks) - len(wanted),
        at={k: sum(values) / len(values) for k, values in shares.items()},
    )
