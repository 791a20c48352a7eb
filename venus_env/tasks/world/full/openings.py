"""How questions bring in their first entity: by name, or by a description that fits it alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations

from venus_env.tasks.task import Evidence
from venus_env.tasks.world.full.graph import Entity
from venus_env.tasks.world.full.more_pages import cities_title, discoveries_title, natives_title
from venus_env.tasks.world.full.queries import Described, Follow, Named, identifies
from venus_env.tasks.world.full.trails import Opening, fact, listed, named, row, states
from venus_env.tasks.world.full.world import World
from venus_env.tasks.world.graph import mentions

_START_WEIGHTS = {
    "player": 4.0, "season": 4.0, "city": 3.0, "airport": 3.0, "school": 2.0, "park": 2.0, "series": 2.0,
    "element": 1.0, "country": 1.0, "franchise": 1.0, "scientist": 0.3, "currency": 0.3, "state": 0.5,
}  # fmt: skip
# By kind, the facts that a description may begin with, each with the list of all entities that have it: the title of
# a list page by value, or the many-valued relation on the page of the value.
_ANCHORS: dict[str, dict[str, str | Callable[[str], str]]] = {
    "player": {"birth_city": natives_title, "school": "alumni"},
    "city": {"country": cities_title},
    "airport": {"city": "airports"},
    "element": {"discovery_country": discoveries_title},
}
# By kind, what points to an entity of this kind: used to ask for it instead of naming it.
_POINTERS = {
    "city": (("airport", "city"), ("park", "city"), ("school", "city"), ("city", "larger_city")),
    "country": (("city", "country"), ("element", "discovery_country")),
    "school": (("player", "school"),),
}


class Openings:
    """Draws entities of one split to begin with.

    Args:
        world: The world.
        split: The split.
        rng: Source of all randomness.

    Attributes:
        starts: Entities of the split by kind.
    """

    def __init__(self, world: World, split: str, rng: random.Random) -> None:
        self._world = world
        self._graph = world.graph
        self._split = split
        self._rng = rng
        self.starts = {
            kind: [entity for entity in entities if entity.split == split]
            for kind, entities in self._graph.by_kind.items()
        }
        self._kinds = [kind for kind, entities in self.starts.items() if entities]

    def start(self, kinds: Iterable[str] | None = None) -> Entity | None:
        """An entity of one of the kinds (of any, by weight), if the split has one."""
        pool = [kind for kind in (kinds or self._kinds) if self.starts[kind]]
        if not pool:
            return None
        kind = self._rng.choices(pool, [_START_WEIGHTS[kind] for kind in pool])[0]
        return self._rng.choice(self.starts[kind])

    def named(self) -> tuple[Opening, Entity] | None:
        """An entity by its name."""
        entity = self.start()
        return (named(entity), entity) if entity is not None else None

    def described(self) -> tuple[Opening, Entity] | None:
        """An entity by two to four facts, the first of which leads to a list that names it."""
        entity = self.start(("player", "player", "city", "airport", "element"))
        anchored = self._anchor(entity) if entity is not None else None
        if entity is None or anchored is None:
            return None
        (relation, value), entry = anchored
        others = [
            (name, values[0])
            for name, values in entity.facts.items()
            if name != relation
            and len(values) == 1
            and values[0] != value
            and entity.relation(name).clauses
            and states(self._world, entity, name)
        ]
        self._rng.shuffle(others)
        for count in (1, 2, 3):
            for chosen in combinations(others, count):
                description = Described(entity.kind, ((relation, value), *chosen))
                if identifies(self._graph, description, entity.title):
                    checks = [self._check(entity, *each) for each in chosen]
                    return self._veiled(Opening(description, (entry, *checks), depth=1), entity.title), entity
        return None

    def _veiled(self, opening: Opening, described: str) -> Opening:
        """Half of the time, and where possible, ask for the first fact of a description instead of naming it."""
        description = opening.node
        if not isinstance(description, Described) or self._rng.random() < 0.5:
            return opening
        value = description.facts[0][1]
        pointers = [
            (entity, relation)
            for kind, relation in _POINTERS.get(self._graph.entities[value].kind, ())
            for title in sorted(self._graph.holders(kind, relation, value))
            if title != described and (entity := self._graph.entities[title]).split == self._split
            and len(entity.facts[relation]) == 1 and states(self._world, entity, relation)
            and not mentions(title, self._graph.entities[value].name)
        ]  # fmt: skip
        if not pointers:
            return opening
        entity, name = self._rng.choice(pointers)
        via = Follow(Named(entity.title), entity.kind, name)
        found = fact(self._world, entity, entity.relation(name))
        return Opening(replace(description, via=via), (found, *opening.evidence), depth=2)

    def _check(self, entity: Entity, name: str, value: str) -> Evidence:
        relation = entity.relation(name)
        return fact(self._world, entity, relation, value if relation.target == "year" else None)

    def _anchor(self, entity: Entity) -> tuple[tuple[str, str], Evidence] | None:
        """A fact of the entity, and where all entities with this fact are listed on pages of this split."""
        names = [name for name in _ANCHORS.get(entity.kind, ()) if name in entity.facts]
        if not names:
            return None
        relation = self._rng.choice(names)
        value = entity.facts[relation][0]
        subject = self._graph.entities.get(value)
        if subject is None or subject.split != self._split:
            return None
        lister = _ANCHORS[entity.kind][relation]
        if isinstance(lister, str):
            if entity.title in subject.facts.get(lister, ()):
                return (relation, value), listed(self._world, value, lister, entity.title)
            return None
        for page in self._world.sheets(lister(value)):
            if entity.title in page.facts:
                return (relation, value), row(page, entity.title)
        return None
