"""Chooses the questions of a split: kinds and depths by quota, within limits, each proven, worded and checked."""

from __future__ import annotations

import logging
import random
import re
from collections import Counter
from dataclasses import dataclass

from venus_env.corpus.text import words
from venus_env.tasks.task import Task
from venus_env.tasks.world.full.ask import ask
from venus_env.tasks.world.full.candidates import Candidate, candidates
from venus_env.tasks.world.full.queries import Query, answers, told
from venus_env.tasks.world.full.trails import gives_away, reads_ahead, shortcut
from venus_env.tasks.world.full.world import World

SOURCE = "venus-world-full"

QUOTAS = {"train": 20_500, "dev": 1_250, "test": 2_000}

# Share of each kind, and of each number of hops within it.
SHARES: dict[str, tuple[float, dict[int, float]]] = {
    "chain": (0.42, {1: 0.12, 2: 0.26, 3: 0.32, 4: 0.20, 5: 0.10}),
    "obfuscated": (0.20, {2: 0.30, 3: 0.35, 4: 0.25, 5: 0.10}),
    "comparison": (0.12, {2: 0.45, 3: 0.40, 4: 0.15}),
    "count": (0.06, {1: 0.35, 2: 0.65}),
    "date": (0.10, {1: 0.15, 2: 0.30, 3: 0.35, 4: 0.20}),
    "superlative": (0.06, {2: 0.35, 3: 0.45, 4: 0.20}),
    "interval": (0.04, {1: 0.40, 2: 0.60}),
}

DEEP = 3

FILLER = ("chain", 3)
"""Kind and depth that makes up for others of which too few can be asked."""

COMMON = 40
"""From ``DEEP`` hops on, answers whose every word stands on more than ``COMMON`` pages are not asked for: search
results that have nothing to do with the question would show them."""

TELLING = 300
"""From ``DEEP`` hops on, no page holds an answer together with a word, name or value of the question that stands on at
most ``TELLING`` pages: else the path between them could be left out."""

HELD_WORDING_SHARE = 0.5
"""Share of dev and test questions in wordings that training questions never use."""

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MANY_SHAPES = ("chain", "obfuscated", "comparison")

_TRIES_PER_QUESTION = 250
_PATIENCE = 4_000
"""Candidates in a row that may fail before a kind and depth counts as exhausted."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits that keep the questions of a split from leaning on few pages, answers or path types.

    Attributes:
        per_start: Questions of one kind that start at the same page.
        per_answer: Questions of one kind whose last relation and answer are the same.
        per_shape: Largest share that one path type has of a kind and depth (a third for kinds with few types).
    """

    per_start: int
    per_answer: int
    per_shape: float


CAPS = {"train": Caps(4, 16, 0.06), "dev": Caps(2, 3, 0.10), "test": Caps(2, 3, 0.08)}

logger = logging.getLogger(__name__)


def choose_tasks(world: World, split: str, seed: int) -> list[Task]:
    """Choose the questions of a split; where a kind or depth gives too few, more chains of three hops fill up."""
    tasks: list[Task] = []
    asked: set[Query | str] = set()
    total = QUOTAS[split]
    planned = {
        (kind, hops): round(total * share * part)
        for kind, (share, depths) in SHARES.items()
        for hops, part in depths.items()
    }
    last = planned.pop(FILLER)
    for (kind, hops), quota in planned.items():
        tasks += _choose(world, split, kind, hops, quota, seed, asked)
    rest = total - len(tasks)
    logger.info("%s: %d chains of three hops make up for what is missing elsewhere", split, rest - last)
    tasks += _choose(world, split, *FILLER, rest, seed, asked)
    return [task.model_copy(update={"id": f"full-{split}-{number:05d}"}) for number, task in enumerate(tasks)]


def _choose(
    world: World, split: str, kind: str, hops: int, quota: int, seed: int, asked: set[Query | str]
) -> list[Task]:
    rng = random.Random(f"{seed}/wording/{split}/{kind}/{hops}")
    caps = CAPS[split]
    starts: Counter[str] = Counter()
    ends: Counter[tuple[str, str]] = Counter()
    shapes: Counter[str] = Counter()
    chosen: list[Task] = []
    since = 0
    for candidate in candidates(world, split, kind, hops, seed, quota * _TRIES_PER_QUESTION):
        since += 1
        if len(chosen) == quota or since > _PATIENCE:
            break
        end = (candidate.evidence[-1].relation or "", candidate.value)
        full = (
            starts[candidate.start] >= caps.per_start
            or ends[end] >= caps.per_answer
            or shapes[candidate.shape] >= quota * (caps.per_shape if kind in _MANY_SHAPES else 1 / 3)
        )
        known = full or candidate.query in asked
        task = None if known else make_task(world, candidate, rng, kind=kind, split=split)
        if task is None or task.question in asked:
            continue
        asked |= {candidate.query, task.question}
        starts[candidate.start] += 1
        ends[end] += 1
        shapes[candidate.shape] += 1
        chosen.append(task)
        since = 0
    return chosen


def make_task(world: World, candidate: Candidate, rng: random.Random, *, kind: str, split: str) -> Task | None:
    """Prove, word and check a candidate; None where its answer is not the only one or stands where it must not."""
    found = answers(world.graph, candidate.query)
    if found != {candidate.value}:
        return None
    if candidate.hops >= DEEP and _common(world, candidate):
        return None
    if not candidate.ahead and reads_ahead(world, candidate.evidence, candidate.answers):
        return None
    held = split != "train" and rng.random() < HELD_WORDING_SHARE
    wording = ask(world.graph, candidate.query, rng, held=held)
    if gives_away(wording.text, candidate.answers):
        return None
    stated = {*words(wording.text), *told(candidate.query)}
    if candidate.hops >= DEEP and shortcut(world, stated, candidate.answers, TELLING):
        return None
    return Task(
        id=candidate.start,
        question=wording.text,
        answers=candidate.answers,
        evidence=candidate.evidence,
        hops=candidate.hops,
        kind=kind,
        difficulty=difficulty(candidate),
        split=split,
        source=SOURCE,
    )


def _common(world: World, candidate: Candidate) -> bool:
    """Whether a way of writing the answer is made of common words; a date is not common, though its parts are."""
    return not _DATE.fullmatch(candidate.value) and max(map(world.rarity, candidate.answers)) > COMMON


def difficulty(candidate: Candidate) -> str:
    """How many different pages have to be read: up to two, three or four, more."""
    pages = len({step.url for step in candidate.evidence})
    return "easy" if pages <= 2 else "medium" if pages <= 4 else "hard"
