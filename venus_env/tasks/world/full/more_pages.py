"""Pages beside those of the entities: lists, disambiguation, old versions and short entries.

They make search harder (same names, same facts in part) and give a second place to check most facts.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator

from venus_env.tasks.world.full.graph import Entity, Graph
from venus_env.tasks.world.full.kinds import KINDS
from venus_env.tasks.world.full.pages import Page, link_texts
from venus_env.tasks.world.full.schema import expand
from venus_env.tasks.world.full.values import joined, show

ROWS_PER_PAGE = 30
ROWS_PER_PART = 10
SHORT_SHARE = 0.08
# Longer than a search snippet together with what stands before it, so that lists, too, have to be opened.
_ABOUT_LISTS = (
    "Entries stand in alphabetical order, one a line, and each of them has a page of its own in this work; a list that "
    "is too long for one page goes on under the same title with a number."
)
_DATED = ("all_star", "gold_gloves", "managed")


def natives_title(city: str) -> str:
    """Title of the list of players born in a city."""
    return f"Baseball players born in {city}"


def cities_title(region: str) -> str:
    """Title of the list of cities of a state or country."""
    return f"Cities of {region}"


def discoveries_title(country: str) -> str:
    """Title of the list of elements discovered in a country."""
    return f"Chemical elements discovered in {country}"


def list_pages(graph: Graph, rng: random.Random) -> Iterator[Page]:
    """Every list: natives of a city, cities and airports of a state or country, seasons, discoveries."""
    natives: dict[str, list[Entity]] = defaultdict(list)
    for player in graph.by_kind["player"]:
        natives[player.facts["birth_city"][0]].append(player)
    for city, players in natives.items():
        if len(players) > 1:
            rows = [(player.title, f"{player.title} ({player.traits['era']})") for player in players]
            intro = expand(
                "[The following|These] baseball players [have|share] {c} as their birthplace[ in our sources|].",
                rng, c=city,
            )  # fmt: skip
            yield from _list(natives_title(city), intro, rows, [city], sharealike=True)
    yield from _place_lists(graph, rng)
    yield from _season_lists(graph, rng)
    found: dict[str, list[Entity]] = defaultdict(list)
    for element in graph.by_kind["element"]:
        for country in element.facts.get("discovery_country", ()):
            found[country].append(element)
    for country, elements in found.items():
        rows = [
            (e.title, f"{e.title}: discovered {_first(e, 'discovery_year') or 'in a year unknown'}") for e in elements
        ]
        intro = expand("[These|The following] chemical elements were [first found|discovered] in {c}.", rng, c=country)
        yield from _list(discoveries_title(country), intro, rows, [country])


def _place_lists(graph: Graph, rng: random.Random) -> Iterator[Page]:
    cities: dict[str, list[Entity]] = defaultdict(list)
    for city in graph.by_kind["city"]:
        cities[(city.facts.get("state") or city.facts["country"])[0]].append(city)
    region_of = {city.title: region for region, members in cities.items() for city in members}
    airports: dict[str, list[Entity]] = defaultdict(list)
    for airport in graph.by_kind["airport"]:
        airports[region_of[airport.facts["city"][0]]].append(airport)
    for region, members in cities.items():
        rows = [(e.title, f"{e.title}: population {show(e.facts['population'][0], 'number')}") for e in members]
        intro = expand("[This gazetteer lists|Listed here are] cities [in|of] {c}[ with their people|].", rng, c=region)
        yield from _list(cities_title(region), intro, rows, [region])
    for region, members in airports.items():
        rows = [
            (e.title, f"{e.title}: {e.facts['city'][0]}; IATA {e.facts['iata'][0]}, ICAO {e.facts['icao'][0]}")
            for e in members
        ]
        intro = expand(
            "[This register lists|Listed here are] airports [in|of] {c}[, with city and codes|].", rng, c=region
        )
        yield from _list(f"Airports of {region}", intro, rows, [region])


def _season_lists(graph: Graph, rng: random.Random) -> Iterator[Page]:
    years: dict[tuple[str, str], list[Entity]] = defaultdict(list)
    for season in graph.by_kind["season"]:
        if "league" in season.facts:
            years[season.title.split()[0], season.facts["league"][0]].append(season)
    for (year, league), seasons in sorted(years.items()):
        rows = []
        for e in seasons:
            row = f"{e.title}: {e.facts['wins'][0]} won, {e.facts['losses'][0]} lost"
            for relation, word in (("manager", "manager"), ("park", "home park")):
                if relation in e.facts:
                    row += f"; {word} {e.facts[relation][0]}"
            rows.append((e.title, row))
        intro = expand("[Clubs|Teams] of the {l} in {y}[, with their results|].", rng, l=league, y=year)
        links = [e.title for e in seasons]
        yield from _list(f"{year} {league} season", intro, rows, links, sharealike=True)


def _list(
    title: str, intro: str, rows: list[tuple[str, str]], links: Iterable[str], *, sharealike: bool = False
) -> Iterator[Page]:
    """Cut a list into pages of at most ``ROWS_PER_PAGE`` rows (the first without number) and parts of ten rows."""
    rows = sorted(rows)
    pages = range(0, len(rows), ROWS_PER_PAGE)
    for number, start in enumerate(pages, start=1):
        own = rows[start : start + ROWS_PER_PAGE]
        sheet = title if number == 1 else f"{title} ({number})"
        parts: list[tuple[str | None, str]] = []
        for first in range(0, len(own), ROWS_PER_PART):
            part = own[first : first + ROWS_PER_PART]
            section = f"{part[0][0]} to {part[-1][0]}" if len(own) > ROWS_PER_PART else None
            lines = [f"{intro} {_ABOUT_LISTS}", *(line for _, line in part)]
            parts.append((section, "\n".join(lines)))
        if linked := link_texts(links):
            parts[-1] = (parts[-1][0], f"{parts[-1][1]}\nSee also: {'; '.join(linked)}")
        facts = dict(own)
        yield Page(sheet, tuple(parts), facts, {subject: subject for subject in facts}, sharealike)


def disambiguation_pages(graph: Graph) -> Iterator[Page]:
    """For each name that several entities share, a page that tells them apart."""
    for name, titles in sorted(graph.ambiguous().items()):
        entities = [graph.entities[title] for title in sorted(titles)]
        lines = [f"{e.title}: {_a(KINDS[e.kind].noun)}" for e in entities]
        text = f"{name} may refer to one of {len(lines)} entries of this work:\n" + "\n".join(lines)
        parts = ((None, text + "\nSee also: " + "; ".join(link_texts(titles))),)
        title = name if name not in graph.entities else f"{name} (disambiguation)"
        yield Page(title, parts, sharealike=any(KINDS[e.kind].sharealike for e in entities))


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def archived_pages(graph: Graph, rng: random.Random) -> Iterator[Page]:
    """Old versions of players' pages: true on the day that they name, out of date now."""
    for player in graph.by_kind["player"]:
        years = sorted({int(value[:4]) for relation in _DATED for value in player.facts.get(relation, ())})
        if len(years) < 4 or rng.random() < 0.4:
            continue
        year = years[len(years) // 2]
        lines = [
            f"This is an archived page about {player.title}. "
            f"It shows what was known at the end of {year} and is not kept up to date."
        ]
        for relation in _DATED:
            values = [value for value in player.facts.get(relation, ()) if int(value[:4]) <= year]
            if values:
                schema = KINDS["player"].relations[relation]
                lines.append(f"{schema.label} up to {year}: {joined(values)}.")
        parts = ((None, " ".join(lines) + "\nSee also: " + link_texts([player.title])[0]),)
        yield Page(f"{player.title} (archived {year})", parts, sharealike=True, date=f"{year}-12-31")


def short_pages(graph: Graph, rng: random.Random) -> Iterator[Page]:
    """Near-duplicates: short entries on some entities, which state two of their facts in other words."""
    for entity in graph.entities.values():
        kind = KINDS[entity.kind]
        stated = [name for name in entity.facts if kind.relations[name].sentences]
        if entity.kind not in ("city", "airport", "player", "season") or len(stated) < 4 or rng.random() > SHORT_SHARE:
            continue
        lead = expand(rng.choice(kind.leads), rng, n=entity.title, **entity.traits)
        lines = [f"Short entry. {lead}"]
        for name in rng.sample(stated, 2):
            relation = kind.relations[name]
            value = joined([show(value, relation.target, relation.unit) for value in entity.facts[name]])
            lines.append(
                expand(
                    rng.choice(relation.sentences),
                    rng,
                    s=entity.title if not kind.article else f"The {entity.title}",
                    v=value,
                )
            )
        lines.append("The full entry has more.")
        parts = ((None, " ".join(lines) + "\nSee also: " + link_texts([entity.title])[0]),)
        yield Page(f"{entity.title} (short entry)", parts, sharealike=kind.sharealike)


def _first(entity: Entity, relation: str) -> str | None:
    values = entity.facts.get(relation)
    return values[0] if values else None
