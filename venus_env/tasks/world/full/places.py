"""Countries, states, cities and airports of the full world: from the tables of the tiny one, but far more of them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from venus_env.tasks.world.full.graph import Entity
from venus_env.tasks.world.geography import (
    LEFT_OUT,
    NAMESAKE_FACTOR,
    NOT_COUNTRIES,
    Located,
    half,
    unit_vectors,
    with_capital_spellings,
    without_suburbs,
)
from venus_env.tasks.world.sources import RawFacts, Row, latin

CITIES_PER_COUNTRY = 60

_SHARED_WITH_STATES = frozenset({"Georgia"})

_CITY_NAME = re.compile(r"[A-Z][A-Za-z']+([ -][A-Za-z']+){0,3}")
_AIRPORT_NAME = re.compile(r"[A-Z][A-Za-z.']*([ -][A-Za-z.']+){0,6}")
_REGION = re.compile(r"[A-Z][A-Za-z]+([ -][A-Za-z]+){0,3}")


@dataclass(frozen=True, slots=True)
class Places:
    """Geographic entities, and where to look a town up.

    Attributes:
        entities: All of them.
        town: Title of a city by home (``US-OH``, ``FR``) and folded, lower-cased name.
    """

    entities: list[Entity]
    town: Mapping[tuple[str, str], str]


def places(raw: RawFacts, towns: Sequence[Row], tiny: Sequence[Located]) -> Places:
    """Make the entities.

    Args:
        raw: The packages' tables.
        towns: US places of more than 5,000 people.
        tiny: Entities of the tiny world, whose checked facts on countries and currencies are used again.
    """
    names = set(raw.us_states.values())
    labels = {
        str(item.home): f"{item.entity.name} (country)" if item.entity.name in names else item.entity.name
        for item in tiny
        if item.entity.kind == "country"
    }
    rows = _city_rows(raw, towns, labels)
    titles = _titles(rows, raw, labels)
    town = {(row["home"], row["label"].casefold()): titles[row["geonameid"]] for row in rows}
    airports = _airports(raw, town)
    near = _nearest([*(row for row in raw.cities if row["countrycode"] != "US"), *towns], titles)
    cities = _cities(rows, titles, raw, labels, airports, near)
    states = _states(raw, rows, titles)
    countries = _countries(raw, tiny, labels, town)
    currencies = _currencies(raw, tiny, labels)
    return Places([*countries, *currencies, *states, *cities, *airports], town)


def state_title(name: str) -> str:
    """Title of a state's page; some states are called like a country or a city."""
    return f"{name} (state)" if name in _SHARED_WITH_STATES else name


def _city_rows(raw: RawFacts, towns: Sequence[Row], labels: Mapping[str, str]) -> list[Row]:
    """Rows of the cities with pages, each with ``label`` and ``home``, by home and falling population."""
    cities = [row for row in with_capital_spellings(raw) if row["countrycode"] != "US"]
    by_home: dict[str, list[Row]] = defaultdict(list)
    for row in [*cities, *towns]:
        american = row["countrycode"] == "US"
        home = f"US-{row['admin1code']}" if american else row["countrycode"]
        known = row["admin1code"] in raw.us_states if american else home in labels
        if known and _CITY_NAME.fullmatch(label := latin(row["name"])):
            by_home[home].append({**row, "label": label, "home": home})
    served = {(row["country"], latin(row["city"])) for row in raw.airports}
    kept: list[Row] = []
    for home in sorted(by_home):
        rows = sorted(by_home[home], key=lambda row: (-int(row["population"]), int(row["geonameid"])))
        people: Counter[str] = Counter()
        for row in rows:
            people[row["label"].casefold()] += int(row["population"])
        # A name that fits two places of one state or country stands for the larger only if nobody could mean the other.
        first: dict[str, Row] = {}
        for row in rows:
            key, population = row["label"].casefold(), int(row["population"])
            if key not in first and population >= NAMESAKE_FACTOR * (people[key] - population):
                first[key] = row
        unique = list(first.values())
        if not home.startswith("US-"):
            unique.sort(key=lambda row: (home, row["label"]) not in served)  # stable: then by population
            unique = unique[:CITIES_PER_COUNTRY]
        kept += unique
    return kept


def _titles(rows: Sequence[Row], raw: RawFacts, labels: Mapping[str, str]) -> dict[int, str]:
    """Title of each city: "Name, State" in the USA; elsewhere the name, or "Name, Country" where others share it."""
    shared = Counter(row["label"].casefold() for row in rows)
    taken = {name.casefold() for name in [*labels.values(), *raw.us_states.values()]}
    titles = {}
    for row in rows:
        label, home = row["label"], row["home"]
        if home.startswith("US-"):
            titles[row["geonameid"]] = f"{label}, {raw.us_states[row['admin1code']]}"
        elif shared[label.casefold()] > 1 or label.casefold() in taken:
            titles[row["geonameid"]] = f"{label}, {labels[home]}"
        else:
            titles[row["geonameid"]] = label
    return titles


def _cities(
    rows: Sequence[Row],
    titles: Mapping[int, str],
    raw: RawFacts,
    labels: Mapping[str, str],
    airports: Sequence[Entity],
    near: Mapping[int, Mapping[str, int]],
) -> list[Entity]:
    served: dict[str, list[str]] = defaultdict(list)
    for airport in airports:
        served[airport.facts["city"][0]].append(airport.title)
    found = []
    for row in rows:
        title, home, population = titles[row["geonameid"]], row["home"], int(row["population"])
        facts: dict[str, tuple[str, ...]] = {}
        if home.startswith("US-"):
            facts["state"] = (state_title(raw.us_states[row["admin1code"]]),)
        else:
            facts["country"] = (labels[home],)
        facts["population"] = (str(population),)
        for relation, other in near.get(row["geonameid"], {}).items():
            facts[relation] = (titles[other],)
        facts["time_zone"] = (row["timezone"],)
        if served[title]:
            facts["airports"] = tuple(sorted(served[title]))
        size = "small" if population < 100_000 else "medium" if population < 1_000_000 else "large"
        traits = {"size": size, "half": half(row["latitude"])}
        found.append(Entity(title, "city", facts, traits, name=row["label"], home=home))
    return found


def _nearest(everyone: Sequence[Row], titles: Mapping[int, str]) -> dict[int, dict[str, int]]:
    """For each city with a page that is no suburb: its nearest and its nearest larger city of the same country.

    All places count; a fact is left out where the place that it should name has no page.
    """
    by_country: dict[str, list[Row]] = defaultdict(list)
    for row in without_suburbs(list(everyone)):
        by_country[row["countrycode"]].append(row)
    found: dict[int, dict[str, int]] = {}
    for rows in by_country.values():
        points = unit_vectors(rows)
        people = np.array([int(row["population"]) for row in rows])
        for i, row in enumerate(rows):
            if row["geonameid"] not in titles:
                continue
            closeness = points @ points[i]
            closeness[i] = -np.inf
            near: dict[str, int] = {}
            for relation, ranked in (
                ("larger_city", np.where(people > people[i], closeness, -np.inf)),
                ("neighbour", closeness),
            ):
                best = int(np.argmax(ranked))
                other = rows[best]["geonameid"]
                if np.isfinite(ranked[best]) and other in titles and other not in near.values():
                    near[relation] = other
            found[row["geonameid"]] = near
    return found


def _airports(raw: RawFacts, town: Mapping[tuple[str, str], str]) -> list[Entity]:
    states = {name: code for code, name in raw.us_states.items()}
    names = Counter(latin(row["name"]).casefold() for row in raw.airports)
    found = []
    for row in raw.airports:
        label, region = latin(row["name"]), latin(row["subd"])
        home = f"US-{states.get(region, '')}" if row["country"] == "US" else row["country"]
        city = town.get((home, latin(row["city"]).casefold()))
        if city is None or names[label.casefold()] > 1 or not _AIRPORT_NAME.fullmatch(label) or label == city:
            continue
        if not re.fullmatch("[A-Z0-9]{4}", row["icao"]):
            continue
        facts = {"city": (city,), "iata": (row["iata"],), "icao": (row["icao"],)}
        feet = round(float(row["elevation"]))
        if feet > 0:
            facts["elevation"] = (str(feet),)
        if row["tz"]:
            facts["time_zone"] = (row["tz"],)
        if _REGION.fullmatch(region) and row["country"] != "US":
            facts["region"] = (region,)
        title = label if re.search("(Airport|Airfield|Field|Base|Airpark|Heliport)$", label) else f"{label} Airport"
        height = "low" if feet < 500 else "moderate" if feet < 3000 else "high"
        traits = {"height": height, "half": half(row["lat"])}
        found.append(Entity(title, "airport", facts, traits, name=label, home=home))
    counted = Counter(entity.title.casefold() for entity in found)
    return [entity for entity in found if counted[entity.title.casefold()] == 1]


def _states(raw: RawFacts, rows: Iterable[Row], titles: Mapping[int, str]) -> list[Entity]:
    largest: dict[str, str] = {}
    for row in rows:  # by falling population within a home
        largest.setdefault(row["home"], titles[row["geonameid"]])
    found = []
    for code, name in sorted(raw.us_states.items()):
        home = f"US-{code}"
        if home in largest:
            facts = {"code": (code,), "largest_city": (largest[home],)}
            found.append(Entity(state_title(name), "state", facts, name=name, home=home))
    return found


def _countries(
    raw: RawFacts, tiny: Sequence[Located], labels: Mapping[str, str], town: Mapping[tuple[str, str], str]
) -> list[Entity]:
    """Countries with the facts that the tiny world has checked, and borders on which both packages agree."""
    by_alpha3 = {row["iso3"]: code for code, row in raw.countries.items()}
    found = []
    for item in tiny:
        if item.entity.kind != "country":
            continue
        code, row = str(item.home), raw.countries[str(item.home)]
        facts: dict[str, tuple[str, ...]] = {}
        for relation in ("capital", "largest_city", "currency", "language", "demonym", "calling_code", "domain"):
            value = item.entity.facts.get(relation)
            if value is None or (code, relation) in LEFT_OUT:
                continue
            if relation in ("capital", "largest_city") and code != "US":
                value = town.get((code, value.casefold()), value)
            if relation == "largest_city" and code == "US":
                value = town.get(("US-NY", value.casefold()), value)
            facts[relation] = (value,)
        facts["area"] = (str(round(float(row["areakm2"]))),)
        ours = {other for other in row["neighbours"].split(",") if other}
        theirs = {by_alpha3.get(other, other) for other in raw.country_info[code].get("borders") or ()}
        if ours and ours == theirs and all(other in labels for other in ours):
            facts["borders"] = tuple(sorted(labels[other] for other in ours))
        found.append(Entity(labels[code], "country", facts, item.entity.traits, name=item.entity.name, home=code))
    return found


def _currencies(raw: RawFacts, tiny: Sequence[Located], labels: Mapping[str, str]) -> list[Entity]:
    users: dict[str, set[str]] = defaultdict(set)
    doubtful: set[str] = set()
    for iso, row in sorted(raw.countries.items()):
        if iso in NOT_COUNTRIES or not row["currencyname"]:
            continue
        if (iso, "currency") in LEFT_OUT or iso not in labels:
            doubtful.add(row["currencyname"])  # its list of users would not be complete
        else:
            users[row["currencyname"]].add(labels[iso])
    found = []
    for item in tiny:
        if item.entity.kind != "currency":
            continue
        name = item.entity.name
        facts: dict[str, tuple[str, ...]] = {"code": (item.entity.facts["code"],)}
        if name not in doubtful and users[name]:
            facts["users"] = tuple(sorted(users[name]))
        found.append(Entity(name, "currency", facts, name=name, home=item.home))
    return found
