"""A small made-up world in the full world's schema: every kind of question can be asked in it."""

import random

from venus_env.tasks.world.fresh import made_up_word
from venus_env.tasks.world.full.graph import Entity
from venus_env.tasks.world.full.world import World, assign_splits


def small_entities(seed: int = 0, states: int = 12, cities: int = 8) -> list[Entity]:
    """Towns with airports, schools and parks, and the players born there, in a dozen states."""
    rng = random.Random(seed)
    taken: set[str] = set()

    def word() -> str:
        while (name := made_up_word(rng) + made_up_word(rng).lower()) in taken:
            continue
        taken.add(name)
        return name

    found: list[Entity] = []
    players: dict[str, list[str]] = {}
    names = {f"US-{number}": word() for number in range(states)}
    for home, state in names.items():
        titles = [f"{word()}, {state}" for _ in range(cities)]
        parks, schools, seasons, natives = [], [], [], []
        year = 1900
        for number, title in enumerate(titles):
            airports = [f"{word()} Field" for _ in range(1 + number % 3)]
            facts = {
                "state": (state,),
                "population": (str(rng.randint(10_000, 900_000)),),
                "larger_city": (titles[(number + 1) % cities],),
                "neighbour": (titles[(number + 3) % cities],),
                "time_zone": (f"Zone/{word()}",),
                "airports": tuple(sorted(airports)),
            }
            found.append(
                Entity(title, "city", facts, {"size": "small", "half": "northern"}, title.split(",")[0], home=home)
            )
            for airport in airports:
                letters = "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=4))
                facts = {
                    "city": (title,),
                    "iata": (letters[1:],),
                    "icao": (letters,),
                    "elevation": (str(rng.randint(1, 9000)),),
                }
                found.append(Entity(airport, "airport", facts, {"height": "low", "half": "northern"}, home=home))
            park, school = f"{word()} Park", f"{word()} College"
            parks.append(park)
            schools.append(school)
            team = word()
            for _ in range(3):
                year += 1
                seasons.append((f"{year} {team}", park))
            natives += [(f"{word()} {word()}", title) for _ in range(4)]
        players[home] = [name for name, _ in natives]
        for park, title in zip(parks, titles, strict=True):
            tenant = next(season for season, ground in seasons if ground == park)
            facts = {"city": (title,), "opened": (tenant[:4],), "first_tenant": (tenant,)}
            found.append(Entity(park, "park", facts, home=home))
        school_of = {name: rng.choice(schools) for name, _ in natives}
        for school, title in zip(schools, titles, strict=True):
            alumni = tuple(sorted(name for name, own in school_of.items() if own == school))
            facts = {"city": (title,)} | ({"alumni": alumni} if alumni else {})
            found.append(Entity(school, "school", facts, home=home))
        for season, park in seasons:
            facts = {
                "wins": (str(rng.randint(40, 110)),),
                "losses": (str(rng.randint(40, 110)),),
                "league": ("National League",),
                "park": (park,),
                "manager": (rng.choice(players[home]),),
                "home_run_leader": (rng.choice(players[home]),),
            }
            found.append(Entity(season, "season", facts, home=home))
        for number, (name, title) in enumerate(natives):
            born = 1860 + rng.randint(0, 60)
            facts = {
                "birth_year": (str(born),),
                "birth_date": (f"{born}-0{1 + number % 9}-1{number % 9}",),
                "birth_city": (title,),
                "death_city": (rng.choice(titles),),
                "school": (school_of[name],),
                "bats": (rng.choice(("left-handed", "right-handed")),),
                "height": (str(rng.randint(66, 78)),),
                "first_team": (rng.choice(seasons)[0],),
                "all_star": tuple(str(born + 25 + extra) for extra in range(1 + number % 5)),
            }
            found.append(Entity(name, "player", facts, {"era": f"{(born + 25) // 10 * 10}s"}, home=home))
    return found


def small_world(seed: int = 0) -> World:
    """The entities above with splits and pages."""
    return World(assign_splits(small_entities(seed), random.Random(seed)), seed)
