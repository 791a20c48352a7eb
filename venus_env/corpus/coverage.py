"""Was the answer reachable? What a corpus holds, and a search shows, of what questions need.

Where only opened pages earn information gain, a question whose evidence is not in the corpus, or which no query finds,
gives no reward signal at all: measure before training, and leave such questions out.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tqdm import tqdm

from venus_env.corpus.document import Corpus, Hit, Page, Passage
from venus_env.corpus.local import LocalCorpus
from venus_env.corpus.text import JUDGEMENTS, canonical_url, words
from venus_env.tasks.task import Evidence, Task

Verdict = Literal["reachable", "unreachable", "unknown"]

_BATCH = 64
_WORKED_OUT = {"count", "interval"}  # kinds of the full world whose answers are computed and stand on no page


@dataclass(frozen=True, slots=True)
class EvidenceCoverage:
    """One evidence page of a question.

    Attributes:
        title: Title of the page.
        url: Its url in the corpus; None if the corpus has neither its url nor its title.
        rank_question: Its place, from 1, among the results for the question itself; None if not among the first k.
        rank_oracle: Its best place under the oracle's queries: the title, and title and relation where one is given.
    """

    title: str
    url: str | None
    rank_question: int | None
    rank_oracle: int | None


@dataclass(frozen=True, slots=True)
class QuestionCoverage:
    """What the corpus holds for one question.

    Attributes:
        id: Id of the task.
        hops: Its hops, or the number of its evidence pages where these are not given.
        verdict: ``reachable`` if every evidence page is in the corpus and among the first k results of the question or
            of an oracle query, and an accepted answer stands on one of them; ``unknown`` if the task names no evidence.
        reasons: Why it is not reachable.
        evidence: Its pages.
        answer_on_evidence: An accepted answer occurs on an evidence page; None for yes/no and worked-out answers, and
            without evidence.
        answer_in_corpus: An accepted answer occurs anywhere; None for such answers and remote corpora.
        answer_rank: Place of the first page with an accepted answer among the results for the question.
    """

    id: str
    hops: int | None
    verdict: Verdict
    reasons: tuple[str, ...]
    evidence: tuple[EvidenceCoverage, ...]
    answer_on_evidence: bool | None
    answer_in_corpus: bool | None
    answer_rank: int | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of many questions.

    Attributes:
        k: Results looked at per query.
        content_hash: The corpus.
        questions: One entry per task, in order.
    """

    k: int
    content_hash: str
    questions: tuple[QuestionCoverage, ...]

    def record(self) -> dict[str, Any]:
        """Plain JSON value."""
        summary = {name: {verdict: counts[verdict] for verdict in counts} for name, counts in self.by_hops().items()}
        questions = [asdict(question) for question in self.questions]
        return {"k": self.k, "content_hash": self.content_hash, "summary": summary, "questions": questions}

    def by_hops(self) -> dict[str, dict[str, int]]:
        """Number of questions by hops (and ``all``) and verdict."""
        counts: defaultdict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_VERDICTS, 0))
        for question in sorted(self.questions, key=lambda one: (one.hops is None, one.hops)):
            for row in ("-" if question.hops is None else str(question.hops), "all"):
                counts[row][question.verdict] += 1
        counts["all"] = counts.pop("all")  # last
        return dict(counts)

    def table(self) -> str:
        """Counts by hops, and how the questions with evidence fare on each condition."""
        lines = [f"{'hops':>5} {'questions':>9} {'reachable':>9} {'unreachable':>11} {'unknown':>7}"]
        for hops, counts in self.by_hops().items():
            reachable, unreachable, unknown = (counts[verdict] for verdict in _VERDICTS)
            total = reachable + unreachable + unknown
            lines.append(f"{hops:>5} {total:>9} {reachable:>9} {unreachable:>11} {unknown:>7}")
        known = [question for question in self.questions if question.evidence]
        pages = [page for question in known for page in question.evidence]
        answers = [question.answer_on_evidence for question in known if question.answer_on_evidence is not None]
        anywhere = [one.answer_in_corpus for one in self.questions if one.answer_in_corpus is not None]
        lines += [
            _share("evidence pages in the corpus", [page.url is not None for page in pages]),
            _share(f"... in the first {self.k} for the question", [page.rank_question is not None for page in pages]),
            _share(f"... in the first {self.k} for an oracle query", [page.rank_oracle is not None for page in pages]),
            _share("answer on an evidence page (yes/no and counts aside)", answers),
            _share("answer anywhere in the corpus (yes/no and counts aside)", anywhere),
        ]
        return "\n".join(lines)


_VERDICTS: tuple[Verdict, ...] = ("reachable", "unreachable", "unknown")


async def measure_coverage(corpus: Corpus, tasks: Sequence[Task], k: int = 10) -> Coverage:
    """Look for the evidence and the answers of tasks in a corpus.

    Args:
        corpus: What is searched; answers are looked for in all of it if it is on this machine.
        tasks: At least one.
        k: Results looked at per query, at least 1.
    """
    if k < 1:
        raise ValueError(f"coverage: k must be at least 1, got {k}")
    anywhere = _answers_present(corpus, tasks) if isinstance(corpus, LocalCorpus) else None
    questions: list[QuestionCoverage] = []
    with tqdm(desc="searching", total=len(tasks), unit="question", disable=None) as bar:
        for start in range(0, len(tasks), _BATCH):
            batch = tasks[start : start + _BATCH]
            queries = dict.fromkeys(query for task in batch for query in _queries(task))
            hits = dict(zip(queries, await corpus.search(list(queries), k), strict=True))
            for task in batch:
                questions.append(await _question(corpus, task, hits, k, anywhere))
            bar.update(len(batch))
    return Coverage(k, corpus.content_hash, tuple(questions))


def _queries(task: Task) -> list[str]:
    return [task.question, *(query for evidence in task.evidence for query in _oracle_queries(evidence))]


def _oracle_queries(evidence: Evidence) -> list[str]:
    return [evidence.title, *([f"{evidence.title} {evidence.relation}"] if evidence.relation else [])]


async def _question(
    corpus: Corpus, task: Task, hits: dict[str, list[Hit]], k: int, anywhere: set[str] | None
) -> QuestionCoverage:
    answers = _strings(task)
    results = hits[task.question]
    pages: dict[str, Page] = {}
    found = []
    for evidence in {(one.url, one.title): one for one in task.evidence}.values():
        of_oracle = [hits[query] for query in _oracle_queries(evidence)]
        page = await _find(corpus, evidence, [results, *of_oracle])
        if page is None:
            found.append(EvidenceCoverage(evidence.title, None, None, None))
            continue
        pages[page.url] = page
        places = [place for some in of_oracle if (place := _place(some, page.url)) is not None]
        found.append(EvidenceCoverage(evidence.title, page.url, _place(results, page.url), min(places, default=None)))
    on_evidence = any(_on_page(page, answers) for page in pages.values()) if answers and found else None
    reasons = [f"not in the corpus: {one.title}" for one in found if one.url is None]
    reasons += [
        f"not among the first {k}: {one.title}"
        for one in found
        if one.url is not None and one.rank_question is None and one.rank_oracle is None
    ]
    if on_evidence is False and len(pages) == len(found):  # else it may stand on the page that is missing
        reasons.append("no accepted answer on an evidence page")
    return QuestionCoverage(
        id=task.id,
        hops=task.hops or len(found) or None,
        verdict="unknown" if not found else "unreachable" if reasons else "reachable",
        reasons=tuple(reasons),
        evidence=tuple(found),
        answer_on_evidence=on_evidence,
        answer_in_corpus=None if anywhere is None or not answers else task.id in anywhere,
        answer_rank=await _answer_rank(corpus, results, answers),
    )


async def _find(corpus: Corpus, evidence: Evidence, rankings: list[list[Hit]]) -> Page | None:
    """Find the page of an evidence by its url, else by its title among the results of the queries that name it."""
    page = await corpus.page(evidence.url) if evidence.url else None
    if page is not None:
        return page
    wanted = words(html.unescape(evidence.title))
    for hits in rankings:
        for hit in hits:
            if words(html.unescape(hit.passage.title)) == wanted:
                return await corpus.page(hit.passage.url)
    return None


def _place(hits: list[Hit], url: str) -> int | None:
    wanted = canonical_url(url)
    return next((place for place, hit in enumerate(hits, 1) if canonical_url(hit.passage.url) == wanted), None)


async def _answer_rank(corpus: Corpus, hits: list[Hit], answers: list[tuple[str, ...]]) -> int | None:
    for place, hit in enumerate(hits, start=1):
        page = await corpus.page(hit.passage.url) if answers else None
        if page is not None and _on_page(page, answers):
            return place
    return None


def _strings(task: Task) -> list[tuple[str, ...]]:
    """Accepted answers as words; none that is a judgement, and none at all where the answer is worked out."""
    if task.kind in _WORKED_OUT:
        return []
    split = (tuple(words(answer)) for answer in task.answers)
    return [answer for answer in split if answer and answer not in JUDGEMENTS]


def _on_page(page: Page, answers: list[tuple[str, ...]]) -> bool:
    wanted = dict.fromkeys(answers, frozenset({""}))
    return any(_occurring(passage, _by_first_word(wanted)) for passage in page.passages)


def _answers_present(corpus: LocalCorpus, tasks: Sequence[Task]) -> set[str]:
    """Ids of the tasks of which an accepted answer occurs in some passage; one pass over the corpus for all of them."""
    asked: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for task in tasks:
        for answer in _strings(task):
            asked[answer].add(task.id)
    by_first = _by_first_word(asked)
    present: set[str] = set()
    for passage in tqdm(corpus.passages(), desc="looking for answers", unit="passage", disable=None):
        present.update(_occurring(passage, by_first))
    return present


_ByFirstWord = dict[str, list[tuple[tuple[str, ...], Iterable[str]]]]


def _by_first_word(answers: dict[tuple[str, ...], Any]) -> _ByFirstWord:
    table: _ByFirstWord = {}
    for answer, ids in answers.items():
        table.setdefault(answer[0], []).append((answer, ids))
    return table


def _occurring(passage: Passage, by_first: _ByFirstWord) -> set[str]:
    """Ids of the answers that occur in a passage or its title, word by word."""
    found: set[str] = set()
    for text in (passage.title, passage.text):
        split = words(text)
        for place, word in enumerate(split):
            for answer, ids in by_first.get(word, ()):
                if tuple(split[place : place + len(answer)]) == answer:
                    found.update(ids)
    return found


def _share(name: str, flags: Sequence[bool | None]) -> str:
    counted = sum(map(bool, flags))
    return f"{name}: {counted} of {len(flags)}" + (f" ({counted / len(flags):.0%})" if flags else "")
