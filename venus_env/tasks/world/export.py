"""A world as data that the environment reads: passages to search and tasks to solve."""

from __future__ import annotations

import random

from venus_env.corpus.document import Passage
from venus_env.tasks.task import Evidence, Task
from venus_env.tasks.world.grammar import Path, ask
from venus_env.tasks.world.graph import World


def passages(world: World, source: str | None = None) -> list[Passage]:
    """Every page of the world as one passage, in the order of its entities."""
    return [
        Passage(id=f"{entity.name}#0", url=entity.url, title=entity.name, text=world.text(entity.name), source=source)
        for entity in world.entities.values()
    ]


def make_task(
    world: World, path: Path, rng: random.Random, *, id: str, split: str | None = None, source: str | None = None
) -> Task:
    """Word a question for ``path`` and attach the sentences that prove its answer.

    Raises:
        ValueError: The graph gives the question no answer or more than one.
    """
    subject, relations = path[0].entity.name, [step.relation.name for step in path]
    found = world.resolve(subject, relations)
    if found != {path[-1].value}:
        raise ValueError(f"{' of '.join(reversed(relations))} of {subject!r} has {len(found)} answers: {sorted(found)}")
    evidence = []
    for step in path:
        sentence = dict(world.page(step.entity.name))[step.relation.name]
        evidence.append(
            Evidence(
                url=step.entity.url,
                title=step.entity.name,
                sentence=sentence,
                relation=step.relation.goal,
                value=step.value,
            )
        )
    return Task(
        id=id,
        question=ask(path, rng),
        answers=(path[-1].value,),
        evidence=tuple(evidence),
        hops=len(path),
        kind=">".join([path[0].entity.kind, *relations]),
        split=split,
        source=source,
    )
