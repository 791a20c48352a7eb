"""The types that the world's table of kinds and relations is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """One typed, single-valued fact that entities of one kind may have.

    Attributes:
        name: Key in ``Entity.facts``.
        goal: Words for it in thoughts, visit goals and evidence.
        target: Kind of the value when it is itself an entity; otherwise the shape of the plain value, a key of
            ``venus_env.tasks.world.fresh.VALUES``.
        sentences: Page wordings with ``{n}`` (subject, optional) and ``{v}`` (value).
        phrases: Noun phrases with ``{x}`` for the subject, nested to ask over several hops.
        askable: False for facts that only distract (not unique, or too easy to guess).
        chance: Share of made-up entities that have this fact.
    """

    name: str
    goal: str
    target: str
    sentences: tuple[str, ...]
    phrases: tuple[str, ...] = ()
    askable: bool = True
    chance: float = 1.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of entity: how its page begins and which facts it can have.

    Attributes:
        name: Key in ``KINDS``.
        leads: First sentences with ``{n}`` and trait fields; long enough to fill a search snippet without an answer.
        traits: Trait name to the values that made-up entities draw from.
        relations: Relations by name.
        share: Weight of this kind among made-up entities.
        name_words: How many words a made-up name has, one entry per equally likely choice.
        suffix: Text that ends every made-up name of this kind.
    """

    name: str
    leads: tuple[str, ...]
    traits: Mapping[str, tuple[str, ...]]
    relations: Mapping[str, Relation]
    share: float
    name_words: tuple[int, ...] = (1,)
    suffix: str = ""

    @property
    def askable(self) -> tuple[Relation, ...]:
        """The relations that questions may use."""
        return tuple(relation for relation in self.relations.values() if relation.askable)


def by_name(*relations: Relation) -> dict[str, Relation]:
    """Key relations by their name."""
    return {relation.name: relation for relation in relations}
