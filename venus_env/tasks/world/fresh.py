"""Made-up worlds in the wording of the real one: endless reading practice in which nothing can be memorised."""

from __future__ import annotations

import random
from collections.abc import Callable

from venus_env.tasks.world.grammar import Entity
from venus_env.tasks.world.graph import World
from venus_env.tasks.world.relations import KINDS, Kind

_ONSET_TEXT = "b br ch d dr f g gr h j k kr l m n p pr r s sh st t th tr v w z"
_ONSETS = tuple(_ONSET_TEXT.split())
_VOWELS = ("a", "a", "e", "e", "i", "i", "o", "o", "u", "ai", "ia", "ou")
_CODAS = ("", "", "", "n", "r", "s", "l", "m", "nd", "rt", "k")
_CONTINENTS = ("Africa", "Asia", "Europe", "North America", "Oceania", "South America")
_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def made_up_word(rng: random.Random) -> str:
    """A capitalised, pronounceable word of two or three syllables."""
    syllables = [rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(rng.choice((2, 2, 3)))]
    return "".join(syllables).capitalize()


Names = Callable[[random.Random], str]

VALUES: dict[str, Callable[[random.Random, Names], str]] = {
    "word": lambda rng, names: names(rng),
    "name": lambda rng, names: " ".join(names(rng) for _ in range(rng.choice((1, 1, 2)))),
    "number3": lambda rng, names: str(rng.randint(1, 999)),
    "number4": lambda rng, names: str(rng.randint(1, 9999)),
    "number6": lambda rng, names: str(rng.randint(15_000, 9_999_999)),
    "year": lambda rng, names: str(rng.randint(1600, 2020)),
    "domain": lambda rng, names: "." + "".join(rng.choices(_UPPER, k=2)).lower(),
    "letters2": lambda rng, names: "".join(rng.choices(_UPPER, k=2)),
    "letters3": lambda rng, names: "".join(rng.choices(_UPPER, k=3)),
    "letters4": lambda rng, names: "".join(rng.choices(_UPPER, k=4)),
    "symbol": lambda rng, names: "".join(rng.choices(_UPPER, k=rng.choice((1, 2, 2, 2)))).capitalize(),
    "continent": lambda rng, names: rng.choice(_CONTINENTS),
}
"""How a made-up value of each shape is drawn."""


def random_world(rng: random.Random, n: int, names: Names = made_up_word) -> World:
    """Make a world of about ``n`` entities with made-up names and facts.

    Args:
        rng: Source of all randomness; the same state gives the same world.
        n: Number of entities, spread over the kinds by their ``share``, at least two of each kind.
        names: Draws one word; names of several words call it several times. Give your own to control the alphabet or
            the number of tokens per name.

    Returns:
        A world whose links stay inside it, so that every path of the real world's schema occurs.
    """
    total = sum(kind.share for kind in KINDS.values())
    taken: set[str] = set()
    members: dict[str, list[str]] = {}
    for kind in KINDS.values():
        count = max(2, round(n * kind.share / total))
        members[kind.name] = [_new_name(kind, rng, names, taken) for _ in range(count)]
    entities = [
        Entity(
            name,
            kind.name,
            _facts(kind, name, members, rng, names),
            {trait: rng.choice(values) for trait, values in kind.traits.items()},
        )
        for kind in KINDS.values()
        for name in members[kind.name]
    ]
    return World(entities, seed=rng.getrandbits(32))


def _new_name(kind: Kind, rng: random.Random, names: Names, taken: set[str]) -> str:
    for _ in range(1000):
        name = " ".join(names(rng) for _ in range(rng.choice(kind.name_words))) + kind.suffix
        if name.casefold() not in taken:
            taken.add(name.casefold())
            return name
    raise ValueError(f"names() gave no new {kind.name} name in 1000 draws; let it draw from more words")


def _facts(kind: Kind, name: str, members: dict[str, list[str]], rng: random.Random, names: Names) -> dict[str, str]:
    facts: dict[str, str] = {}
    for relation in kind.relations.values():
        if rng.random() >= relation.chance:
            continue
        if relation.target in members:
            others = [other for other in members[relation.target] if other != name]
            facts[relation.name] = rng.choice(others)
        else:
            facts[relation.name] = VALUES[relation.target](rng, names)
    return facts
