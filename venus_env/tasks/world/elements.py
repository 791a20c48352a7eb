"""Chemical elements and their discoverers as entities."""

from __future__ import annotations

import re
from collections import defaultdict

from venus_env.tasks.world.geography import Located
from venus_env.tasks.world.grammar import Entity
from venus_env.tasks.world.sources import RawFacts, fold

# Elements above this number were found by teams and institutes.
_LAST_WITH_DISCOVERER = 98
_PERSON = re.compile(r"[A-Z][a-z]+( [A-Z][a-z]+| von| de){1,4}")

# Slips in mendeleev's table, checked by hand: misspelt people, and facts that are wrong or disputed (None drops them).
_SPELLING = {
    "Humphrey Davy": "Humphry Davy",
    "Fredrich Stromeyer": "Friedrich Stromeyer",
    "Fredrich Ernst Dorn": "Friedrich Ernst Dorn",
    "Marguerite Derey": "Marguerite Perey",
    "Smithson Tenant": "Smithson Tennant",
    "Charles Hatchet": "Charles Hatchett",
    "George Brandt": "Georg Brandt",
}
_DROPPED = {
    ("Neodymium", "discovery_year"),
    ("Holmium", "discoverer"),
    ("Platinum", "discoverer"),
    ("Platinum", "discovery_year"),
    ("Platinum", "discovery_country"),
}


def chemistry(raw: RawFacts, home_of: dict[str, str]) -> list[Located]:
    """Elements, and the people who discovered exactly one of them.

    Args:
        raw: The packages' tables.
        home_of: Country name to ISO code; an element belongs to the country of its discovery (else to itself), a person
            to the same as the element, so that paths from them stay within one split.
    """
    elements: list[Located] = []
    found_by: dict[str, list[Located]] = defaultdict(list)
    names = [row["name"] for row in raw.elements]
    for i, row in enumerate(raw.elements):
        facts = {"symbol": row["symbol"]}
        person = _SPELLING.get(label := fold(row["discoverers"] or "").removeprefix("Sir "), label)
        if row["atomic_number"] <= _LAST_WITH_DISCOVERER and _PERSON.fullmatch(person) and " and " not in person:
            facts["discoverer"] = person
        place = fold(row["discovery_location"] or "")
        if re.fullmatch(r"[A-Za-z ]+", place):
            facts["discovery_country"] = place
        if row["discovery_year"]:
            facts["discovery_year"] = str(row["discovery_year"])
        if i > 0:
            facts["previous"] = names[i - 1]
        if i + 1 < len(names):
            facts["next"] = names[i + 1]
        facts = {name: value for name, value in facts.items() if (row["name"], name) not in _DROPPED}
        traits = {"state": "radioactive" if row["is_radioactive"] else "stable"}
        located = Located(Entity(row["name"], "element", facts, traits), home_of.get(place, row["name"]))
        elements.append(located)
        if "discoverer" in facts:
            found_by[facts["discoverer"]].append(located)
    people = []
    for person, found in found_by.items():
        if len(found) == 1:
            element = found[0].entity
            facts = {"element": element.name}
            if "discovery_year" in element.facts:
                facts["year"] = element.facts["discovery_year"]
            people.append(Located(Entity(person, "person", facts), found[0].home))
    return [*elements, *people]
