"""Entities of the full world, and what the graph of their facts says: the ground of every proof."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from venus_env.tasks.world.full.kinds import KINDS
from venus_env.tasks.world.full.schema import Relation


@dataclass(frozen=True, slots=True)
class Entity:
    """One thing that has a page.

    Attributes:
        title: Title of the page; unique in its world, and no name or alias of another entity.
        kind: Key of ``KINDS``.
        facts: Relation name to values: titles where the relation leads to entities (of which some may have no page),
            else digits, ISO dates or text.
        traits: Fields of the first sentence.
        name: What the thing is called without the addition that tells it from namesakes.
        aliases: Further names; accepted as answers.
        home: What decides its split (a state or country); None for what belongs to all.
        split: ``train``, ``dev`` or ``test``; None where it can be read but is on no gold path.
    """

    title: str
    kind: str
    facts: Mapping[str, tuple[str, ...]]
    traits: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    aliases: tuple[str, ...] = ()
    home: str | None = None
    split: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that it is called, its title first."""
        return tuple(dict.fromkeys((self.title, self.name or self.title, *self.aliases)))

    def relation(self, name: str) -> Relation:
        """The schema of one of its facts."""
        return KINDS[self.kind].relations[name]


def address(title: str) -> str:
    """Url of a page."""
    return "https://venus.wiki/" + title.replace(" ", "_")


PRIMARY = ("country", "state")
"""Kinds whose titles stay plain although smaller things are called so: readers expect Poland, not Poland in Ohio."""


class Graph:
    """A closed set of entities with unique titles.

    Raises:
        ValueError: Two entities share a title; one is named like another's title, and that is of no primary kind; or a
            fact is not in the schema.
    """

    def __init__(self, entities: Iterable[Entity]) -> None:
        self.entities: dict[str, Entity] = {}
        self._named: dict[str, list[str]] = defaultdict(list)
        self._holders: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for entity in entities:
            if entity.title in self.entities:
                raise ValueError(f"two entities have the title {entity.title!r}; titles must be unique in a world")
            self.entities[entity.title] = entity
            for name in entity.names:
                self._named[name.casefold()].append(entity.title)
            for relation, values in entity.facts.items():
                if relation not in KINDS[entity.kind].relations:
                    raise ValueError(f"{entity.title!r} has a fact that a {entity.kind} cannot have: {relation!r}")
                for value in values:
                    self._holders[entity.kind, relation, value].add(entity.title)
        for entity in self.entities.values():
            others = [title for title in self._named[entity.title.casefold()] if title != entity.title]
            if others and entity.kind not in PRIMARY:
                raise ValueError(f"{others[0]!r} is called {entity.title!r}, which is the title of another page")

    @cached_property
    def by_kind(self) -> dict[str, list[Entity]]:
        """Entities of each kind in the order given."""
        found: dict[str, list[Entity]] = {kind: [] for kind in KINDS}
        for entity in self.entities.values():
            found[entity.kind].append(entity)
        return found

    def named(self, mention: str) -> set[str]:
        """Titles of everything that is called ``mention``, in any case."""
        return set(self._named.get(mention.casefold(), ()))

    def ambiguous(self) -> dict[str, list[str]]:
        """Names that several entities share, with the titles of those."""
        return {self._spelled(titles, key): titles for key, titles in self._named.items() if len(titles) > 1}

    def _spelled(self, titles: list[str], key: str) -> str:
        return next(name for name in self.entities[titles[0]].names if name.casefold() == key)

    def values(self, title: str, relation: str) -> tuple[str, ...]:
        """All values of a fact; empty where there is none."""
        entity = self.entities.get(title)
        return entity.facts.get(relation, ()) if entity is not None else ()

    def holders(self, kind: str, relation: str, value: str) -> set[str]:
        """Titles of all entities of a kind that have this value."""
        return self._holders.get((kind, relation, value), set())

    def target(self, kind: str, relation: str, value: str) -> Entity | None:
        """The entity that a value names, if it has a page of the kind that the relation leads to."""
        entity = self.entities.get(value)
        return entity if entity is not None and entity.kind == KINDS[kind].relations[relation].target else None
