"""A world: entities by name, the paths through them, and the proof that a question has one answer."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence

from venus_env.tasks.world.grammar import Entity, Path, Step, render_facts
from venus_env.tasks.world.relations import KINDS


class World:
    """A closed set of entities with unique names and one fixed page each.

    Args:
        entities: The entities; names must be unique without regard to case.
        seed: Fixes the wording of every page.
    """

    def __init__(self, entities: Iterable[Entity], seed: int = 0) -> None:
        self.seed = seed
        self.entities: dict[str, Entity] = {}
        self._texts: dict[str, str] = {}
        self._index: dict[tuple[str, str], set[str]] = {}
        folded: dict[str, str] = {}
        for entity in entities:
            other = folded.setdefault(entity.name.casefold(), entity.name)
            if other != entity.name or entity.name in self.entities:
                raise ValueError(f"two entities are named {entity.name!r}; names must be unique in a world")
            unknown = set(entity.facts) - set(KINDS[entity.kind].relations)
            if unknown:
                raise ValueError(f"{entity.name!r} has facts that a {entity.kind} cannot have: {sorted(unknown)}")
            self.entities[entity.name] = entity

    def page(self, name: str) -> list[tuple[str | None, str]]:
        """The page of an entity as ``(relation, sentence)`` pairs; always the same for the same seed and name."""
        return render_facts(self.entities[name], random.Random(f"{self.seed}/page/{name}"))

    def text(self, name: str) -> str:
        """The page of an entity as running text."""
        if name not in self._texts:
            self._texts[name] = " ".join(sentence for _, sentence in self.page(name))
        return self._texts[name]

    def target(self, kind: str, relation: str, value: str) -> Entity | None:
        """The entity that ``value`` names when read as this relation of a ``kind``, if it has a page of that kind."""
        entity = self.entities.get(value)
        wanted = KINDS[kind].relations[relation].target
        return entity if entity is not None and entity.kind == wanted else None

    def paths(self, start: str, hops: int) -> Iterator[Path]:
        """All askable chains of exactly ``hops`` relations from ``start`` that genuinely need every hop.

        Left out are chains that come back to a page, that pass between names containing each other (a hop one can
        guess), or whose answer already stands in the subject's name or on a page read earlier (fewer hops would do).
        """
        yield from self._extend(self.entities[start], hops, ())

    def _extend(self, entity: Entity, hops: int, done: Path) -> Iterator[Path]:
        for relation in KINDS[entity.kind].askable:
            value = entity.facts.get(relation.name)
            if value is None or mentions(value, entity.name) or mentions(entity.name, value):
                continue
            path = (*done, Step(entity, relation, value))
            if hops == 1:
                if self._needs_every_hop(path):
                    yield path
                continue
            following = self.target(entity.kind, relation.name, value)
            if following is not None and all(step.entity.name != following.name for step in path):
                yield from self._extend(following, hops - 1, path)

    def _needs_every_hop(self, path: Path) -> bool:
        answer = path[-1].value
        if mentions(path[0].entity.name, answer):
            return False
        return not any(mentions(self.text(step.entity.name), answer) for step in path[:-1])

    def resolve(self, subject: str, relations: Sequence[str]) -> set[str]:
        """All values reachable from every entity named ``subject`` along ``relations``: the uniqueness proof.

        Works on the set of all triples and follows names, not entity objects, so a second entity with the same name
        or a second value of the same relation would show up as a second answer.
        """
        frontier = {subject.casefold()}
        for relation in relations:
            frontier = {value for name in frontier for value in self._triples().get((name.casefold(), relation), ())}
        return frontier

    def _triples(self) -> dict[tuple[str, str], set[str]]:
        if not self._index:
            for entity in self.entities.values():
                for relation, value in entity.facts.items():
                    self._index.setdefault((entity.name.casefold(), relation), set()).add(value)
        return self._index


def mentions(text: str, name: str) -> bool:
    """Whether ``name`` stands in ``text`` as it is written and as whole words (``.is`` is not in ``Iceland is``)."""
    # The plain test first: it is a hundred times faster than compiling an expression and almost always says no.
    return name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
