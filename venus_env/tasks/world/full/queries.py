"""What a question asks, as a small query over the graph, and the set of its answers: the proof of uniqueness.

Every question is made from a query and kept only if :func:`answers` gives exactly one value. Mentions are resolved by
name (every entity called so counts) and every value of a relation is followed, so that a second namesake, a second
value or a second entity that fits a description shows up as a second answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from venus_env.tasks.world.full.graph import Graph
from venus_env.tasks.world.full.kinds import KINDS


@dataclass(frozen=True, slots=True)
class Named:
    """Everything called ``mention``."""

    mention: str


@dataclass(frozen=True, slots=True)
class Described:
    """Everything of a kind that has all the facts, given as ``(relation, value)``.

    Where ``via`` is given, the question does not name the value of the first fact but asks for it in turn.
    """

    kind: str
    facts: tuple[tuple[str, str], ...]
    via: Follow | None = None


@dataclass(frozen=True, slots=True)
class Follow:
    """All values of a relation of ``kind`` for everything in ``source``."""

    source: Node
    kind: str
    relation: str


@dataclass(frozen=True, slots=True)
class Count:
    """How many values a relation has."""

    members: Follow


@dataclass(frozen=True, slots=True)
class Holders:
    """Everything of a kind whose fact is in ``source``: the players born in a city."""

    source: Node
    kind: str
    relation: str


@dataclass(frozen=True, slots=True)
class Extreme:
    """The one of the members, all of ``kind``, whose measure is greatest (``most``) or smallest."""

    members: Follow | Holders
    kind: str
    measure: str
    most: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """The one of two entities whose measure is greater (``more``) or smaller."""

    left: Node
    right: Node
    kind: str
    measure: str
    more: bool


@dataclass(frozen=True, slots=True)
class YearsBetween:
    """Difference between the years of two dates or years."""

    left: Follow
    right: Follow


Node = Named | Described | Follow
Query = Node | Count | Extreme | Compare | YearsBetween


def answers(graph: Graph, query: Query | Holders) -> set[str]:
    """All answers of a query; titles where they are entities."""
    match query:
        case Named(mention):
            return graph.named(mention)
        case Described(kind, facts, via):
            fitting = [graph.holders(kind, relation, value) for relation, value in facts]
            if via is not None:
                fitting[0] = answers(graph, Holders(via, kind, facts[0][0]))
            return set.intersection(*fitting)
        case Follow(source, kind, relation):
            return {
                value
                for title in answers(graph, source)
                if title in graph.entities and graph.entities[title].kind == kind
                for value in graph.values(title, relation)
            }
        case Holders(source, kind, relation):
            return {title for value in answers(graph, source) for title in graph.holders(kind, relation, value)}
        case Count(Follow(source, kind, relation)):
            found = answers(graph, source)
            return {
                str(len(graph.values(title, relation)))
                for title in found
                if title in graph.entities and graph.entities[title].kind == kind and graph.values(title, relation)
            }
        case Extreme(members, kind, measure, most):
            return best(graph, answers(graph, members), kind, measure, most)
        case Compare(left, right, kind, measure, more):
            one, other = answers(graph, left), answers(graph, right)
            if len(one) != 1 or len(other) != 1 or one == other:
                return one | other
            return best(graph, one | other, kind, measure, more)
        case YearsBetween(left, right):
            ones, others = answers(graph, left), answers(graph, right)
            return {str(abs(int(one[:4]) - int(other[:4]))) for one in ones for other in others}


def told(query: Query | Holders) -> Iterator[str]:
    """The names and values that a question states."""
    match query:
        case Named(mention):
            yield mention
        case Described(_, facts, via):
            yield from (value for _, value in (facts if via is None else facts[1:]))
            if via is not None:
                yield from told(via)
        case Compare(left, right) | YearsBetween(left, right):
            yield from told(left)
            yield from told(right)
        case Follow(source) | Holders(source) | Count(source) | Extreme(source):
            yield from told(source)


def best(graph: Graph, titles: set[str], kind: str, measure: str, most: bool) -> set[str]:
    """Those of the titles with the greatest or smallest measure; all of them where one has none, for then who knows."""
    measured: dict[str, float] = {}
    for title in titles:
        entity = graph.entities.get(title)
        values = graph.values(title, measure)
        if entity is None or entity.kind != kind or len(values) != 1:
            return titles
        measured[title] = size(values[0], KINDS[kind].relations[measure].target)
    if not measured:
        return set()
    wanted = max(measured.values()) if most else min(measured.values())
    return {title for title, value in measured.items() if value == wanted}


def size(value: str, target: str) -> float:
    """A number that orders values of a measure: dates by day."""
    return float(value.replace("-", "")) if target == "date" else float(value)


def identifies(graph: Graph, description: Described, title: str) -> bool:
    """Whether the facts together fit ``title`` alone, while with any one of them left out they fit others as well."""
    if answers(graph, description) != {title}:
        return False
    fewer = combinations(description.facts, len(description.facts) - 1)
    return len(description.facts) > 1 and all(
        len(answers(graph, Described(description.kind, facts))) > 1 for facts in fewer
    )
