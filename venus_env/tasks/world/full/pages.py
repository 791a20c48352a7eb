"""The page of an entity: an introduction, a section of prose, a box of facts and links."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from venus_env.corpus.document import Passage
from venus_env.tasks.world.full.graph import Entity, Graph, address
from venus_env.tasks.world.full.kinds import KINDS
from venus_env.tasks.world.full.schema import expand
from venus_env.tasks.world.full.values import DATE_STYLES, joined, show

MOST_LINKS = 8
# Where a fact stands: in prose, in the box, or in both.
_PLACES = ("prose", "prose", "box", "both")


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    Attributes:
        title: Its title; unique in the world.
        parts: ``(section, text)`` in reading order, one passage each; the introduction has no section.
        facts: Relation (on a list: the title of a row's subject) to the sentence or line that states it, verbatim.
        shown: The same keys to the value as written there.
        sharealike: Whether it states facts under a share-alike licence.
        date: What day it describes, where it is not the present.
    """

    title: str
    parts: tuple[tuple[str | None, str], ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    sharealike: bool = False
    date: str | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return address(self.title)

    @property
    def text(self) -> str:
        """All of its text."""
        return "\n".join(text for _, text in self.parts)

    def passages(self) -> list[Passage]:
        """Its parts as rows of a corpus."""
        return [
            Passage(f"{self.title}#{number}", self.url, self.title, text, section, self.date)
            for number, (section, text) in enumerate(self.parts)
        ]


_ARTICLED = (
    "United States", "United Kingdom", "United Arab Emirates", "Netherlands", "Philippines", "Bahamas", "Maldives",
    "Czech Republic", "Dominican Republic", "Central African Republic", "Solomon Islands", "Marshall Islands",
    "Democratic Republic of the Congo", "Republic of the Congo", "Gambia",
)  # fmt: skip


def in_sentence(title: str) -> str:
    """A title as it stands inside a sentence: some countries take the article."""
    return f"the {title}" if title in _ARTICLED else title


def with_article(entity: Entity) -> str:
    """The name of an entity as it stands inside a sentence."""
    return f"the {entity.title}" if KINDS[entity.kind].article else in_sentence(entity.title)


def entity_page(entity: Entity, graph: Graph, rng: random.Random) -> Page:
    """Write the page of an entity; which fact stands in the box and which in prose, and how, is drawn."""
    kind = KINDS[entity.kind]
    style = rng.choice(DATE_STYLES)
    lead = expand(rng.choice(kind.leads), rng, n=entity.title, **entity.traits)
    prose = [lead, expand(rng.choice(kind.seconds), rng, n=entity.title)]
    box: list[str] = []
    facts: dict[str, str] = {}
    shown: dict[str, str] = {}
    told: list[tuple[str, str]] = []
    for name, relation in kind.relations.items():
        values = entity.facts.get(name)
        if not values or not (relation.sentences or relation.label):
            continue
        texts = [show(value, relation.target, relation.unit, style) for value in values]
        value = joined(texts)
        shown[name] = value
        place = rng.choice(_PLACES) if relation.label and relation.sentences else "prose"
        if place != "prose":
            box.append(f"{relation.label}: {value}")
            facts[name] = box[-1]
        if place != "box":
            sentence_value = joined([in_sentence(text) for text in texts])
            told.append((name, sentence_value))
            if len(texts) > 1:
                shown[name] = sentence_value
    rng.shuffle(told)
    subjects = (f"{'The ' if kind.article else ''}{entity.title}", *kind.subjects, *kind.subjects)
    for name, value in told:
        wording = rng.choice(kind.relations[name].sentences)
        prose.append(expand(wording, rng, s=rng.choice(subjects), v=value))
        facts[name] = prose[-1]
    # One passage a page, and the introduction longer than a search snippet: to learn a fact one has to open the page.
    sections = [kind.section, " ".join(prose[2:])] if len(prose) > 2 else []
    box = ["Facts", *box] if box else []
    if links := _links(entity, graph):
        box.append("See also: " + "; ".join(links))
    return Page(
        entity.title,
        ((None, "\n".join([" ".join(prose[:2]), *sections, *box])),),
        facts,
        shown,
        kind.sharealike,
    )


def _links(entity: Entity, graph: Graph) -> list[str]:
    return link_texts(
        value
        for relation, values in entity.facts.items()
        if not entity.relation(relation).literal
        for value in values
        if value in graph.entities
    )


def link_texts(titles: Iterable[str]) -> list[str]:
    """Links to some pages: title and address."""
    return [f"{title} <{address(title)}>" for title in list(dict.fromkeys(titles))[:MOST_LINKS]]
