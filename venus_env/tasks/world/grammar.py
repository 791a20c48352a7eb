"""Entities, and the rendering of their pages and of questions about them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from venus_env.tasks.world.relations import FRAMES, KINDS, PERSON_FRAMES, Relation


@dataclass(frozen=True, slots=True)
class Entity:
    """One thing that has a page.

    Attributes:
        name: Title of the page; unique in its world.
        kind: Key of ``KINDS``.
        facts: Relation name to value; a value is another entity's name wherever that entity exists.
        traits: Fields of the first sentence.
        split: ``train``, ``dev`` or ``test``; None where the page can be read in any split but never asked about.
    """

    name: str
    kind: str
    facts: Mapping[str, str]
    traits: Mapping[str, str] = field(default_factory=dict)
    split: str | None = None

    @property
    def url(self) -> str:
        """Address of the page."""
        return "https://venus.wiki/" + self.name.replace(" ", "_")


@dataclass(frozen=True, slots=True)
class Step:
    """One hop: on the page of ``entity``, read ``relation`` and find ``value``."""

    entity: Entity
    relation: Relation
    value: str


Path = tuple[Step, ...]
"""A chain of hops; each step's value names the next step's entity, the last value is the answer."""


def render_facts(entity: Entity, rng: random.Random) -> list[tuple[str | None, str]]:
    """Write a page as ``(relation name, sentence)`` pairs in page order.

    The first sentence introduces the entity and its kind, states no fact and carries None as its relation; the facts
    follow in random order, each in a randomly chosen wording.
    """
    kind = KINDS[entity.kind]
    lead = rng.choice(kind.leads).format(n=entity.name, **entity.traits)
    names = list(entity.facts)
    rng.shuffle(names)
    page: list[tuple[str | None, str]] = [(None, lead)]
    for name in names:
        wording = rng.choice(kind.relations[name].sentences)
        page.append((name, wording.format(n=entity.name, v=entity.facts[name])))
    return page


def render_page(entity: Entity, rng: random.Random) -> list[str]:
    """Write a page as its sentences; see :func:`render_facts`."""
    return [sentence for _, sentence in render_facts(entity, rng)]


def ask(path: Path, rng: random.Random) -> str:
    """Word the question whose answer is the last value of ``path``, naming only the first entity.

    Phrases that go on after their subject ("the country in which {x} lies") are used around the plain name only:
    around another phrase they would make sentences that people, too, have to read twice.
    """
    phrase = path[0].entity.name
    for hop, step in enumerate(path):
        phrases = [text for text in step.relation.phrases if hop == 0 or text.endswith("{x}")]
        phrase = rng.choice(phrases).format(x=phrase)
    frames = PERSON_FRAMES if path[-1].relation.target == "person" else FRAMES
    return rng.choice(frames).format(np=phrase)
