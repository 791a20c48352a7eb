import pytest

from venus_env.tasks.world import Entity, World
from venus_env.tasks.world.graph import mentions

LAND = {"size": "small", "half": "northern"}


def _world(*entities: Entity) -> World:
    return World(entities, seed=1)


def _small_world() -> World:
    """Two towns and their country; each is reachable from the others."""
    return _world(
        Entity("Avon", "city", {"country": "Baria", "larger_city": "Corto"}, LAND),
        Entity("Corto", "city", {"country": "Baria", "neighbour": "Avon"}, LAND),
        Entity("Baria", "country", {"capital": "Corto", "currency": "Dram", "border": "Elland"}, LAND),
        Entity("Dram", "currency", {"code": "DRM"}),
    )


def _relations(world: World, start: str, hops: int) -> set[tuple[tuple[str, ...], str]]:
    return {(tuple(s.relation.name for s in path), path[-1].value) for path in world.paths(start, hops)}


def test_paths_of_one_hop_are_the_askable_facts() -> None:
    assert _relations(_small_world(), "Baria", 1) == {(("capital",), "Corto"), (("currency",), "Dram")}


def test_paths_need_every_hop_and_never_come_back() -> None:
    # From Avon: country>capital would give Corto, which already stands on Avon's page; larger_city>country gives
    # Baria, which does too; larger_city>neighbour comes back to Avon. Only the currency needs two pages.
    assert _relations(_small_world(), "Avon", 2) == {(("country", "currency"), "Dram")}
    assert _relations(_small_world(), "Avon", 3) == {
        (("country", "currency", "code"), "DRM"),
        (("larger_city", "country", "currency"), "Dram"),
    }


def test_hops_that_a_name_gives_away_are_left_out() -> None:
    world = _world(
        Entity("Kuwait", "country", {"capital": "Kuwait City", "currency": "Dinar"}, LAND),
        Entity("Kuwait City", "city", {"country": "Kuwait", "neighbour": "Salmiya"}, LAND),
    )
    assert _relations(world, "Kuwait", 1) == {(("currency",), "Dinar")}
    assert _relations(world, "Kuwait", 2) == set()
    assert _relations(world, "Kuwait City", 1) == {(("neighbour",), "Salmiya")}


def test_a_value_is_followed_only_to_an_entity_of_the_right_kind() -> None:
    # The state of Georgia has no page of its own; the country of that name must not stand in for it.
    world = _world(
        Entity("Macon", "city", {"state": "Georgia"}, LAND),
        Entity("Georgia", "country", {"currency": "Lari"}, LAND),
    )
    assert world.target("city", "state", "Georgia") is None
    assert _relations(world, "Macon", 2) == set()


def test_resolve_follows_the_whole_graph() -> None:
    world = _small_world()
    assert world.resolve("Avon", ["country", "currency", "code"]) == {"DRM"}
    assert world.resolve("avon", ["country"]) == {"Baria"}
    assert world.resolve("Dram", ["country"]) == set()


def test_two_entities_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two entities are named 'avon'"):
        _world(Entity("Avon", "city", {}, LAND), Entity("avon", "city", {}, LAND))
    with pytest.raises(ValueError, match="Avon"):
        _world(Entity("Avon", "city", {}, LAND), Entity("Avon", "city", {}, LAND))


def test_facts_that_a_kind_cannot_have_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'Avon' has facts that a city cannot have: \['symbol'\]"):
        _world(Entity("Avon", "city", {"symbol": "Av"}, LAND))


def test_a_page_is_the_same_every_time_and_differs_between_seeds() -> None:
    entity = Entity("Avon", "city", {"country": "Baria", "larger_city": "Corto", "population": "20000"}, LAND)
    assert World([entity], 5).text("Avon") == World([entity], 5).text("Avon")
    assert len({World([entity], seed).text("Avon") for seed in range(20)}) > 10


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("Its symbol is I.", "I", True),
        ("Its symbol is Au.", "I", False),
        ("The domain is .is.", ".is", True),
        ("Iceland is cold.", ".is", False),
        ("Sofia is old", "Sofi", False),
        ("Its people are polish.", "Polish", False),
        ("Nadi Airport", "Nadi", True),
    ],
)
def test_mentions_goes_by_whole_words(text: str, name: str, expected: bool) -> None:
    assert mentions(text, name) is expected
