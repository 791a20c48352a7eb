"""Every kind of query worked by hand on a mini world, and the proofs against a scan of all facts."""

from itertools import combinations

import pytest

from venus_env.tasks.world.full.graph import Entity, Graph
from venus_env.tasks.world.full.kinds import KINDS
from venus_env.tasks.world.full.queries import (
    Compare,
    Count,
    Described,
    Extreme,
    Follow,
    Holders,
    Named,
    Query,
    YearsBetween,
    answers,
    identifies,
    told,
)
from venus_env.tasks.world.full.world import World

CITY = {"size": "small", "half": "northern"}
MAN = {"era": "1920s"}


def _player(name: str, city: str, born: str, height: str, **facts: tuple[str, ...]) -> Entity:
    own = {"birth_city": (city,), "birth_date": (born,), "birth_year": (born[:4],), "height": (height,)}
    return Entity(name, "player", {**own, **facts}, MAN)


@pytest.fixture
def graph() -> Graph:
    return Graph(
        [
            Entity("Avon, Ohio", "city", {"population": ("900",), "larger_city": ("Corto, Ohio",)}, CITY, name="Avon"),
            Entity("Avon, Utah", "city", {"population": ("800",)}, CITY, name="Avon"),
            Entity("Corto, Ohio", "city", {"population": ("1000",), "airports": ("A Field", "B Field")}, CITY),
            Entity("A Field", "airport", {"city": ("Corto, Ohio",), "elevation": ("10",)}),
            Entity("B Field", "airport", {"city": ("Corto, Ohio",), "elevation": ("200",)}),
            _player("Al Bo", "Avon, Ohio", "1900-05-01", "70", all_star=("1922", "1925", "1926")),
            _player("Cy Do", "Avon, Ohio", "1900-04-30", "72"),
            _player("Ed Fa", "Corto, Ohio", "1899-12-31", "70"),
            Entity("1922 Bears", "season", {"manager": ("Al Bo",), "wins": ("80",)}),
            Entity("1925 Cubs", "season", {"manager": ("Ed Fa",), "wins": ("9",)}),
        ]
    )


def _chain(start: str, *relations: tuple[str, str]) -> Follow:
    node: Named | Follow = Named(start)
    for kind, relation in relations:
        node = Follow(node, kind, relation)
    assert isinstance(node, Follow)
    return node


BIRTHPLACE = ("season", "manager"), ("player", "birth_city")
HOMES = _chain("1922 Bears", *BIRTHPLACE), _chain("1925 Cubs", *BIRTHPLACE)
NATIVES = Holders(Named("Avon, Ohio"), "player", "birth_city")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (_chain("1922 Bears", *BIRTHPLACE), {"Avon, Ohio"}),
        (_chain("1922 bears", *BIRTHPLACE, ("city", "population")), {"900"}),
        # The bare name fits two towns, so the question has two answers and would be refused.
        (_chain("Avon", ("city", "population")), {"800", "900"}),
        (_chain("Nowhere", ("city", "population")), set()),
        (Described("player", (("birth_city", "Avon, Ohio"), ("height", "70"))), {"Al Bo"}),
        (Described("player", (("birth_city", "Avon, Ohio"),)), {"Al Bo", "Cy Do"}),
        (
            Described(
                "player",
                (("birth_city", "Corto, Ohio"), ("height", "70")),
                via=_chain("A Field", ("airport", "city")),
            ),
            {"Ed Fa"},
        ),
        (Count(_chain("1922 Bears", ("season", "manager"), ("player", "all_star"))), {"3"}),
        (Count(_chain("1925 Cubs", ("season", "manager"), ("player", "all_star"))), set()),
        (Extreme(_chain("Corto, Ohio", ("city", "airports")), "airport", "elevation", True), {"B Field"}),
        (Extreme(_chain("Corto, Ohio", ("city", "airports")), "airport", "elevation", False), {"A Field"}),
        # By the day, not by the year.
        (Extreme(NATIVES, "player", "birth_date", False), {"Cy Do"}),
        # Nobody's debut is known, so nobody was first.
        (Extreme(NATIVES, "player", "debut_date", True), {"Al Bo", "Cy Do"}),
        (Compare(*HOMES, "city", "population", True), {"Corto, Ohio"}),
        (Compare(*HOMES, "city", "population", False), {"Avon, Ohio"}),
        # 9 wins are fewer than 80: numbers, not letters.
        (Compare(Named("1922 Bears"), Named("1925 Cubs"), "season", "wins", True), {"1922 Bears"}),
        (
            YearsBetween(_chain("Al Bo", ("player", "birth_date")), _chain("Ed Fa", ("player", "birth_date"))),
            {"1"},
        ),
    ],
)  # fmt: skip
def test_queries_by_hand(graph: Graph, query: Query, expected: set[str]) -> None:
    assert answers(graph, query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Count(_chain("1922 Bears", *BIRTHPLACE)), ["1922 Bears"]),
        (Extreme(NATIVES, "player", "height", True), ["Avon, Ohio"]),
        (Compare(*HOMES, "city", "population", True), ["1922 Bears", "1925 Cubs"]),
        (YearsBetween(*HOMES), ["1922 Bears", "1925 Cubs"]),
        (Described("player", (("birth_city", "Avon, Ohio"), ("height", "70"))), ["Avon, Ohio", "70"]),
        # The town is asked for, not named.
        (
            Described(
                "player", (("birth_city", "Corto, Ohio"), ("height", "70")), via=_chain("A Field", ("airport", "city"))
            ),
            ["70", "A Field"],
        ),
    ],
)
def test_names_and_values_that_a_question_states(query: Query, expected: list[str]) -> None:
    assert list(told(query)) == expected


def test_an_equal_measure_is_no_answer(graph: Graph) -> None:
    everyone = Compare(Named("Al Bo"), Named("Ed Fa"), "player", "height", True)
    assert answers(graph, everyone) == {"Al Bo", "Ed Fa"}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ((("birth_city", "Avon, Ohio"), ("height", "70")), True),
        ((("birth_city", "Avon, Ohio"),), False),  # fits two
        ((("birth_city", "Corto, Ohio"), ("height", "70")), False),  # the first alone would do
        ((("birth_city", "Avon, Ohio"), ("height", "70"), ("birth_year", "1900")), False),  # the third is not needed
    ],
)
def test_identifies_asks_for_just_enough_facts(
    graph: Graph, facts: tuple[tuple[str, str], ...], expected: bool
) -> None:
    title = "Ed Fa" if facts[0][1] == "Corto, Ohio" else "Al Bo"
    assert identifies(graph, Described("player", facts), title) is expected


def _brute(world: World, kind: str, facts: tuple[tuple[str, str], ...]) -> set[str]:
    everyone = world.graph.entities.values()
    return {e.title for e in everyone if e.kind == kind and all(v in e.facts.get(r, ()) for r, v in facts)}


def test_proofs_against_a_scan_of_a_small_world(world: World) -> None:
    players = world.graph.by_kind["player"][:40]
    for player in players:
        known = [(name, values[0]) for name, values in player.facts.items() if len(values) == 1][:6]
        for facts in combinations(known, 2):
            description = Described("player", facts)
            assert answers(world.graph, description) == _brute(world, "player", facts)
            minimal = _brute(world, "player", facts) == {player.title} and all(
                len(_brute(world, "player", (fact,))) > 1 for fact in facts
            )
            assert identifies(world.graph, description, player.title) is minimal
    triples = {
        (e.title, relation, value)
        for e in world.graph.entities.values()
        for relation, vs in e.facts.items()
        for value in vs
    }
    for player in players:
        query = _chain(player.title, ("player", "birth_city"), ("city", "larger_city"), ("city", "population"))
        frontier = {player.title}
        for relation in ("birth_city", "larger_city", "population"):
            frontier = {v for s, r, v in triples if s in frontier and r == relation}
        assert answers(world.graph, query) == frontier


def test_titles_are_told_apart() -> None:
    paris = Entity("Paris", "city", {}, CITY)
    with pytest.raises(ValueError, match="two entities have the title 'Paris'"):
        Graph([paris, paris])
    with pytest.raises(ValueError, match="'Paris, Texas' is called 'Paris', which is the title of another page"):
        Graph([paris, Entity("Paris, Texas", "city", {}, CITY, name="Paris")])
    with pytest.raises(ValueError, match="a fact that a city cannot have: 'symbol'"):
        Graph([Entity("Paris", "city", {"symbol": ("P",)}, CITY)])
    land = Graph([Entity("Poland", "country", {}), Entity("Poland, Ohio", "city", {}, CITY, name="Poland")])
    assert land.named("poland") == {"Poland", "Poland, Ohio"}
    assert land.ambiguous() == {"Poland": ["Poland", "Poland, Ohio"]}
    assert KINDS["country"].relations["capital"].target == "city"
