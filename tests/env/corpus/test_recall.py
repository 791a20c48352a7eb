from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from venus_env.corpus.document import Hit, Page, Passage
from venus_env.corpus.errors import CorpusError
from venus_env.corpus.recall import measure_recall
from venus_env.tasks.task import Evidence, Task


class Fixed:
    """A corpus that answers every query with the same titles."""

    content_hash = "fixed"

    def __init__(self, titles: str) -> None:
        self.titles = titles

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [[Hit(Passage(t, t, t, t), 1.0) for t in self.titles[:k]] for _ in queries]

    async def page(self, url: str) -> Page | None:
        return None

    def unigram_counts(self) -> Mapping[str, int]:
        return {}


def task(name: str, titles: str) -> Task:
    return Task(id=name, question=name, answers=("x",), evidence=tuple(Evidence(title=title) for title in titles))


async def test_macro_recall_by_hand() -> None:
    tasks = [task("1", "AC"), task("2", "BZ"), task("3", "")]
    result = await measure_recall(Fixed("ABC"), tasks, [1, 3])
    assert (result.questions, result.skipped) == (2, 1)
    assert result.at == {1: (0.5 + 0.0) / 2, 3: (1.0 + 0.5) / 2}


async def test_tasks_without_evidence_are_refused() -> None:
    with pytest.raises(CorpusError, match="needs tasks with evidence"):
        await measure_recall(Fixed("A"), [task("1", "")], [1])
    with pytest.raises(ValueError, match="every k"):
        await measure_recall(Fixed("A"), [task("1", "A")], [0])
