"""Kinds and wordings: countries, currencies, states, cities, airports, elements and their discoverers."""

from __future__ import annotations

from venus_env.tasks.world.full.schema import Kind, Measure, Relation, by_name

_POPULATION = Measure(
    "has the larger population",
    "has the smaller population",
    "has the largest population",
    "has the smallest population",
)
_AREA = Measure("has the larger area", "has the smaller area", "has the largest area", "has the smallest area")
_ELEVATION = Measure(
    "lies at the higher elevation",
    "lies at the lower elevation",
    "lies at the highest elevation",
    "lies at the lowest elevation",
)
_DISCOVERY = Measure(
    "was discovered later", "was discovered earlier", "was the last to be discovered", "was the first to be discovered"
)

COUNTRY = Kind(
    "country",
    "country",
    "that",
    (
        "{n} is a [sovereign state|country] with a [land area|territory] that is {size} [by world standards|among nations].",
        "The [country|state] of {n} is one of the {size} countries of the world.",
        "{n}, a {size} country, [has|keeps] its main centres in the {half} hemisphere.",
    ),
    (
        "[This article|This page] [gives an overview of|collects basic facts on] the country: how it is governed, where "
        "its people live, how they pay and [speak|talk], and how it [can be reached|is reached] from abroad. Its history "
        "is [not part of this work|left to other works].",
        "[Key figures|Its main figures] follow below, with its cities, its money and its [neighbours|links to other "
        "countries], so far as the sources of this work agree on them. [Where they differ|If they do not agree], the "
        "entry says nothing [at all|on the matter].",
    ),
    ("The country", "It"),
    "Government and economy",
    by_name(
        Relation(
            "capital", "capital", "city", "Capital",
            ("The capital [of the country|] is {v}.", "{v} [serves as|is] the seat of government.",
             "{s} is governed from its capital, {v}."),
            ("the capital of {x}", "the capital city of {x}", "the seat of government of {x}"),
            ("the city from which {x} is governed", "the town that serves as capital of {x}"),
            "its capital", ("has {v} as its capital", "is governed from {v}"),
        ),
        Relation(
            "largest_city", "largest city", "city", "Largest city",
            ("The largest city is {v}.", "More people live in {v} than in any other city [of the country|]."),
            ("the largest city of {x}", "the most populous city of {x}"),
            ("the city of {x} with the most inhabitants", "the place with the most people in {x}"),
            "its largest city",
        ),
        Relation(
            "currency", "currency", "currency", "Currency",
            ("The currency [in use|] is the {v}.", "People [there|] pay in the {v}.", "{s} uses the {v} as its currency."),
            ("the currency of {x}", "the currency used in {x}"),
            ("the money that people spend in {x}", "the legal tender of {x}"),
            "its currency", ("uses the {v} as its currency", "pays in the {v}"),
        ),
        Relation(
            "language", "official language", "text", "Official language",
            ("{v} is the official language.", "The official language is {v}."),
            ("the official language of {x}", "the language spoken in {x}"),
            ("the tongue used by the authorities of {x}",),
            "its official language", ("has {v} as its official language",),
        ),
        Relation(
            "demonym", "demonym", "text", "Demonym",
            ("Its [people|inhabitants] are known by the demonym {v}.", "The demonym is {v}."),
            ("the demonym of {x}", "the word for people from {x}"),
            ("the word for an inhabitant of {x}",), "its demonym",
        ),
        Relation(
            "calling_code", "calling code", "text", "Calling code",
            ("[International calls|Calls from abroad] [use|begin with] the calling code {v}.",
             "The calling code is {v}."),
            ("the calling code of {x}", "the international calling code of {x}"),
            ("the number that callers from abroad dial for {x}",), "its calling code",
        ),
        Relation(
            "domain", "internet domain", "text", "Internet domain",
            ("[Websites|Web addresses] [of the country|] end in the internet domain {v}.",
             "The internet domain is {v}."),
            ("the internet domain of {x}", "the top-level domain of {x}"),
            ("the ending of web addresses in {x}",), "its internet domain",
        ),
        Relation(
            "area", "area", "number", "Area",
            ("{s} covers an area of {v}.", "The area is {v}."),
            ("the area of {x}",), ("the size in square kilometres of {x}",), "its area",
            measure=_AREA, unit="square kilometres",
        ),
        Relation(
            "borders", "borders", "country", "Borders",
            ("By land its borders [touch|meet] {v}.", "{s} shares [land borders|a land border] with {v}."),
            plural="countries that share a land border with {x}",
        ),
    ),
)  # fmt: skip

CURRENCY = Kind(
    "currency", "currency", "that",
    ("The {n} is a currency[ in circulation today|].", "{n} is the name of a [unit of money|currency].",),
    (
        "[This entry|The entry] tells by what code banks know it and who pays with it. Rates of exchange change by the "
        "hour and are [not given|left out]; coins, notes and their pictures, and its [past|history], are [described elsewhere|left to collectors].",
    ),
    ("The currency", "It"), "Use",
    by_name(
        Relation(
            "code", "currency code", "text", "Code",
            ("Its [three-letter|ISO] currency code is {v}.", "Banks write it with the currency code {v}."),
            ("the currency code of {x}", "the three-letter code of {x}"),
            ("the code that banks use for {x}",), "its currency code",
        ),
        Relation(
            "users", "countries", "country", "Used in",
            ("It is used in {v}.", "{s} [circulates|is legal tender] in {v}."),
            plural="countries whose currency is {x}",
        ),
    ),
    article=True,
)  # fmt: skip

STATE = Kind(
    "state", "state", "that",
    ("{n} is one of the states of the [United States|American union].", "{n} is a state in [North America|the United States].",),
    (
        "[The state|It] has [towns and cities|cities] of many sizes, and most of those with more than five thousand people "
        "have pages of their own in this work. Counties, rivers and roads are [left out|not covered] here.",
    ),
    ("The state", "It"), "Geography",
    by_name(
        Relation(
            "code", "postal code", "text", "Postal code",
            ("The post office [uses|knows it by] the postal code {v}.", "Its postal code is {v}."),
            ("the postal code of {x}",), ("the two letters that the post uses for {x}",), "its postal code",
        ),
        Relation(
            "largest_city", "largest city", "city", "Largest city",
            ("The largest city is {v}.", "{v} has more people than any other city of the state."),
            ("the largest city of {x}", "the most populous city of {x}"),
            ("the city of {x} with the most inhabitants",), "its largest city",
        ),
    ),
)  # fmt: skip

CITY = Kind(
    "city", "city", "that",
    (
        "{n} is a [place|city] of {size} size in the {half} hemisphere.",
        "{n} [is|counts as] a {size} [urban centre|city].",
        "{n} is a {size} [settlement|town or city] [on|in] the {half} half of the globe.",
    ),
    (
        "[Like other places in this work, it is|It is] described here by where it lies, how many people live there and what "
        "lies [around|near] it, as the gazetteers have it; streets, sights and [local politics|its past] are [left to guide books|not covered here at all].",
        "[This page|The entry] describes where it lies, how it is reached and which [places|cities] are its neighbours, "
        "[going by|following] the gazetteers that are named among the sources; suburbs and districts [mostly have|often have] pages of their own.",
    ),
    ("The city", "It"), "Location",
    by_name(
        Relation(
            "country", "country", "country", "Country",
            ("{s} [lies|is situated|is found] in {v}.", "{s} belongs to {v}."),
            ("the country of {x}", "the country that contains {x}"),
            ("the country to which {x} belongs", "the nation whose territory includes {x}"),
            "its country", ("lies in {v}",),
        ),
        Relation(
            "state", "state", "state", "State",
            ("{s} is in {v}.", "The state is {v}."),
        ),
        Relation(
            "population", "population", "number", "Population",
            ("The population is {v}.", "{s} has a population of {v}.", "{s} is home to a population of {v}."),
            ("the population of {x}", "the number of inhabitants of {x}"),
            ("the head count of {x}",), "its population", measure=_POPULATION,
        ),
        Relation(
            "larger_city", "nearest larger city", "city", "Nearest larger city",
            ("The nearest larger city is {v}.", "[For those who look for|To find] a larger city, {v} is the nearest."),
            ("the nearest larger city to {x}", "the larger city nearest to {x}"),
            ("the closest city that outgrows {x}",), "its nearest larger city",
            ("has {v} as its nearest larger city",),
        ),
        Relation(
            "neighbour", "nearest city", "city", "Nearest city",
            ("The nearest city is {v}.", "No other city is nearer than {v}."),
            ("the nearest city to {x}", "the city nearest to {x}"),
            ("the place that lies closest to {x}",), "its nearest city", ("has {v} as its nearest city",),
        ),
        Relation(
            "time_zone", "time zone", "text", "Time zone",
            ("Clocks follow the time zone {v}.", "The time zone is {v}."),
            ("the time zone of {x}",), ("the zone by which clocks in {x} are set",), "its time zone",
            ("keeps the time zone {v}",),
        ),
        Relation(
            "airports", "airports", "airport", "Airports",
            ("It is served by {v}.", "[Flights|Planes] use {v}."),
            ("the airport of {x}", "the airport that serves {x}"),
            ("the airfield at which flights to {x} land",), "its airport",
            plural="airports that serve {x}",
        ),
    ),
)  # fmt: skip

AIRPORT = Kind(
    "airport", "airport", "that",
    (
        "{n} is an airport in the {half} hemisphere.",
        "{n} is an [airport|airfield with scheduled codes] at {height} height.",
        "{n} [is|counts as] an airport of the {half} half of the globe, at {height} height.",
    ),
    (
        "[Its codes, its height and the place that it serves|Its position, its codes and whom it serves] are given here as "
        "the register of airports has them; runways, airlines and [timetables|schedules] change too often to be [listed|kept] in a work of this kind.",
        "[It is one of the airports|It is among the airports] listed in this work, which gives for each of them what pilots "
        "and [travellers|passengers] look up first; charts and [frequencies|procedures] have to be found [elsewhere|in other works], where they are kept up to date.",
    ),
    ("The airport", "It"), "Operations",
    by_name(
        Relation(
            "city", "city", "city", "City served",
            ("{s} serves the city of {v}.", "The city it serves is {v}.", "[Most passengers|Travellers] are bound for {v}."),
            ("the city served by {x}", "the city of {x}"),
            ("the town to which {x} belongs", "the place whose travellers use {x}"),
            "the city that it serves", ("serves {v}",),
        ),
        Relation(
            "iata", "IATA code", "text", "IATA code",
            ("Its IATA code is {v}.", "[Tickets|Bag tags] show the IATA code {v}."),
            ("the IATA code of {x}", "the three-letter IATA code of {x}"),
            ("the letters on bag tags to {x}",), "its IATA code",
        ),
        Relation(
            "icao", "ICAO code", "text", "ICAO code",
            ("Its ICAO code is {v}.", "[Flight plans|Controllers] use the ICAO code {v}."),
            ("the ICAO code of {x}", "the four-letter ICAO code of {x}"),
            ("the code that flight plans use for {x}",), "its ICAO code",
        ),
        Relation(
            "elevation", "elevation", "number", "Elevation",
            ("The elevation is {v}.", "{s} lies at an elevation of {v}."),
            ("the elevation of {x}", "the elevation in feet of {x}"),
            ("the height above sea level of {x}",), "its elevation", measure=_ELEVATION, unit="feet",
            clauses=("lies at an elevation of {v}",),
        ),
        Relation(
            "time_zone", "time zone", "text", "Time zone",
            ("Its clocks follow the time zone {v}.", "The time zone is {v}."),
            clauses=("keeps the time zone {v}",),
        ),
        Relation(
            "region", "region", "text", "Region",
            ("{s} is in the region {v}.", "The region is {v}."),
            clauses=("stands in the region {v}",),
        ),
    ),
)  # fmt: skip

ELEMENT = Kind(
    "element", "chemical element", "that",
    ("{n} is a {state} chemical element.", "{n} is one of the {state} elements of the periodic table.",),
    (
        "[This page tells|The entry tells] of its discovery and of its place in the periodic table, as [handbooks|tables] of "
        "chemistry have it; its compounds, its isotopes, its uses and its [price|properties] are [not covered|left to other works] here, however important.",
    ),
    ("The element", "It"), "Discovery",
    by_name(
        Relation(
            "symbol", "symbol", "text", "Symbol",
            ("Its symbol is {v}.", "[Formulas|Chemists] write it with the symbol {v}."),
            ("the symbol of {x}", "the chemical symbol of {x}"), ("the letters that stand for {x} in formulas",), "its symbol",
        ),
        Relation(
            "number", "atomic number", "number", "Atomic number",
            ("Its atomic number is {v}.", "{s} has the atomic number {v}."),
            ("the atomic number of {x}",), ("the number of protons in an atom of {x}",), "its atomic number",
        ),
        Relation(
            "discoverer", "discoverer", "scientist", "Discoverer",
            ("Its discoverer is {v}.", "The element was first identified by {v}, its discoverer."),
            ("the discoverer of {x}", "the scientist who discovered {x}"), ("the person first to identify {x}",),
            "its discoverer", ("was discovered by {v}",),
        ),
        Relation(
            "discovery_country", "country of discovery", "country", "Country of discovery",
            ("The country of discovery is {v}.", "The discovery was made in {v}."),
            ("the country where {x} was discovered", "the country of discovery of {x}"),
            ("the nation in which {x} was first found",), "its country of discovery", ("was discovered in {v}",),
        ),
        Relation(
            "discovery_year", "year of discovery", "year", "Year of discovery",
            ("The year of discovery is {v}.", "It was discovered in {v}."),
            ("the year of discovery of {x}", "the year in which {x} was discovered"),
            ("the year that first saw {x} identified",), "its year of discovery", ("was discovered in {v}",),
            measure=_DISCOVERY,
        ),
        Relation(
            "next", "next element", "element", "Next element",
            ("The next element in the table is {v}.", "In the table {v} is the next element."),
            ("the next element after {x}", "the element that follows {x} in the table"),
            ("the right-hand neighbour of {x} in order of atomic number",), "the next element after it",
        ),
        Relation(
            "previous", "previous element", "element", "Previous element",
            ("The previous element in the table is {v}.", "In the table {v} is the previous element."),
            ("the previous element before {x}", "the element that precedes {x} in the table"),
            ("the left-hand neighbour of {x} in order of atomic number",), "the element before it",
        ),
    ),
)  # fmt: skip

SCIENTIST = Kind(
    "scientist", "scientist", "who",
    ("{n} was a scientist who worked on the chemical elements.", "{n} is remembered for work in chemistry.",),
    (
        "[This page|The entry] names the [work|achievement] for which chemists remember the name; life, family and posts are "
        "[told elsewhere|left to biographies], and discoveries that were shared with others, or that are in dispute, are [not counted|left out] here.",
    ),
    ("The scientist",), "Work",
    by_name(
        Relation(
            "element", "element", "element", "Element",
            ("{s} discovered the element {v}.", "The element found was {v}."),
            ("the element discovered by {x}", "the element that {x} discovered"), ("the element whose finder was {x}",),
            "the element that this person discovered",
        ),
    ),
)  # fmt: skip

PLACE_KINDS = (COUNTRY, CURRENCY, STATE, CITY, AIRPORT, ELEMENT, SCIENTIST)
