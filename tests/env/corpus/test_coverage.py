from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from venus_env.corpus.build import build_index
from venus_env.corpus.coverage import QuestionCoverage, measure_coverage
from venus_env.corpus.document import Hit, Page, Passage
from venus_env.corpus.local import LocalCorpus
from venus_env.tasks.task import Evidence, Task


class Fixed:
    """A corpus whose results are written down."""

    content_hash = "fixed"

    def __init__(self, results: Mapping[str, str], texts: Mapping[str, str]) -> None:
        self.results = results
        self.texts = texts

    def passage(self, title: str) -> Passage:
        return Passage(title, f"https://x/{title}", title, self.texts[title])

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [[Hit(self.passage(title), 1.0) for title in self.results.get(query, "")[:k]] for query in queries]

    async def page(self, url: str) -> Page | None:
        title = url.removeprefix("https://x/")
        return Page(url, title, (self.passage(title),)) if title in self.texts else None

    def unigram_counts(self) -> Mapping[str, int]:
        return {}


CORPUS = Fixed(
    results={"q": "CDB", "A": "CA", "B": "D", "B birthplace": "DDB"},
    texts={"A": "Nothing.", "B": "Born in São Paulo, Brazil.", "C": "Other.", "D": "Yes, other."},
)


async def cover(answers: tuple[str, ...], *evidence: Evidence, k: int = 5) -> QuestionCoverage:
    task = Task(id="t", question="q", answers=answers, evidence=evidence)
    return (await measure_coverage(CORPUS, [task], k)).questions[0]


async def test_an_answer_that_is_worked_out_need_not_stand_on_a_page() -> None:
    evidence = (Evidence(title="A", url="https://x/A"),)
    for kind, verdict in (("count", "reachable"), ("chain", "unreachable")):
        task = Task(id="t", question="q", answers=("12",), evidence=evidence, kind=kind)
        (found,) = (await measure_coverage(CORPUS, [task], 5)).questions
        assert (found.verdict, found.answer_on_evidence) == (verdict, None if kind == "count" else False)


async def test_ranks_and_answers_by_hand() -> None:
    found = await cover(
        ("sao paulo",), Evidence(title="A", url="https://x/A"), Evidence(title="B", relation="birthplace")
    )
    assert [(one.title, one.url, one.rank_question, one.rank_oracle) for one in found.evidence] == [
        ("A", "https://x/A", None, 2),
        ("B", "https://x/B", 3, 3),
    ]
    assert (found.verdict, found.reasons, found.hops) == ("reachable", (), 2)
    assert (found.answer_on_evidence, found.answer_in_corpus, found.answer_rank) == (True, None, 3)


@pytest.mark.parametrize(
    ("answers", "evidence", "verdict", "reason"),
    [
        (("Lima",), [Evidence(title="B", url="https://x/B")], "unreachable", "no accepted answer on an evidence page"),
        (("Lima", "Brazil"), [Evidence(title="B", url="https://x/B")], "reachable", None),
        (("yes",), [Evidence(title="A", url="https://x/A")], "reachable", None),
        (("x",), [Evidence(title="Z")], "unreachable", "not in the corpus: Z"),
        (("Brazil",), [], "unknown", None),
    ],
)
async def test_verdicts(answers: tuple[str, ...], evidence: list[Evidence], verdict: str, reason: str | None) -> None:
    found = await cover(answers, *evidence)
    assert found.verdict == verdict
    assert (reason in found.reasons) if reason else not found.reasons


async def test_depth_counts() -> None:
    found = await cover(("Brazil",), Evidence(title="B", url="https://x/B"), k=2)
    assert found.reasons == ("not among the first 2: B",)
    with pytest.raises(ValueError, match="k must be at least 1"):
        await cover(("x",), k=0)


async def test_answers_are_looked_for_in_all_of_a_local_corpus(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    build_index(write(rows), tmp_path / "index")
    tasks = [
        Task(id="1", question="Where was she born?", answers=("Warsaw",), evidence=(Evidence(title="Marie Curie"),)),
        Task(id="2", question="x", answers=("Saone meets the Rhone", "rhone meets THE saone")),
        Task(id="3", question="x", answers=("Saone Rhone",)),
        Task(id="4", question="x", answers=("no",), hops=3),
    ]
    coverage = await measure_coverage(LocalCorpus(tmp_path / "index"), tasks)
    assert [one.answer_in_corpus for one in coverage.questions] == [True, True, False, None]
    assert coverage.by_hops() == {
        "1": {"reachable": 1, "unreachable": 0, "unknown": 0},
        "3": {"reachable": 0, "unreachable": 0, "unknown": 1},
        "-": {"reachable": 0, "unreachable": 0, "unknown": 2},
        "all": {"reachable": 1, "unreachable": 0, "unknown": 3},
    }
    assert "evidence pages in the corpus: 1 of 1 (100%)" in coverage.table()
    record = json.loads(json.dumps(coverage.record()))
    assert record["questions"][0]["evidence"][0]["url"] == "https://venus.wiki/Marie_Curie"


async def test_questions_of_the_embedded_world_are_reachable() -> None:
    from venus_env.corpus import open_corpus
    from venus_env.tasks import load_tasks

    coverage = await measure_coverage(open_corpus("embedded"), load_tasks("embedded", "test")[:40])
    assert {question.verdict for question in coverage.questions} == {"reachable"}
