"""Draws candidate questions: random trails through one split of the world, and what can be asked at their ends."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from venus_env.tasks.task import Evidence
from venus_env.tasks.world.full.graph import Entity
from venus_env.tasks.world.full.kinds import KINDS
from venus_env.tasks.world.full.more_pages import natives_title
from venus_env.tasks.world.full.openings import Openings
from venus_env.tasks.world.full.queries import (
    Compare,
    Count,
    Described,
    Extreme,
    Follow,
    Holders,
    Named,
    Query,
    YearsBetween,
    size,
)
from venus_env.tasks.world.full.schema import Relation
from venus_env.tasks.world.full.trails import (
    Hop,
    Opening,
    Trail,
    answer_texts,
    fact,
    named,
    row,
    states,
)
from venus_env.tasks.world.full.world import World
from venus_env.tasks.world.graph import mentions

HELD_OUT_SHARE = 0.2
"""Share of path types with several hops that training questions never have."""

MOST_MEMBERS = 6
"""Members of a set that a superlative question makes one compare."""

_TRIES = 40
_WORDS_TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_NUMBER_WORDS = dict(enumerate(_WORDS_TEXT.split(), start=1))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question without its wording.

    Attributes:
        query: What is asked.
        value: The one answer of the query.
        answers: Accepted answers, ways of writing the value.
        evidence: Gold path.
        hops: Pages that have to be read in sequence.
        shape: Type of its path; questions of one shape are limited.
        start: Title of the first entity; questions of one start are limited.
        ahead: Whether the answer may stand on earlier pages, since it is one of several that are weighed.
    """

    query: Query
    value: str
    answers: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    hops: int
    shape: str
    start: str
    ahead: bool = False


def held_out(shape: str) -> bool:
    """Whether a path type is kept from training: decided by a hash of its relations, so by nothing else."""
    relations = shape.split(">")[1:]
    if len(relations) < 2:
        return False
    digest = hashlib.blake2b(">".join(relations).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32 < HELD_OUT_SHARE


class Candidates:
    """Candidates of one split: all pages on their gold paths, and the page of the answer, are of this split.

    Args:
        world: The world.
        split: The split.
        rng: Source of all randomness.
    """

    def __init__(self, world: World, split: str, rng: random.Random) -> None:
        self._world = world
        self._graph = world.graph
        self._split = split
        self._rng = rng
        self._openings = Openings(world, split, rng)

    def draw(self, kind: str, hops: int) -> Candidate | None:
        """Try once to find a question of a kind with this many hops."""
        match kind:
            case "chain" | "date":
                return self._chain(self._openings.named(), hops, dates=kind == "date")
            case "obfuscated":
                return self._chain(self._openings.described(), hops)
            case "comparison":
                return self._comparison(hops)
            case "count":
                return self._count(hops)
            case "superlative":
                return self._superlative(hops)
            case "interval":
                return self._interval(hops)
        raise ValueError(f"unknown kind of question {kind!r}")

    # -- trails ---------------------------------------------------------------------------------------------------

    def _walk(self, entity: Entity, length: int, told: Iterable[str] = (), last: str | None = None) -> list[Hop] | None:
        """A random trail of single-valued, askable facts from an entity over pages of this split.

        No page, no relation and none of the values already ``told`` comes up twice. ``last`` is what the last relation
        must lead to, if that matters.
        """
        hops: list[Hop] = []
        seen = {entity.title, *told}
        used: set[str] = set()
        for number in range(length):
            relations = [
                relation
                for name, values in entity.facts.items()
                if len(values) == 1 and (relation := entity.relation(name)).of and name not in used
                and (last in (None, relation.target) if number + 1 == length else not relation.literal)
                and values[0] not in seen and states(self._world, entity, name)
            ]  # fmt: skip
            if not relations:
                return None
            relation = self._rng.choice(relations)
            hops.append((entity, relation))
            used.add(relation.name)
            value = entity.facts[relation.name][0]
            following = self._graph.target(entity.kind, relation.name, value)
            if following is not None:
                foreign = following.split not in (self._split, None)
                obvious = any(mentions(entity.title, name) or mentions(name, entity.name) for name in following.names)
                if foreign or obvious:
                    return None
            elif mentions(entity.title, value):
                return None
            if number + 1 < length:
                if following is None or following.split != self._split:
                    return None
                entity = following
                seen.add(entity.title)
        return hops

    def _trail(self, begun: tuple[Opening, Entity] | None, depth: int, last: str | None = None) -> Trail | None:
        """A trail of this depth; None where the draw fails."""
        if begun is None or depth <= begun[0].depth:
            return None
        opening, entity = begun
        told = [value for _, value in opening.node.facts] if isinstance(opening.node, Described) else []
        hops = self._walk(entity, depth - opening.depth, told, last)
        return Trail(begun[0], tuple(hops)) if hops else None

    def _to_entity(self, depth: int) -> tuple[Trail, Entity] | None:
        """A trail that ends at an entity with a page in this split."""
        trail = self._trail(self._openings.named(), depth)
        if trail is None:
            return None
        entity = self._graph.entities.get(trail.end)
        return (trail, entity) if entity is not None and entity.split == self._split else None

    def _like(self, trail: Trail) -> Trail | None:
        """Another trail over the same relations from another start that ends elsewhere."""
        first = trail.hops[0][0]
        for _ in range(_TRIES):
            entity = self._rng.choice(self._openings.starts[first.kind])
            hops: list[Hop] = []
            current: Entity | None = entity
            for _, relation in trail.hops:
                usable = (
                    current is not None
                    and current.split == self._split
                    and len(current.facts.get(relation.name, ())) == 1
                )
                if current is None or not usable or not states(self._world, current, relation.name):
                    break
                hops.append((current, relation))
                current = self._graph.entities.get(current.facts[relation.name][0])
            other = Trail(named(entity), tuple(hops))
            if len(hops) == len(trail.hops) and other.end != trail.end and not self._meet(trail, other):
                return other
        return None

    @staticmethod
    def _meet(one: Trail, other: Trail) -> bool:
        return bool({entity.title for entity, _ in one.hops} & {entity.title for entity, _ in other.hops})

    # -- kinds ----------------------------------------------------------------------------------------------------

    def _chain(self, begun: tuple[Opening, Entity] | None, hops: int, *, dates: bool = False) -> Candidate | None:
        trail = self._trail(begun, hops, "date" if dates else None)
        if trail is None:
            return None
        relation = trail.hops[-1][1]
        if dates != (relation.target == "date") and isinstance(trail.opening.node, Named):
            return None
        answers = answer_texts(self._world, relation, trail.end)
        return self._candidate(trail.node, trail.end, answers, trail.evidence(self._world), hops, [trail])

    def _comparison(self, hops: int) -> Candidate | None:
        ended = self._to_entity(hops - 1)
        if ended is None:
            return None
        trail, entity = ended
        other = self._like(trail)
        rival = self._graph.entities.get(other.end) if other is not None else None
        if other is None or rival is None or rival.kind != entity.kind or rival.split != self._split:
            return None
        relation = self._measure(entity.kind, (entity, rival))
        if relation is None:
            return None
        more = self._rng.random() < 0.5
        ordered = sorted((entity, rival), key=lambda e: size(e.facts[relation.name][0], relation.target))
        winner = ordered[1 if more else 0]
        evidence = []
        for each, end in ((trail, entity), (other, rival)):
            evidence += [*each.evidence(self._world), fact(self._world, end, relation)]
        query = Compare(trail.node, other.node, entity.kind, relation.name, more)
        shape = f"{trail.shape}>{relation.name}"
        return self._candidate(
            query, winner.title, winner.names, evidence, hops, [trail, other], ahead=True, shape=shape
        )

    def _measure(self, kind: str, members: Sequence[Entity]) -> Relation | None:
        """A measure of the kind that all members have, no two of them alike."""
        fits = []
        for relation in KINDS[kind].relations.values():
            values = [entity.facts.get(relation.name, ()) for entity in members]
            if relation.measure and all(len(value) == 1 for value in values):
                sizes = [size(value[0], relation.target) for value in values]
                if len(set(sizes)) == len(sizes) and all(states(self._world, e, relation.name) for e in members):
                    fits.append(relation)
        return self._rng.choice(fits) if fits else None

    def _source(self, depth: int) -> tuple[Trail, Entity] | None:
        """An entity named (depth 0) or at the end of a trail."""
        if depth > 0:
            return self._to_entity(depth)
        entity = self._openings.start()
        return (Trail(named(entity)), entity) if entity is not None else None

    def _count(self, hops: int) -> Candidate | None:
        ended = self._source(hops - 1)
        if ended is None:
            return None
        trail, entity = ended
        many = [r for name, values in entity.facts.items() if (r := entity.relation(name)).plural and len(values) > 1]
        if not many:
            return None
        relation = self._rng.choice(many)
        number = len(entity.facts[relation.name])
        answers = (str(number), *((_NUMBER_WORDS[number],) if number in _NUMBER_WORDS else ()))
        evidence = [*trail.evidence(self._world), fact(self._world, entity, relation)]
        query = Count(Follow(trail.node, entity.kind, relation.name))
        shape = f"{trail.shape if trail.hops else entity.kind}>{relation.name}"
        return self._candidate(
            query, str(number), answers, evidence, hops, [trail], start=entity, shape=shape, ahead=True
        )

    def _superlative(self, hops: int) -> Candidate | None:
        ended = self._source(hops - 2)
        if ended is None:
            return None
        trail, entity = ended
        choices: list[tuple[Follow | Holders, list[str], Evidence]] = []
        for name, values in entity.facts.items():
            relation = entity.relation(name)
            if relation.plural and not relation.literal and 1 < len(values) <= MOST_MEMBERS:
                valued = Follow(trail.node, entity.kind, name)
                choices.append((valued, list(values), fact(self._world, entity, relation)))
        natives = sorted(self._graph.holders("player", "birth_city", entity.title))
        if entity.kind == "city" and 1 < len(natives) <= MOST_MEMBERS:
            page = self._world.pages[natives_title(entity.title)]
            rows = [row(page, native) for native in natives]
            choices.append((Holders(trail.node, "player", "birth_city"), natives, rows[0]))
        if not choices:
            return None
        members, titles, listed = self._rng.choice(choices)
        entities = [self._graph.entities[title] for title in titles if title in self._graph.entities]
        if len(entities) < len(titles) or any(e.split != self._split for e in entities):
            return None
        relation_or_none = self._measure(entities[0].kind, entities)
        if relation_or_none is None:
            return None
        measure, most = relation_or_none, self._rng.random() < 0.5
        ordered = sorted(entities, key=lambda e: size(e.facts[measure.name][0], measure.target))
        winner = ordered[-1 if most else 0]
        evidence = [*trail.evidence(self._world), listed, *(fact(self._world, e, measure) for e in entities)]
        query = Extreme(members, entities[0].kind, measure.name, most)
        tail = members.relation if isinstance(members, Follow) else "natives"
        shape = f"{trail.shape if trail.hops else entity.kind}>{tail}>{measure.name}"
        return self._candidate(
            query, winner.title, winner.names, evidence, hops, [trail], start=entity, shape=shape, ahead=True
        )

    def _interval(self, hops: int) -> Candidate | None:
        trail = self._trail(self._openings.named(), hops)
        if trail is None or trail.hops[-1][1].target not in ("date", "year"):
            return None
        other = self._like(trail)
        if other is None:
            return None
        years = abs(int(trail.end[:4]) - int(other.end[:4]))
        if years == 0:
            return None
        evidence = [*trail.evidence(self._world), *other.evidence(self._world)]
        one, two = trail.node, other.node
        if not isinstance(one, Follow) or not isinstance(two, Follow):
            return None
        shape = f"{trail.shape}>interval"
        query = YearsBetween(one, two)
        texts = (str(years), f"{years} years")
        return self._candidate(query, str(years), texts, evidence, hops, [trail, other], ahead=True, shape=shape)

    def _candidate(
        self,
        query: Query,
        value: str,
        answers: tuple[str, ...],
        evidence: list[Evidence],
        hops: int,
        trails: list[Trail],
        *,
        start: Entity | None = None,
        shape: str = "",
        ahead: bool = False,
    ) -> Candidate | None:
        shape = shape or trails[0].shape
        if self._split == "train" and held_out(shape):
            return None
        first = trails[0].hops[0][0] if trails[0].hops else start
        if first is None:
            return None
        return Candidate(query, value, answers, tuple(evidence), hops, shape, first.title, ahead)


def candidates(world: World, split: str, kind: str, hops: int, seed: int, tries: int) -> Iterator[Candidate]:
    """Draw candidates of one kind and depth until ``tries`` draws have been made."""
    source = Candidates(world, split, random.Random(f"{seed}/{split}/{kind}/{hops}"))
    for _ in range(tries):
        candidate = source.draw(kind, hops)
        if candidate is not None:
            yield candidate
