"""The types that the full world's tables of kinds, relations and wordings are made of.

Wordings are templates with slots in braces and alternatives in square brackets: ``{s} [lies|is] in {v}.`` is two
sentences. One of the alternatives is chosen by the seeded generator each time that a template is used.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

LITERALS = ("number", "year", "date", "text")
"""Targets of relations whose values are not entities."""

_ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")
_SPACES = re.compile(r" +")


@dataclass(frozen=True, slots=True)
class Measure:
    """How values of a relation are compared.

    Attributes:
        more: Adjective phrase of the greater value, used after "has" or "is" as given: ``has the larger population``.
        less: The same for the smaller value.
        most: The same for the greatest of a set.
        least: The same for the smallest of a set.
    """

    more: str
    less: str
    most: str
    least: str


@dataclass(frozen=True, slots=True)
class Relation:
    """One typed fact that entities of a kind may have, with its wording.

    Attributes:
        name: Key in ``Entity.facts``.
        goal: Words for it in thoughts, visit goals and evidence.
        target: Kind of the entity that the value names, or one of ``LITERALS``.
        label: Name of its line in the facts box; empty where it stands in prose only.
        sentences: Page wordings with ``{s}`` (subject) and ``{v}`` (value or list of values).
        of: Noun phrases with ``{x}`` for the subject; empty where no question asks for it.
        held: Noun phrases that only dev and test questions use.
        its: Noun phrase for step by step questions (``its manager``).
        clauses: What follows "the … that" in a description, with ``{v}``; empty where descriptions do not use it.
        plural: Noun phrase with ``{x}`` for all values of a many-valued relation.
        measure: How values compare, where they do.
        unit: Follows numbers on pages (``feet``).
    """

    name: str
    goal: str
    target: str
    label: str = ""
    sentences: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    its: str = ""
    clauses: tuple[str, ...] = ()
    plural: str = ""
    measure: Measure | None = None
    unit: str = ""

    @property
    def literal(self) -> bool:
        """Whether values are plain ones rather than entities."""
        return self.target in LITERALS


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of entity.

    Attributes:
        name: Key in ``KINDS``.
        noun: What a description calls it (``the airport that …``).
        pronoun: Joins a description: ``that`` or ``who``.
        leads: First sentences with ``{n}`` and the entity's traits; they state no fact that is asked for.
        seconds: Sentences that follow, as free of facts.
        subjects: What later sentences call the entity, besides its name.
        section: Heading over its prose.
        relations: Relations by name, in the order of the facts box.
        sharealike: Whether its facts are under a share-alike licence.
        article: Whether its names take "the" inside a sentence.
    """

    name: str
    noun: str
    pronoun: str
    leads: tuple[str, ...]
    seconds: tuple[str, ...]
    subjects: tuple[str, ...]
    section: str
    relations: Mapping[str, Relation]
    sharealike: bool = False
    article: bool = False


def by_name(*relations: Relation) -> dict[str, Relation]:
    """Key relations by their name."""
    return {relation.name: relation for relation in relations}


def expand(template: str, rng: random.Random, **slots: str) -> str:
    """Choose one of the alternatives in each pair of brackets and fill the slots."""
    chosen = _ALTERNATIVES.sub(lambda match: rng.choice(match[1].split("|")), template)
    return _SPACES.sub(" ", chosen).format(**slots)


def wordings(template: str) -> int:
    """Number of different texts that a template can become."""
    count = 1
    for match in _ALTERNATIVES.finditer(template):
        count *= len(match[1].split("|"))
    return count
