import random

from tests.env.tasks.world.full.small import small_world
from venus_env.tasks.world.full.graph import Entity, Graph
from venus_env.tasks.world.full.more_pages import ROWS_PER_PAGE, natives_title
from venus_env.tasks.world.full.pages import entity_page
from venus_env.tasks.world.full.values import accepted, joined, show
from venus_env.tasks.world.full.world import World, distinct
from venus_env.tasks.world.graph import mentions


def test_values_are_written_and_accepted() -> None:
    assert show("12345", "number", "feet") == "12,345 feet"
    assert show("1901-05-03", "date") == "May 3, 1901"
    assert show("1901-05-03", "date", date_style="day first") == "3 May 1901"
    assert accepted("12345", "number", "feet") == ("12,345", "12345", "12,345 feet", "12345 feet")
    assert accepted("1901-05-03", "date") == ("May 3, 1901", "3 May 1901", "1901-05-03")
    assert accepted("1901", "year") == ("1901",)
    assert (joined(["a"]), joined(["a", "b", "c"])) == ("a", "a, b and c")


def test_every_fact_stands_on_its_page_word_by_word(world: World) -> None:
    for title in world.graph.entities:
        page = world.pages[title]
        for relation, sentence in page.facts.items():
            assert sentence in page.text
            assert page.shown[relation] in sentence
        assert len({passage.id for passage in page.passages()}) == len(page.parts)


def test_articles_of_countries_are_part_of_what_is_shown() -> None:
    trait = {"size": "small", "half": "northern"}
    land = Entity("Belgium", "country", {"borders": ("France", "Netherlands"), "capital": ("Brussels",)}, trait)
    for seed in range(12):
        page = entity_page(land, Graph([land]), random.Random(seed))
        assert page.shown["borders"] in page.facts["borders"]
        assert page.shown["capital"] == "Brussels"


def test_pages_are_the_same_every_time_and_vary_between_entities() -> None:
    one, other = small_world(), small_world()
    assert [page.text for page in one.pages.values()] == [page.text for page in other.pages.values()]
    cities = [
        world_page.text.split("Location")[0]
        for world_page in map(one.pages.get, [e.title for e in one.graph.by_kind["city"]])
        if world_page
    ]
    assert len({text.replace(e.title, "") for text, e in zip(cities, one.graph.by_kind["city"], strict=True)}) > 20


def test_lists_name_all_members_and_run_over_pages() -> None:
    natives = [
        Entity(f"Al {chr(65 + i // 26)}{chr(97 + i % 26)}", "player", {"birth_city": ("Avon",)}, {"era": "1920s"})
        for i in range(ROWS_PER_PAGE + 3)
    ]
    world = World(
        [
            Entity(
                "Avon", "city", {"country": ("Baria",), "population": ("7",)}, {"size": "small", "half": "northern"}
            ),
            *natives,
        ],
        0,
    )
    sheets = world.sheets(natives_title("Avon"))
    assert [sheet.title for sheet in sheets] == [natives_title("Avon"), f"{natives_title('Avon')} (2)"]
    assert [title for sheet in sheets for title in sheet.facts] == sorted(native.title for native in natives)
    assert all(mentions(sheet.text, title) for sheet in sheets for title in sheet.facts)
    assert "Avon <https://venus.wiki/Avon>" in sheets[0].text
    assert world.sheets("Baseball players born in Corto") == []


def test_namesakes_get_a_page_that_tells_them_apart() -> None:
    trait = {"size": "small", "half": "northern"}
    facts = {"population": ("7",), "country": ("Baria",)}
    towns = [("Avon, Ohio", "Avon"), ("Avon, Utah", "Avon"), ("Baria, Ohio", "Baria")]
    cities = [Entity(title, "city", facts, trait, name=name) for title, name in towns]
    world = World([*cities, Entity("Baria", "country", {}, trait)], 0)
    assert "Avon, Ohio: a city\nAvon, Utah: a city" in world.pages["Avon"].text
    assert "Baria, Ohio: a city" in world.pages["Baria (disambiguation)"].text


def test_archived_pages_are_dated_and_say_nothing_later(world: World) -> None:
    archived = [page for page in world.pages.values() if "(archived" in page.title]
    assert archived
    for page in archived:
        year = int(page.title.split()[-1].rstrip(")"))
        assert page.date == f"{year}-12-31"
        assert f"at the end of {year}" in page.text
        player = world.graph.entities[page.title.split(" (archived")[0]]
        assert [value for value in player.facts["all_star"] if int(value) > year]
        assert not any(mentions(page.text, value) for value in player.facts["all_star"] if int(value) > year)


def test_distinct_renames_everywhere() -> None:
    pula = Entity("Pula", "currency", {"users": ("Botswana",)})
    town = Entity("Pula", "city", {"country": ("Croatia",)}, {"size": "small", "half": "northern"})
    land = Entity("Botswana", "country", {"currency": ("Pula",)})
    changed = distinct([pula, town, land])
    assert [entity.title for entity in changed] == ["Pula (currency)", "Pula (city)", "Botswana"]
    assert changed[2].facts["currency"] == ("Pula (currency)",)
    Graph(changed)


def test_a_page_hides_its_facts_from_a_snippet(world: World) -> None:
    for entity in world.graph.by_kind["player"][:50]:
        page = entity_page(entity, world.graph, random.Random(1))
        snippet = " ".join(page.text.split()[:40])
        assert not any(mentions(snippet, value) for value in page.shown.values())
