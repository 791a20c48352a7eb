"""The full world put together: entities from the packages, their splits, and every page."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from venus_env.corpus.text import words
from venus_env.tasks.world.elements import chemistry
from venus_env.tasks.world.full.baseball import baseball
from venus_env.tasks.world.full.graph import PRIMARY, Entity, Graph
from venus_env.tasks.world.full.kinds import KINDS
from venus_env.tasks.world.full.more_pages import archived_pages, disambiguation_pages, list_pages, short_pages
from venus_env.tasks.world.full.pages import Page, entity_page
from venus_env.tasks.world.full.places import places
from venus_env.tasks.world.geography import geography
from venus_env.tasks.world.questions import SPLITS
from venus_env.tasks.world.sources import RawFacts, read_baseball, read_packages, read_us_towns


class World:
    """A graph with its pages.

    Attributes:
        graph: The entities.
        seed: Fixes the wording of every page.
        pages: Every page by title: first those of the entities, in their order, then the others.
    """

    def __init__(self, entities: Iterable[Entity], seed: int) -> None:
        self.graph = Graph(entities)
        self.seed = seed
        self.pages: dict[str, Page] = {}
        for entity in self.graph.entities.values():
            self._add(entity_page(entity, self.graph, random.Random(f"{seed}/page/{entity.title}")))
        rng = random.Random(f"{seed}/other pages")
        for more in (list_pages, archived_pages, short_pages):
            for page in more(self.graph, rng):
                self._add(page)
        for page in disambiguation_pages(self.graph):
            self._add(page)

    def sheets(self, title: str) -> list[Page]:
        """All pages of a list that may run over several; none where there is no such list."""
        found: list[Page] = []
        while (key := title if not found else f"{title} ({len(found) + 1})") in self.pages:
            found.append(self.pages[key])
        return found

    @cached_property
    def _pages_with(self) -> dict[str, set[int]]:
        """Numbers of the pages that hold a word, in the title or the text."""
        found: dict[str, set[int]] = defaultdict(set)
        for number, page in enumerate(self.pages.values()):
            for word in words(f"{page.title} {page.text}"):
                found[word].add(number)
        return found

    def holding(self, text: str) -> set[int]:
        """Numbers of the pages that hold every word of a text, wherever they stand."""
        first, *others = sorted((self._pages_with.get(word, set()) for word in words(text)), key=len) or [set()]
        return first.intersection(*others) if others else first

    def rarity(self, text: str) -> int:
        """On how many pages the rarest word of a text stands."""
        return min((len(self._pages_with.get(word, ())) for word in words(text)), default=0)

    def _add(self, page: Page) -> None:
        if page.title in self.pages:
            raise ValueError(f"two pages have the title {page.title!r}; titles must be unique in a world")
        self.pages[page.title] = page


def real_world(seed: int) -> World:
    """The full world of real facts from the installed packages.

    Raises:
        MissingSource: A package is not installed.
    """
    raw = read_packages()
    tiny = geography(raw)
    found = places(raw, read_us_towns(), tiny)
    players = baseball(read_baseball(), found.town)
    home_of = {entity.name: str(entity.home) for entity in found.entities if entity.kind == "country"}
    entities = distinct([*found.entities, *_elements(raw, home_of), *players])
    return World(assign_splits(entities, random.Random(f"{seed}/splits")), seed)


def _elements(raw: RawFacts, home_of: dict[str, str]) -> list[Entity]:
    numbers = {row["name"]: str(row["atomic_number"]) for row in raw.elements}
    found = []
    for item in chemistry(raw, home_of):
        entity = item.entity
        facts = {name: (value,) for name, value in entity.facts.items() if name != "year"}
        if entity.kind == "element":
            facts["number"] = (numbers[entity.name],)
        kind = "scientist" if entity.kind == "person" else entity.kind
        found.append(Entity(entity.name, kind, facts, entity.traits, name=entity.name, home=item.home))
    return found


def distinct(entities: Iterable[Entity]) -> list[Entity]:
    """Add the kind to every title that is also a name of something else, here and wherever a fact leads to it.

    Countries and states keep their titles.
    """
    entities = list(entities)
    called = Counter(
        name.casefold() for entity in entities for name in {n.casefold(): n for n in entity.names}.values()
    )
    renamed = {
        (entity.kind, entity.title): f"{entity.title} ({KINDS[entity.kind].noun})"
        for entity in entities
        if called[entity.title.casefold()] > 1 and entity.kind not in PRIMARY
    }
    changed = []
    for entity in entities:
        facts = {
            name: tuple(renamed.get((KINDS[entity.kind].relations[name].target, value), value) for value in values)
            for name, values in entity.facts.items()
        }
        title = renamed.get((entity.kind, entity.title), entity.title)
        changed.append(replace(entity, title=title, name=entity.name or entity.title, facts=facts))
    return changed


def assign_splits(entities: Iterable[Entity], rng: random.Random) -> list[Entity]:
    """Give each entity the split of its home (a US state or a country), so that pages of one region stay together.

    Homes are dealt out from the largest to the smallest, each to the split that lacks most of its share; the states
    and the other homes separately, so that every split has both. What belongs to no single home gets no split.
    """
    entities = list(entities)
    sizes = Counter(entity.home for entity in entities if entity.home is not None and entity.home != "US")
    split_of: dict[str, str] = {}
    for american in (True, False):
        homes = [home for home in sizes if home.startswith("US-") == american]
        rng.shuffle(homes)
        homes.sort(key=lambda home: -sizes[home])
        total = sum(sizes[home] for home in homes)
        given: Counter[str] = Counter()
        for home in homes:
            split = max(SPLITS, key=lambda split: SPLITS[split] * total - given[split])
            split_of[home] = split
            given[split] += sizes[home]
    return [replace(entity, split=split_of.get(entity.home or "")) for entity in entities]
