"""Gold paths: what is read on which page, in order, and what may not stand on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from venus_env.tasks.task import Evidence
from venus_env.tasks.world.full.graph import Entity
from venus_env.tasks.world.full.pages import Page
from venus_env.tasks.world.full.queries import Described, Follow, Named, Node
from venus_env.tasks.world.full.schema import Relation
from venus_env.tasks.world.full.values import accepted
from venus_env.tasks.world.full.world import World
from venus_env.tasks.world.graph import mentions

Hop = tuple[Entity, Relation]
"""On the page of the entity, read the relation."""

# A year is read where its date stands.
_STATED_BY = {"birth_year": "birth_date", "debut_year": "debut_date"}


@dataclass(frozen=True, slots=True)
class Opening:
    """How a question brings in its first entity: by name, or by a description.

    Attributes:
        node: The query for it.
        evidence: What has to be read to find it; empty for a name.
        depth: Pages that have to be read before its own.
    """

    node: Node
    evidence: tuple[Evidence, ...] = ()
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Trail:
    """An opening and the hops from there.

    Attributes:
        opening: Where it begins.
        hops: What is read, in order; the value of each hop leads to the next.
    """

    opening: Opening
    hops: tuple[Hop, ...] = field(default=())

    @property
    def node(self) -> Node:
        """The query for where it ends."""
        node = self.opening.node
        for entity, relation in self.hops:
            node = Follow(node, entity.kind, relation.name)
        return node

    @property
    def end(self) -> str:
        """The value of the last hop."""
        entity, relation = self.hops[-1]
        return entity.facts[relation.name][0]

    @property
    def depth(self) -> int:
        """Pages that have to be read in sequence to know the end."""
        return self.opening.depth + len(self.hops)

    @property
    def shape(self) -> str:
        """Kind of the start and the relations: the type of the path."""
        start = self.opening.node
        begins = f"described {start.kind}" if isinstance(start, Described) else self.hops[0][0].kind
        return ">".join([begins, *(relation.name for _, relation in self.hops)])

    def evidence(self, world: World) -> list[Evidence]:
        """Everything that is read, in order."""
        return [*self.opening.evidence, *(fact(world, entity, relation) for entity, relation in self.hops)]


def named(entity: Entity) -> Opening:
    """An opening by name."""
    return Opening(Named(entity.title))


def fact(world: World, entity: Entity, relation: Relation, value: str | None = None) -> Evidence:
    """The statement of a fact on its entity's page.

    Args:
        world: Has the page.
        entity: Subject of the fact.
        relation: The fact.
        value: What to read there, where it is not all that the statement says.
    """
    page, stated = world.pages[entity.title], _STATED_BY.get(relation.name, relation.name)
    return Evidence(
        url=page.url,
        title=page.title,
        sentence=page.facts[stated],
        relation=relation.goal,
        value=value or page.shown[stated],
    )


def states(world: World, entity: Entity, relation: str) -> bool:
    """Whether the page of an entity states a fact, in full or by the date that it is part of."""
    return _STATED_BY.get(relation, relation) in world.pages[entity.title].facts


def row(page: Page, subject: str) -> Evidence:
    """The row of a list that names a subject."""
    return Evidence(
        url=page.url, title=page.title, sentence=page.facts[subject], relation="list entry", value=page.shown[subject]
    )


def listed(world: World, lister: str, relation: str, subject: str) -> Evidence:
    """The statement on an entity's page that names ``subject`` among the values of a many-valued relation."""
    entity = world.graph.entities[lister]
    return fact(world, entity, entity.relation(relation), subject)


def answer_texts(world: World, relation: Relation, value: str) -> tuple[str, ...]:
    """Every accepted way of writing a value of a relation."""
    if relation.literal:
        return accepted(value, relation.target, relation.unit)
    entity = world.graph.entities.get(value)
    if entity is None:
        return (value,)
    # Who won the 1927 World Series? The year goes without saying.
    without_year = (value.split(" ", 1)[1],) if relation.name in ("winner", "loser") else ()
    return (*entity.names, *without_year)


def reads_ahead(world: World, evidence: Iterable[Evidence], answers: Iterable[str]) -> bool:
    """Whether an answer stands on a page that is read before the last: then fewer pages would do."""
    evidence = list(evidence)
    before = {step.title for step in evidence} - {evidence[-1].title}
    texts = [world.pages[title].text for title in before]
    return any(mentions(text, answer) for text in texts for answer in answers)


def shortcut(world: World, texts: Iterable[str], answers: Iterable[str], telling: int) -> bool:
    """Whether some page of the world holds an answer together with a text that tells what the question is about.

    Such a page, on the gold path or off it, is a way from the question to the answer that leaves the path out.

    Args:
        world: Has all pages.
        texts: The words, names and values of the question.
        answers: Accepted answers.
        telling: A text tells if its words stand together on at most so many pages.
    """
    holders: set[int] = set().union(*map(world.holding, answers))
    found = map(world.holding, texts)
    return any(len(pages) <= telling and not holders.isdisjoint(pages) for pages in found)


def gives_away(question: str, answers: Iterable[str]) -> bool:
    """Whether an answer stands in the question, in any case."""
    folded = question.casefold()
    return any(mentions(folded, answer.casefold()) for answer in answers)
