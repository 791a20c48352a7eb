"""Players, team seasons, franchises, parks, schools and championship series from Lahman's database (share-alike)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from venus_env.tasks.world.full.graph import Entity
from venus_env.tasks.world.sources import Row, latin

SMALL_TOWN = 12
"""Towns with no more natives than this have all of them in the world; of larger ones only the notable are."""
NOTABLE_SEASONS = 9
LEAST_HOME_RUNS = 5
MOST_ALUMNI = 60

_COUNTRY_CODES = {
    "D.R.": "DO", "Venezuela": "VE", "CAN": "CA", "Cuba": "CU", "Mexico": "MX", "Japan": "JP", "Panama": "PA",
    "Ireland": "IE", "England": "GB", "Scotland": "GB", "Australia": "AU", "Germany": "DE", "Colombia": "CO",
    "South Korea": "KR", "Taiwan": "TW", "Nicaragua": "NI", "France": "FR", "Italy": "IT", "Netherlands": "NL",
    "Bahamas": "BS", "Sweden": "SE", "Poland": "PL", "Austria": "AT", "Brazil": "BR", "Russia": "RU",
}  # fmt: skip
_LEAGUES = {
    "AL": "American League", "NL": "National League", "AA": "American Association", "UA": "Union Association",
    "PL": "Players League", "FL": "Federal League", "NA": "National Association",
}  # fmt: skip
_ROUNDS = {
    "WS": "World Series",
    "ALCS": "American League Championship Series",
    "NLCS": "National League Championship Series",
}
_SIDES = {"R": ("right-handed",), "L": ("left-handed",), "B": ("from both sides",)}
_ARMS = {"R": ("right-handed",), "L": ("left-handed",)}
_PERSON = re.compile(r"[A-Z][A-Za-z.'-]*( [A-Z][A-Za-z.'-]*){1,3}")
_PLAIN = re.compile(r"[A-Z][A-Za-z0-9.'&-]*([ -]+[A-Za-z0-9.'&-]+){0,7}")

TeamKey = tuple[int, str]
Town = Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Names:
    """Titles by the keys of the database."""

    player: Mapping[str, str]
    season: Mapping[TeamKey, str]
    park: Mapping[str, str]
    school: Mapping[str, str]
    franchise: Mapping[str, str]


def baseball(tables: Mapping[str, list[Row]], town: Town) -> list[Entity]:
    """All baseball entities.

    Args:
        tables: As :func:`venus_env.tasks.world.sources.read_baseball` gives them.
        town: Titles of cities by home and folded, lower-cased name.
    """
    people = _people(tables, town)
    names = Names(
        player=_player_titles(tables["People"], people),
        season=_season_titles(tables["Teams"]),
        park=_place_titles(tables["Parks"], "parkkey", "parkname", town),
        school=_place_titles(tables["Schools"], "schoolID", "name_full", town),
        franchise={row["franchID"]: latin(row["franchName"]) for row in tables["TeamsFranchises"]},
    )
    parks = _parks(tables, town, names)
    seasons = _seasons(tables, names, {park.title: park.home for park in parks})
    homes = {season.title: season.home for season in seasons}
    series = _series(tables["SeriesPost"], names, homes)
    franchises = _franchises(tables["Teams"], series, names, homes)
    schools = _schools(tables, town, names)
    players = _players(tables, people, town, names)
    return [*players, *seasons, *franchises, *parks, *schools, *series]


def _home(country: str | None, state: str | None) -> str:
    """Key of the state or country, as in ``Places.town``."""
    if country in ("USA", "US"):
        return f"US-{state}"
    return _COUNTRY_CODES.get(country or "", country or "")


def _town(town: Town, city: str | None, state: str | None, country: str | None) -> str | None:
    label = latin(city or "").replace("St. ", "Saint ").casefold()
    home = _home(country, state)
    return town.get((home, label)) or town.get((home, latin(city or "").casefold()))


def _people(tables: Mapping[str, list[Row]], town: Town) -> list[Row]:
    """People with a known birthplace: all natives of small towns, the notable ones of larger ones."""
    seasons: dict[str, set[int]] = defaultdict(set)
    for row in tables["Appearances"]:
        seasons[row["playerID"]].add(row["yearID"])
    notable = {row["playerID"] for row in tables["HallOfFame"] if row["inducted"] == "Y"}
    notable |= {row["playerID"] for row in tables["AllstarFull"]} | {row["playerID"] for row in tables["Managers"]}
    notable |= {player for player, years in seasons.items() if len(years) >= NOTABLE_SEASONS}
    natives: dict[str, list[Row]] = defaultdict(list)
    for row in tables["People"]:
        place = _town(town, row["birthCity"], row["birthState"], row["birthCountry"])
        if place is not None:
            natives[place].append(row)
    kept = []
    for place in sorted(natives):
        rows = natives[place]
        usable = [row for row in rows if _PERSON.fullmatch(_short_name(row)) and row["birthYear"]]
        complete = 2 <= len(rows) <= SMALL_TOWN and len(usable) == len(rows)
        kept += usable if complete else [row for row in usable if row["playerID"] in notable]
    return sorted(kept, key=lambda row: str(row["playerID"]))


def _short_name(row: Row) -> str:
    return (
        latin(f"{row['nameFirst'] or ''} {row['nameLast']}")
        .replace(". ", ".")
        .replace(".", ". ")
        .strip()
        .replace("  ", " ")
    )


def _player_titles(everyone: Iterable[Row], people: Iterable[Row]) -> dict[str, str]:
    """The name, with the year of birth where anyone else in the database has it (and the full name if need be)."""
    shared = Counter(_short_name(row).casefold() for row in everyone)
    titles, taken = {}, Counter[str]()
    for row in people:
        name = _short_name(row)
        title = f"{name} (born {row['birthYear']})" if shared[name.casefold()] > 1 else name
        titles[row["playerID"]] = title
        taken[title.casefold()] += 1
    return {key: title for key, title in titles.items() if taken[title.casefold()] == 1}


def _season_titles(teams: Iterable[Row]) -> dict[TeamKey, str]:
    titles = {(row["yearID"], row["teamID"]): latin(f"{row['yearID']} {row['name']}") for row in teams}
    counted = Counter(title.casefold() for title in titles.values())
    return {key: title for key, title in titles.items() if counted[title.casefold()] == 1}


def _place_titles(rows: Iterable[Row], key: str, label: str, town: Town) -> dict[str, str]:
    """Name of a park or school, with its city where others share the name; only where the city has a page."""
    located = [(row, _town(town, row["city"], row["state"], row["country"])) for row in rows if row[label]]
    counted = Counter(latin(row[label]).casefold() for row, _ in located)
    titles = {}
    for row, city in located:
        name = latin(row[label])
        if city is not None and _PLAIN.fullmatch(name):
            titles[row[key]] = f"{name} ({city})" if counted[name.casefold()] > 1 else name
    repeated = Counter(title.casefold() for title in titles.values())
    return {row_key: title for row_key, title in titles.items() if repeated[title.casefold()] == 1}


def _parks(tables: Mapping[str, list[Row]], town: Town, names: Names) -> list[Entity]:
    games: dict[str, list[Row]] = defaultdict(list)
    for row in tables["HomeGames"]:
        games[row["parkkey"]].append(row)
    found = []
    for row in tables["Parks"]:
        title = names.park.get(row["parkkey"])
        city = _town(town, row["city"], row["state"], row["country"])
        if title is None or city is None or not games[row["parkkey"]]:
            continue
        first = min(game["yearkey"] for game in games[row["parkkey"]])
        tenants = {game["teamkey"] for game in games[row["parkkey"]] if game["yearkey"] == first}
        facts: dict[str, tuple[str, ...]] = {"city": (city,), "opened": (str(first),)}
        if len(tenants) == 1 and (first, min(tenants)) in names.season:
            facts["first_tenant"] = (names.season[first, min(tenants)],)
        alias = (latin(row["parkalias"]),) if row["parkalias"] and _PLAIN.fullmatch(latin(row["parkalias"])) else ()
        home = _home(row["country"], row["state"])
        found.append(Entity(title, "park", facts, name=latin(row["parkname"]), aliases=alias, home=home))
    return found


def _schools(tables: Mapping[str, list[Row]], town: Town, names: Names) -> list[Entity]:
    alumni: dict[str, set[str]] = defaultdict(set)
    for row in tables["CollegePlaying"]:
        if row["playerID"] in names.player:
            alumni[row["schoolID"]].add(names.player[row["playerID"]])
    found = []
    for row in tables["Schools"]:
        title, city = names.school.get(row["schoolID"]), _town(town, row["city"], row["state"], row["country"])
        if title is None or city is None or not alumni[row["schoolID"]]:
            continue
        facts: dict[str, tuple[str, ...]] = {"city": (city,)}
        if len(alumni[row["schoolID"]]) <= MOST_ALUMNI:
            facts["alumni"] = tuple(sorted(alumni[row["schoolID"]]))
        home = _home(row["country"], row["state"])
        found.append(Entity(title, "school", facts, name=latin(row["name_full"]), home=home))
    return found


def _seasons(tables: Mapping[str, list[Row]], names: Names, park_home: Mapping[str, str | None]) -> list[Entity]:
    managers: dict[TeamKey, list[Row]] = defaultdict(list)
    for row in tables["Managers"]:
        managers[row["yearID"], row["teamID"]].append(row)
    games: dict[TeamKey, list[Row]] = defaultdict(list)
    for row in tables["HomeGames"]:
        games[row["yearkey"], row["teamkey"]].append(row)
    sluggers = _leaders(tables["Batting"], "HR", LEAST_HOME_RUNS)
    pitchers = _leaders(tables["Pitching"], "W", LEAST_HOME_RUNS)
    found = []
    for row in tables["Teams"]:
        key = (row["yearID"], row["teamID"])
        title = names.season.get(key)
        if title is None:
            continue
        facts: dict[str, tuple[str, ...]] = {}
        if row["franchID"] in names.franchise:
            facts["franchise"] = (names.franchise[row["franchID"]],)
        if row["lgID"] in _LEAGUES:
            facts["league"] = (_LEAGUES[row["lgID"]],)
        if len(managers[key]) == 1 and managers[key][0]["playerID"] in names.player:
            facts["manager"] = (names.player[managers[key][0]["playerID"]],)
        facts["wins"], facts["losses"] = (str(row["W"]),), (str(row["L"]),)
        if row["attendance"]:
            facts["attendance"] = (str(row["attendance"]),)
        grounds = sorted(games[key], key=lambda game: -game["games"])
        homes = {home for game in grounds if (home := park_home.get(names.park.get(game["parkkey"], "")))}
        home = min(homes) if len(homes) == 1 else None
        # A ground counts as the home park if two games in three were played there.
        if grounds and grounds[0]["games"] * 3 >= 2 * sum(game["games"] for game in grounds):
            park = names.park.get(grounds[0]["parkkey"])
            if park in park_home:
                facts["park"] = (str(park),)
        for relation, leaders in (("home_run_leader", sluggers), ("winning_pitcher", pitchers)):
            if leaders.get(key) in names.player:
                facts[relation] = (names.player[leaders[key]],)
        found.append(Entity(title, "season", facts, name=title, home=home))
    return found


def _leaders(rows: Iterable[Row], column: str, least: int) -> dict[TeamKey, str]:
    """The one player with the most of something for each team season; nobody where two share the lead."""
    totals: dict[TeamKey, Counter[str]] = defaultdict(Counter)
    for row in rows:
        totals[row["yearID"], row["teamID"]][row["playerID"]] += row[column] or 0
    best = {}
    for key, counted in totals.items():
        ranked = counted.most_common(2)
        if ranked[0][1] >= least and (len(ranked) == 1 or ranked[0][1] > ranked[1][1]):
            best[key] = ranked[0][0]
    return best


def _series(rows: Iterable[Row], names: Names, homes: Mapping[str, str | None]) -> list[Entity]:
    found = []
    for row in rows:
        winner = names.season.get((row["yearID"], row["teamIDwinner"]))
        loser = names.season.get((row["yearID"], row["teamIDloser"]))
        if row["round"] in _ROUNDS and winner in homes and loser in homes and row["wins"] > row["losses"]:
            title = f"{row['yearID']} {_ROUNDS[row['round']]}"
            facts = {"winner": (str(winner),), "loser": (str(loser),)}
            found.append(Entity(title, "series", facts, name=title, home=homes[str(winner)]))
    counted = Counter(entity.title for entity in found)
    return [entity for entity in found if counted[entity.title] == 1]


def _franchises(
    teams: Iterable[Row], series: Iterable[Entity], names: Names, homes: Mapping[str, str | None]
) -> list[Entity]:
    of: dict[str, list[tuple[int, str]]] = defaultdict(list)
    owner: dict[str, str] = {}
    for row in teams:
        title = names.season.get((row["yearID"], row["teamID"]))
        if title is not None and row["franchID"] in names.franchise:
            of[row["franchID"]].append((row["yearID"], title))
            owner[title] = row["franchID"]
    titles: dict[str, list[str]] = defaultdict(list)
    for entity in series:
        if entity.title.endswith("World Series"):
            titles[owner[entity.facts["winner"][0]]].append(entity.title)
    counted = Counter(names.franchise.values())
    found = []
    for franchise, seasons in sorted(of.items()):
        if counted[names.franchise[franchise]] > 1:
            continue
        facts: dict[str, tuple[str, ...]] = {"first_season": (min(seasons)[1],), "latest_season": (max(seasons)[1],)}
        if titles[franchise]:
            facts["titles"] = tuple(sorted(titles[franchise]))
        name = names.franchise[franchise]
        found.append(Entity(name, "franchise", facts, name=name, home=homes.get(max(seasons)[1])))
    return found


def _players(tables: Mapping[str, list[Row]], people: Iterable[Row], town: Town, names: Names) -> list[Entity]:
    schools: dict[str, set[str]] = defaultdict(set)
    for row in tables["CollegePlaying"]:
        schools[row["playerID"]].add(row["schoolID"])
    clubs: dict[tuple[str, int], set[str]] = defaultdict(set)
    years: dict[str, set[int]] = defaultdict(set)
    for row in tables["Appearances"]:
        clubs[row["playerID"], row["yearID"]].add(row["teamID"])
        years[row["playerID"]].add(row["yearID"])
    honours = _honours(tables, names)
    found = []
    for row in people:
        key = row["playerID"]
        if key not in names.player:
            continue
        facts: dict[str, tuple[str, ...]] = {}
        given = latin(f"{row['nameGiven'] or ''} {row['nameLast']}").strip()
        if given != _short_name(row) and _PERSON.fullmatch(given):
            facts["given_name"] = (given,)
        facts["birth_year"] = (str(row["birthYear"]),)
        if birth := _date(row, "birth"):
            facts["birth_date"] = (birth,)
        facts["birth_city"] = (str(_town(town, row["birthCity"], row["birthState"], row["birthCountry"])),)
        if death := _date(row, "death"):
            facts["death_date"] = (death,)
        if row["deathCity"] and (place := _town(town, row["deathCity"], row["deathState"], row["deathCountry"])):
            facts["death_city"] = (place,)
        if len(schools[key]) == 1 and (school := names.school.get(min(schools[key]))):
            facts["school"] = (school,)
        facts |= {"bats": _SIDES[row["bats"]]} if row["bats"] in _SIDES else {}
        facts |= {"throws": _ARMS[row["throws"]]} if row["throws"] in _ARMS else {}
        if row["height"]:
            facts["height"] = (str(row["height"]),)
        if row["debut"]:
            facts["debut_date"], facts["debut_year"] = (row["debut"],), (row["debut"][:4],)
        for relation, year in (("first_team", min), ("last_team", max)):
            teams = clubs[key, year(years[key])] if years[key] else set()
            if len(teams) == 1 and (team := (year(years[key]), min(teams))) in names.season:
                facts[relation] = (names.season[team],)
        facts |= {relation: values for relation, of in honours.items() if (values := of.get(key))}
        managed = [int(season[:4]) for season in facts.get("managed", ())]
        started = int(row["debut"][:4]) if row["debut"] else min(managed, default=row["birthYear"] + 25)
        decade = started // 10 * 10
        traits = {"era": f"{decade}s"}
        home = _home(row["birthCountry"], row["birthState"])
        name = _short_name(row)
        found.append(Entity(names.player[key], "player", facts, traits, name=name, home=home))
    return found


def _date(row: Row, event: str) -> str | None:
    year, month, day = (row[f"{event}{part}"] for part in ("Year", "Month", "Day"))
    return f"{year:04d}-{month:02d}-{day:02d}" if year and month and day else None


def _honours(tables: Mapping[str, list[Row]], names: Names) -> dict[str, dict[str, tuple[str, ...]]]:
    """Many-valued facts by relation and player: every Gold Glove, All-Star season, team managed; Hall of Fame year."""
    gold: dict[str, set[str]] = defaultdict(set)
    stars: dict[str, set[str]] = defaultdict(set)
    managed: dict[str, set[str]] = defaultdict(set)
    hall: dict[str, set[str]] = defaultdict(set)
    for row in tables["AwardsPlayers"]:
        if row["awardID"] == "Gold Glove":
            gold[row["playerID"]].add(str(row["yearID"]))
    for row in tables["AllstarFull"]:
        stars[row["playerID"]].add(str(row["yearID"]))
    for row in tables["HallOfFame"]:
        if row["inducted"] == "Y":
            hall[row["playerID"]].add(str(row["yearid"]))
    unnamed = set()
    for row in tables["Managers"]:
        title = names.season.get((row["yearID"], row["teamID"]))
        managed[row["playerID"]].add(title or "")
        if title is None:
            unnamed.add(row["playerID"])
    of = {"hall_of_fame": hall, "gold_gloves": gold, "all_star": stars, "managed": managed}
    return {
        relation: {
            key: tuple(sorted(values)) for key, values in found.items() if relation != "managed" or key not in unnamed
        }
        for relation, found in of.items()
    }
