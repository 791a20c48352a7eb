"""Whether search results and page extracts show what a question needs: ``python -m bench.retrieval_reading``.

Extracts: on a page that holds the sentence with the answer, is that sentence in what ``visit`` shows? Pages are read as
they are, and hidden among the paragraphs of other pages, so that there is something to leave out. Goals are the
sub-questions of the embedded world (``relation of title``) and, harder, the whole question.

Snippets: of search results that hold the answer, how many show it?
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from venus_env.corpus import LocalCorpus, Page, Passage, open_corpus
from venus_env.corpus.text import sentences
from venus_env.evaluation.baselines import contains_answer
from venus_env.tasks.loaders import load_tasks
from venus_env.tools import SearchTool, VisitTool
from venus_env.tools.arguments import VisitArguments

BUDGETS = (300, 100)
OTHERS = (0, 10, 40)


@dataclass(frozen=True)
class Case:
    """A page, what is looked for on it, and the sentences of which one has to be shown."""

    kind: str
    page: Page
    goal: str
    wanted: tuple[str, ...]


class OnePage:
    """A corpus of one page, whatever the url."""

    content_hash = ""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def page(self, url: str) -> Page:
        return self._page


def wiki_cases(corpus: LocalCorpus, file: str) -> list[Case]:
    by_title = {passage.title: passage for passage in corpus.passages()}
    cases = []
    for task in load_tasks(file):
        for item in task.evidence:
            passage = by_title.get(item.title)
            if passage is None or task.answers[0] in ("yes", "no"):
                continue
            wanted = tuple(one for one in sentences(passage.text) if contains_answer(one, task.answers))
            if wanted:
                cases.append(Case("question", Page("u", item.title, (passage,)), task.question, wanted))
    return cases


def world_cases(corpus: LocalCorpus, tasks: int) -> list[Case]:
    cases = []
    for task in random.Random(0).sample(load_tasks("embedded", "test"), tasks):
        for item in task.evidence:
            page = asyncio.run(corpus.page(item.url or ""))
            if page is not None and item.sentence:
                goal = f"{item.relation} of {item.title}"
                cases.append(Case("sub-question", page, goal, (item.sentence,)))
                cases.append(Case("question", page, task.question, (item.sentence,)))
    return cases


def shown(case: Case, around: Sequence[Passage], others: int, budget: int) -> bool:
    rng = random.Random(f"{case.goal}{case.page.title}")
    passages = rng.sample(around, others)
    place = rng.randrange(others + 1)
    passages[place:place] = case.page.passages
    page = Page(case.page.url, case.page.title, tuple(passages))
    tool = VisitTool(OnePage(page), budget)  # type: ignore[arg-type]
    text = asyncio.run(tool(VisitArguments(url=["u"], goal=case.goal))).text
    evidence = text.split("Evidence in page: \n", 1)[1].rsplit("\n\nSummary: \n", 1)[0]
    return any(sentence in evidence for sentence in case.wanted)


def extracts(name: str, corpus: LocalCorpus, cases: Sequence[Case]) -> list[dict[str, Any]]:
    around = list(corpus.passages())
    rows = []
    for others in OTHERS:
        for budget in BUDGETS:
            for kind in sorted({case.kind for case in cases}):
                found = [shown(case, around, others, budget) for case in cases if case.kind == kind]
                share = round(sum(found) / len(found), 3)
                row = {"set": name, "goal": kind, "other_paragraphs": others, "tokens": budget, "cases": len(found)}
                rows.append(row | {"shown": share})
                print(rows[-1], flush=True)
    return rows


def snippets(corpus: LocalCorpus, file: str, sizes: Sequence[int] = (20, 40)) -> list[dict[str, Any]]:
    tasks = [task for task in load_tasks(file) if task.answers[0] not in ("yes", "no")]
    found = corpus.search_now([task.question for task in tasks], 10)
    rows = []
    for size in sizes:
        row: dict[str, Any] = {"words": size, "results_with_answer": 0, "query": 0, "leading": 0}
        for task, hits in zip(tasks, found, strict=True):
            for hit in hits:
                if contains_answer(hit.passage.text, task.answers):
                    row["results_with_answer"] += 1
                    for kind in ("query", "leading"):
                        tool = SearchTool(corpus, snippet_words=size, snippets=kind)  # type: ignore[arg-type]
                        row[kind] += contains_answer(tool.snippet(task.question, hit.passage), task.answers)
        rows.append(row)
        print(row)
    return rows


def main() -> None:
    """Measure both on wiki7k and the embedded world."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wiki7k", required=True, metavar="DIR", help="folder with corpus.jsonl and questions.jsonl")
    parser.add_argument("--tasks", type=int, default=200, metavar="N", help="questions of the embedded world")
    parser.add_argument("--out", metavar="FILE", help="write the result here")
    args = parser.parse_args()
    wiki, world = open_corpus(f"{args.wiki7k}/corpus.jsonl"), open_corpus("embedded")
    assert isinstance(wiki, LocalCorpus)
    assert isinstance(world, LocalCorpus)
    questions = f"{args.wiki7k}/questions.jsonl"
    result = {
        "extracts": extracts("wiki7k", wiki, wiki_cases(wiki, questions))
        + extracts("world", world, world_cases(world, args.tasks)),
        "snippets": snippets(wiki, questions),
    }
    if args.out:
        Path(args.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
