"""The relations of the world and all of its wording: how a fact is written on a page and asked for in a question.

Real pages and made-up ones share this table, so a model can practise reading on invented names and be tested on real
ones. Wording is regular on purpose (a two-million-parameter model has to learn it) but varied: three or four variants
for every relation, most of which contain the relation's own words (``goal``).
"""

from __future__ import annotations

from venus_env.tasks.world.places import AIRPORT, CITY, COUNTRY, CURRENCY, STATE
from venus_env.tasks.world.schema import Kind, Relation, by_name

__all__ = ["FRAMES", "KINDS", "PERSON_FRAMES", "Kind", "Relation"]

SIZES = ("small", "medium", "large")
HALVES = ("northern", "southern")
HEIGHTS = ("low", "moderate", "high")
STATES_OF_MATTER = ("stable", "radioactive")

_ELEMENT = by_name(
    Relation(
        "symbol",
        "symbol",
        "symbol",
        ("The symbol of {n} is {v}.", "Its symbol is {v}.", "Formulas show it by the symbol {v}."),
        ("the symbol of {x}", "the chemical symbol of {x}", "the symbol used for {x}"),
    ),
    Relation(
        "discoverer",
        "discoverer",
        "person",
        ("The discoverer of {n} is {v}.", "Its discoverer is {v}.", "The honour of discoverer went to {v}."),
        ("the discoverer of {x}", "the person who discovered {x}", "the scientist who discovered {x}"),
        chance=0.8,
    ),
    Relation(
        "discovery_country",
        "discovery country",
        "country",
        (
            "The discovery country of {n} is {v}.",
            "Its discovery country is {v}.",
            "The discovery took place in the country of {v}.",
        ),
        ("the discovery country of {x}", "the country where {x} was discovered", "the country that saw {x} discovered"),
    ),
    Relation(
        "next",
        "next element",
        "element",
        (
            "The next element after {n} is {v}.",
            "Its next element is {v}.",
            "In the table the next element is {v}.",
        ),
        ("the next element after {x}", "the element after {x}", "the element that follows {x}"),
    ),
    Relation(
        "previous",
        "previous element",
        "element",
        (
            "The previous element before {n} is {v}.",
            "Its previous element is {v}.",
            "In the table the previous element is {v}.",
        ),
        ("the previous element before {x}", "the element before {x}", "the element that precedes {x}"),
    ),
    Relation(
        "discovery_year",
        "discovery year",
        "year",
        (
            "The discovery year of {n} is {v}.",
            "Its discovery year is {v}.",
            "Books give the discovery year as {v}.",
        ),
        ("the discovery year of {x}", "the year when {x} was discovered", "the year of discovery of {x}"),
    ),
)

_PERSON = by_name(
    Relation(
        "element",
        "element",
        "element",
        ("The element of {n} is {v}.", "The element found was {v}.", "{n} discovered the element {v}."),
        ("the element of {x}", "the element discovered by {x}", "the element that {x} discovered"),
    ),
    Relation(
        "year",
        "year",
        "year",
        ("The year of the discovery was {v}.", "It happened in the year {v}.", "Fame came in the year {v}."),
        askable=False,
    ),
)

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "country",
            (
                "{n} is a country of {size} size in the {half} half of the world.",
                "{n} is a {size} country that lies in the {half} half of the world.",
                "{n} is the name of a {size} country in the {half} half of the world.",
            ),
            {"size": SIZES, "half": HALVES},
            COUNTRY,
            share=0.15,
            name_words=(1, 1, 1, 2),
        ),
        Kind(
            "city",
            (
                "{n} is a city of {size} size in the {half} half of the world.",
                "{n} is a {size} city that lies in the {half} half of the world.",
                "{n} is the name of a {size} city in the {half} half of the world.",
            ),
            {"size": SIZES, "half": HALVES},
            CITY,
            share=0.4,
            name_words=(1, 1, 2),
        ),
        Kind(
            "airport",
            (
                "{n} is an airport at {height} height in the {half} half of the world.",
                "{n} is an airport that lies at {height} height in the {half} half of the world.",
                "{n} is the name of an airport at {height} height in the {half} half of the world.",
            ),
            {"height": HEIGHTS, "half": HALVES},
            AIRPORT,
            share=0.2,
            name_words=(1, 1, 2),
            suffix=" Airport",
        ),
        Kind(
            "element",
            (
                "{n} is a {state} chemical element that has its place in the periodic table.",
                "{n} is a chemical element, one of the {state} ones in the periodic table.",
                "{n} is the name of a {state} chemical element in the periodic table.",
            ),
            {"state": STATES_OF_MATTER},
            _ELEMENT,
            share=0.1,
        ),
        Kind(
            "person",
            (
                "{n} is a person known for careful work on the chemical elements.",
                "{n} is known as a person who did careful work on the elements.",
                "{n} is the name of a person who worked on the chemical elements.",
            ),
            {},
            _PERSON,
            share=0.05,
            name_words=(2,),
        ),
        Kind(
            "currency",
            (
                "{n} is a currency, a kind of money that people use every day.",
                "{n} is a kind of money, a currency that people use every day.",
                "{n} is the name of a currency that people use every day.",
            ),
            {},
            CURRENCY,
            share=0.05,
        ),
        Kind(
            "state",
            (
                "{n} is a state, one of the parts that make up the country.",
                "{n} is one of the states that together make up the country.",
                "{n} is the name of a state that is part of the country.",
            ),
            {},
            STATE,
            share=0.05,
            name_words=(1, 1, 2),
        ),
    )
}
"""Every kind of entity by name."""

FRAMES = ("What is {np}?", "Name {np}.", "Find {np}.", "Tell me {np}.")
"""Question wordings around a noun phrase."""

PERSON_FRAMES = ("Who is {np}?", *FRAMES[1:])
"""Question wordings where the answer is a person."""
