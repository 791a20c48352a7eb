"""Relations of countries, cities, airports, currencies and states, with their wording."""

from __future__ import annotations

from venus_env.tasks.world.schema import Relation, by_name

COUNTRY = by_name(
    Relation(
        "capital",
        "capital",
        "city",
        (
            "The capital of {n} is {v}.",
            "Its capital is {v}.",
            "The capital city is {v}.",
            "The government sits in the capital, {v}.",
        ),
        ("the capital of {x}", "the capital city of {x}", "the seat of government of {x}"),
    ),
    Relation(
        "largest_city",
        "largest city",
        "city",
        (
            "The largest city of {n} is {v}.",
            "Its largest city is {v}.",
            "The largest city, {v}, has more people than any other.",
        ),
        ("the largest city of {x}", "the largest city in {x}", "the most populous city of {x}"),
    ),
    Relation(
        "currency",
        "currency",
        "currency",
        (
            "The currency of {n} is the {v}.",
            "Its currency is the {v}.",
            "People there pay with the local currency, the {v}.",
        ),
        ("the currency of {x}", "the money of {x}", "the currency used in {x}"),
    ),
    Relation(
        "language",
        "language",
        "word",
        (
            "The language of {n} is {v}.",
            "Its official language is {v}.",
            "People there speak the national language, {v}.",
        ),
        ("the language of {x}", "the official language of {x}", "the language spoken in {x}"),
        chance=0.6,
    ),
    Relation(
        "demonym",
        "demonym",
        "word",
        ("The demonym of {n} is {v}.", "Its demonym is {v}.", "People from there carry the demonym {v}."),
        ("the demonym of {x}", "the name for people from {x}", "the demonym for people of {x}"),
        chance=0.8,
    ),
    Relation(
        "calling_code",
        "calling code",
        "number3",
        (
            "The calling code of {n} is {v}.",
            "Its calling code is {v}.",
            "Phone numbers there start with the calling code {v}.",
        ),
        ("the calling code of {x}", "the phone code of {x}", "the calling code used in {x}"),
        chance=0.8,
    ),
    Relation(
        "domain",
        "internet domain",
        "domain",
        (
            "The internet domain of {n} is {v}.",
            "Its internet domain is {v}.",
            "Web addresses there end in the internet domain {v}.",
        ),
        ("the internet domain of {x}", "the web domain of {x}", "the internet domain used in {x}"),
        chance=0.8,
    ),
    Relation(
        "border",
        "border",
        "country",
        ("{n} has a border with {v}.", "It shares a border with {v}.", "Roads lead over the border to {v}."),
        askable=False,
        chance=0.6,
    ),
)

CITY = by_name(
    Relation(
        "country",
        "country",
        "country",
        (
            "The country of {n} is {v}.",
            "Its country is {v}.",
            "It belongs to the country of {v}.",
            "{n} lies in the country of {v}.",
        ),
        ("the country of {x}", "the country where {x} lies", "the country in which {x} is found"),
    ),
    Relation(
        "larger_city",
        "nearest larger city",
        "city",
        (
            "The nearest larger city to {n} is {v}.",
            "Its nearest larger city is {v}.",
            "The road to the nearest larger city leads to {v}.",
        ),
        ("the nearest larger city to {x}", "the closest larger city to {x}", "the nearest city larger than {x}"),
        chance=0.7,
    ),
    Relation(
        "neighbour",
        "neighbour",
        "city",
        ("The closest neighbour of {n} is {v}.", "Its closest neighbour is {v}.", "The neighbour next door is {v}."),
        ("the closest neighbour of {x}", "the neighbour of {x}", "the place next to {x}"),
        chance=0.7,
    ),
    Relation(
        "airport",
        "airport",
        "airport",
        ("The airport of {n} is {v}.", "Its airport is {v}.", "Travellers fly from the local airport, {v}."),
        ("the airport of {x}", "the local airport of {x}", "the airport that serves {x}"),
        chance=0.6,
    ),
    Relation(
        "state",
        "state",
        "state",
        ("The state of {n} is {v}.", "Its state is {v}.", "It is part of the state of {v}."),
        ("the state of {x}", "the state where {x} lies", "the state in which {x} is found"),
        chance=0.3,
    ),
    Relation(
        "population",
        "population",
        "number6",
        ("The population of {n} is {v}.", "Its population is {v}.", "It has a population of {v}."),
        askable=False,
        chance=0.7,
    ),
)

AIRPORT = by_name(
    Relation(
        "city",
        "city",
        "city",
        (
            "The city of {n} is {v}.",
            "Its city is {v}.",
            "It serves the city of {v}.",
            "{n} takes travellers to the city of {v}.",
        ),
        ("the city of {x}", "the city served by {x}", "the city that {x} serves"),
    ),
    Relation(
        "region",
        "region",
        "name",
        ("The region of {n} is {v}.", "Its region is {v}.", "It stands in the region of {v}."),
        ("the region of {x}", "the region where {x} stands", "the region in which {x} is found"),
    ),
    Relation(
        "iata",
        "IATA code",
        "letters3",
        ("The IATA code of {n} is {v}.", "Its IATA code is {v}.", "Bags for it carry the IATA code {v}."),
        ("the IATA code of {x}", "the three-letter code of {x}", "the IATA code used for {x}"),
    ),
    Relation(
        "icao",
        "ICAO code",
        "letters4",
        ("The ICAO code of {n} is {v}.", "Its ICAO code is {v}.", "Pilots know it by the ICAO code {v}."),
        ("the ICAO code of {x}", "the four-letter code of {x}", "the ICAO code used for {x}"),
    ),
    Relation(
        "elevation",
        "elevation",
        "number4",
        ("The elevation of {n} is {v} feet.", "Its elevation is {v} feet.", "It has an elevation of {v} feet."),
        askable=False,
        chance=0.7,
    ),
)

CURRENCY = by_name(
    Relation(
        "code",
        "currency code",
        "letters3",
        (
            "The currency code of {n} is {v}.",
            "Its currency code is {v}.",
            "Banks write it with the currency code {v}.",
        ),
        ("the currency code of {x}", "the code of {x}", "the currency code used for {x}"),
    ),
    Relation(
        "country",
        "country",
        "country",
        (
            "The country of {n} is {v}.",
            "Its country is {v}.",
            "It is used in the country of {v}.",
        ),
        ("the country of {x}", "the country that uses {x}", "the country where people pay with {x}"),
    ),
    Relation(
        "continent",
        "continent",
        "continent",
        ("The continent of {n} is {v}.", "Its continent is {v}.", "It is used on the continent of {v}."),
        askable=False,
    ),
)

STATE = by_name(
    Relation(
        "code",
        "state code",
        "letters2",
        ("The state code of {n} is {v}.", "Its state code is {v}.", "Letters to it carry the state code {v}."),
        ("the state code of {x}", "the two-letter code of {x}", "the state code used for {x}"),
    ),
    Relation(
        "largest_city",
        "largest city",
        "city",
        (
            "The largest city of {n} is {v}.",
            "Its largest city is {v}.",
            "The largest city, {v}, has more people than any other.",
        ),
        ("the largest city of {x}", "the largest city in {x}", "the most populous city of {x}"),
    ),
)
