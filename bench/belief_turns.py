"""Episodes whose every turn has a known worth: the trajectories of the validity study, and a label for each turn.

All of them go through the real session and tools. Labels look at what a reply says (the words that
:class:`venus_env.beliefs.evidence.EvidenceReader` leaves of it, so a query or a goal does not count) and at which pages
are gold; they never look at a belief.
"""

from __future__ import annotations

import asyncio
import html
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from venus_env.beliefs.evidence import EvidenceReader
from venus_env.corpus import LocalCorpus
from venus_env.corpus.text import JUDGEMENTS, canonical_url, words
from venus_env.policies.base import EpisodePolicies, Policy
from venus_env.policies.random import RandomPolicy
from venus_env.policies.scripted import OraclePolicy
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.seeding import derive_seed
from venus_env.tasks.task import Task

WRONG_PAGES = 4
"""Wrong pages that an episode of ``wrong`` opens."""

KINDS = (
    "gold page, answer first seen",
    "gold page, answer seen before",
    "gold page, a step before the answer",
    "other page, no answer on it",
    "other page that names the answer",
    "search, answer first seen",
    "search, nothing new of the answer",
)
"""What a tool turn brought."""

GROUPS = ("plain", "answer in the question", "judgement")
"""What a question asks for: a string to be found, one of its own words, or yes or no."""

Scripts = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class GoldPages:
    """Urls of the pages on a task's gold path, in reading order; titles are looked up where a task has no urls."""

    by_task: Mapping[str, tuple[str, ...]]

    @classmethod
    def find(cls, corpus: LocalCorpus, tasks: Sequence[Task]) -> GoldPages:
        urls = {_title(passage.title): passage.url for passage in corpus.passages()}
        found = {}
        for task in tasks:
            pages = (item.url or urls.get(_title(item.title), "") for item in task.evidence)
            found[task.id] = tuple(dict.fromkeys(url for url in pages if url))
        return cls(found)


class ScriptedCalls:
    """Writes the turns that were laid down for each task, then an answer."""

    needs_task: ClassVar[bool] = True

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> Policy:
        assert task is not None
        return _Script(self._scripts[task.id])


class _Script:
    def __init__(self, turns: Sequence[str]) -> None:
        self._turns = iter([*turns, render_answer("I stop here.", "unknown")])

    def act(self, messages: Sequence[Message]) -> str:
        return next(self._turns)


def policies(corpus: LocalCorpus, tasks: Sequence[Task], gold: GoldPages, seed: int) -> dict[str, EpisodePolicies]:
    """The four ways to play: by name, in the order of the tables.

    ``oracle`` and ``random`` are the policies of the package. ``wrong`` searches for the question and opens results
    that are not gold. ``pages`` opens the gold pages without any search, each beside one wrong result for its title, in
    random order: no snippet has told the answer before the page does.
    """
    titles = [item.title for task in tasks for item in task.evidence]
    queries = list(dict.fromkeys([*(task.question for task in tasks), *titles]))
    results = asyncio.run(corpus.search(queries, 10))
    hits = {
        query: list(dict.fromkeys(hit.passage.url for hit in found))
        for query, found in zip(queries, results, strict=True)
    }
    wrong: dict[str, list[str]] = {}
    pages: dict[str, list[str]] = {}
    for task in tasks:
        rng = random.Random(derive_seed(seed, task.id, "validity"))
        known = gold.by_task[task.id]
        others = [url for url in hits[task.question] if not _among(url, known)]
        search = render_call("I search for the question.", "search", {"query": [task.question]})
        wrong[task.id] = [search, *(_visit(url, task) for url in others[:WRONG_PAGES])]
        pages[task.id] = [_visit(url, task) for url in _beside_wrong_ones(task, known, hits, rng)]
    return {
        "oracle": OraclePolicy("varied", seed),
        "random": RandomPolicy(seed),
        "wrong": ScriptedCalls(wrong),
        "pages": ScriptedCalls(pages),
    }


def _beside_wrong_ones(
    task: Task, gold: Sequence[str], hits: Mapping[str, Sequence[str]], rng: random.Random
) -> list[str]:
    candidates = [url for item in task.evidence for url in hits[item.title] if not _among(url, gold)]
    order: list[str] = []
    for url in gold:
        unused = [other for other in candidates if other not in order]
        pair = [url, *rng.sample(unused, min(1, len(unused)))]
        rng.shuffle(pair)
        order += pair
    return order


def _visit(url: str, task: Task) -> str:
    return render_call("I open this page.", "visit", {"url": [url], "goal": task.question})


def group(task: Task) -> str:
    """Which of :data:`GROUPS` a question belongs to."""
    if all(tuple(words(answer)) in JUDGEMENTS for answer in task.answers):
        return "judgement"
    return "answer in the question" if _shows(words(task.question), task.answers) else "plain"


def label_turns(trajectory: Trajectory, task: Task, gold: Sequence[str]) -> list[str | None]:
    """One of :data:`KINDS` per turn; None for turns without a tool's reply."""
    labels: list[str | None] = []
    seen = False
    for turn in trajectory.turns:
        messages = trajectory.messages[turn.message_index : turn.message_index + 2]
        if turn.kind != "tool" or not turn.ok or len(messages) < 2:
            labels.append(None)
            continue
        shows = _shows([word for sentence in EvidenceReader().read(messages) for word in sentence], task.answers)
        if turn.tool == "search":
            labels.append(KINDS[5] if shows and not seen else KINDS[6])
        elif any(_among(url, gold) for url in (turn.arguments or {})["url"]):
            labels.append(KINDS[1] if shows and seen else KINDS[0] if shows else KINDS[2])
        else:
            labels.append(KINDS[4] if shows else KINDS[3])
        seen |= shows
    return labels


def _shows(text: Sequence[str], answers: Sequence[str]) -> bool:
    """Whether the words of an answer stand together in a text."""
    padded = f" {' '.join(text)} "
    return any(f" {' '.join(words(answer))} " in padded for answer in answers if words(answer))


def _among(url: str, gold: Sequence[str]) -> bool:
    return canonical_url(url) in map(canonical_url, gold)


def _title(title: str) -> str:
    return " ".join(words(html.unescape(title)))
