"""Chooses splits and questions: no page on a gold path of one split is on a gold path of another."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from venus_env.tasks.task import Task
from venus_env.tasks.world.export import make_task
from venus_env.tasks.world.geography import Located
from venus_env.tasks.world.grammar import Entity, Path
from venus_env.tasks.world.graph import World

SPLITS = {"train": 0.63, "dev": 0.12, "test": 0.25}
"""Share of countries in each split; everything that belongs to a country goes with it."""

QUOTAS = {"train": 4000, "dev": 400, "test": 800}
HOP_SHARES = {1: 0.4, 2: 0.45, 3: 0.15}


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits that keep a set of questions from leaning on few pages or few answers.

    Attributes:
        per_start: Questions that start at the same page.
        per_answer: Questions that end with the same relation and answer, so that guessing the usual answer pays little.
    """

    per_start: int
    per_answer: int


CAPS = {"train": Caps(6, 24), "dev": Caps(3, 4), "test": Caps(3, 4)}


def assign_splits(located: Iterable[Located], rng: random.Random) -> list[Entity]:
    """Give every entity the split of its home; the USA, largest by far, goes to ``train``.

    Entities that belong to several countries (the euro) get no split: they can be read but are on no gold path.
    Elements without a country of discovery are homes of their own and are divided separately.
    """
    located = list(located)
    homes = {item.home for item in located if item.home is not None} - {"US"}
    countries = {item.home for item in located if item.home is not None and item.entity.kind == "country"}
    split_of = {"US": "train", **_divide(homes & countries, rng), **_divide(homes - countries, rng)}
    return [replace(item.entity, split=split_of.get(item.home or "")) for item in located]


def _divide(homes: set[str], rng: random.Random) -> dict[str, str]:
    names = sorted(homes)
    rng.shuffle(names)
    split_of, start = {}, 0.0
    for split, share in SPLITS.items():
        stop = start + share * len(names)
        split_of.update(dict.fromkeys(names[round(start) : round(stop)], split))
        start = stop
    return split_of


def choose_tasks(world: World, split: str, rng: random.Random, source: str) -> list[Task]:
    """Choose and word the questions of a split: hops by ``HOP_SHARES``, path types in turn, within ``CAPS``."""
    starts = sorted(name for name, entity in world.entities.items() if entity.split == split)
    tasks: list[Task] = []
    asked: set[str] = set()
    starting: Counter[str] = Counter()
    ending: Counter[tuple[str, str]] = Counter()
    for hops, share in HOP_SHARES.items():
        quota = round(QUOTAS[split] * share)
        chosen = 0
        for path in _in_turn(_by_type(world, starts, split, hops), rng):
            start, end = path[0].entity.name, (path[-1].relation.name, path[-1].value)
            if starting[start] >= CAPS[split].per_start or ending[end] >= CAPS[split].per_answer:
                continue
            task = make_task(world, path, rng, id=f"{split}-{len(tasks):04d}", split=split, source=source)
            if task.question in asked:
                continue
            asked.add(task.question)
            starting[start] += 1
            ending[end] += 1
            tasks.append(task)
            chosen += 1
            if chosen == quota:
                break
    return tasks


def _by_type(world: World, starts: list[str], split: str, hops: int) -> dict[str, list[Path]]:
    types: dict[str, list[Path]] = defaultdict(list)
    for start in starts:
        for path in world.paths(start, hops):
            answer = world.entities.get(path[-1].value)
            elsewhere = answer is not None and answer.split not in (split, None)
            if not elsewhere and all(step.entity.split == split for step in path):
                kinds = [path[0].entity.kind, *(step.relation.name for step in path)]
                types[">".join(kinds)].append(path)
    return types


def _in_turn(types: Mapping[str, list[Path]], rng: random.Random) -> Iterable[Path]:
    """One random path of each type, then another of each, and so on: rare types are not drowned by common ones."""
    queues = [list(types[name]) for name in sorted(types)]
    for queue in queues:
        rng.shuffle(queue)
    while queues:
        for queue in queues:
            yield queue.pop()
        queues = [queue for queue in queues if queue]
