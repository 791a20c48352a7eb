from __future__ import annotations

from collections.abc import Sequence

import pytest

from venus_env.corpus import Corpus
from venus_env.evaluation.baselines import closed_book_score, contains_answer, single_search_score
from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.turns import Message
from venus_env.tasks.task import Task
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool


async def test_closed_book_allows_no_tools(corpus: Corpus, tasks: list[Task]) -> None:
    class KnowsLyon:
        def act(self, messages: Sequence[Message]) -> str:
            assert len(messages) == 2
            if "Lyon" in messages[1]["content"]:
                return render_answer("", "Ann Leroy")
            return render_call("", "search", {"query": ["Oslo"]})  # not granted

    tools = [SearchTool(corpus), VisitTool(corpus)]
    score = await closed_book_score(KnowsLyon(), tasks, tools, EpisodeConfig(turn_jitter=3), progress=False)
    assert score.mean == pytest.approx(1 / 3)
    assert score.questions == 3


async def test_single_search_sees_what_the_snippets_show(corpus: Corpus, tasks: list[Task]) -> None:
    # Six words of a page stop before the answer, all ten hold it.
    assert (await single_search_score(SearchTool(corpus, top_k=1, snippet_words=6), tasks)).mean == 0.0
    full = await single_search_score(SearchTool(corpus, top_k=1, snippet_words=20), tasks)
    assert (full.mean, full.questions) == (1.0, 3)


def test_contains_answer() -> None:
    assert contains_answer("Its mayor is ANN-Leroy.", ["Ann Leroy"])
    assert not contains_answer("Anna Leroy", ["Ann"])
    assert not contains_answer("anything", ["!!"])
