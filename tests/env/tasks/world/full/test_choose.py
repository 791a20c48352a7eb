"""The rules of questions, checked on a small world from what the tasks and pages say."""

import gzip
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.env.tasks.world.full.conftest import SMALL_TELLING
from venus_env.corpus.text import words
from venus_env.tasks.task import Task
from venus_env.tasks.world.full.ask import ask
from venus_env.tasks.world.full.build import PASSAGES, TASKS, write
from venus_env.tasks.world.full.candidates import Candidates, held_out
from venus_env.tasks.world.full.choose import DEEP, SHARES, make_task
from venus_env.tasks.world.full.queries import Compare, Described, Follow, Named, answers, identifies
from venus_env.tasks.world.full.trails import gives_away, shortcut
from venus_env.tasks.world.full.world import World
from venus_env.tasks.world.graph import mentions

SPLITS = ("train", "dev", "test")


def test_every_kind_is_asked_in_every_depth(tasks: list[Task]) -> None:
    train = {(task.kind, task.hops) for task in tasks if task.split == "train"}
    assert {(kind, hops) for kind, (_, depths) in SHARES.items() for hops in depths} - train <= {
        ("date", 4), ("interval", 1), ("date", 3), ("chain", 5), ("comparison", 4), ("obfuscated", 5),
    }  # fmt: skip
    assert len({task.id for task in tasks}) == len(tasks) == len({task.question for task in tasks})


def test_evidence_is_verbatim_and_leads_on(world: World, tasks: list[Task]) -> None:
    for task in tasks:
        for step in task.evidence:
            page = world.pages[step.title]
            assert step.url == page.url
            assert step.sentence in page.text
            assert step.value is not None
            assert step.value in step.sentence
        if task.kind in ("chain", "date"):
            assert len(task.evidence) == task.hops
            for step, following in zip(task.evidence, task.evidence[1:], strict=False):
                assert step.value == following.title


def test_answers_stand_neither_in_the_question_nor_on_earlier_pages(world: World, tasks: list[Task]) -> None:
    for task in tasks:
        assert not gives_away(task.question, task.answers), task
        if task.kind in ("chain", "date", "obfuscated"):
            earlier = {step.title for step in task.evidence} - {task.evidence[-1].title}
            assert not any(mentions(world.pages[title].text, answer) for title in earlier for answer in task.answers)


def test_pages_hold_all_words_of_a_text(world: World) -> None:
    titles = list(world.pages)
    city = world.graph.by_kind["city"][0]
    held = {titles[number] for number in world.holding(city.title)}
    assert city.title in held
    everywhere = {title for title, page in world.pages.items() if city.title in page.text}
    assert everywhere <= held
    assert world.rarity(city.title) >= len(held)
    assert world.holding("no-such-word") == world.holding("") == set()


def test_a_page_with_the_answer_and_a_rare_text_of_the_question_is_a_shortcut(world: World) -> None:
    airport = world.graph.by_kind["airport"][0]
    city, code = airport.facts["city"][0], airport.facts["iata"][0]
    assert shortcut(world, [airport.title], [code], 300)
    assert shortcut(world, ["stands nowhere", city], ["nor this", code], 300)
    assert not shortcut(world, [city], [code], 1)  # the city stands on several pages, so it does not tell
    elsewhere = next(e for e in world.graph.by_kind["city"] if e.home != airport.home)
    assert not shortcut(world, [elsewhere.title], [code], 300)
    assert not shortcut(world, [], [code], 300)


def test_deep_questions_have_no_shortcut(world: World, tasks: list[Task]) -> None:
    deep = [task for task in tasks if (task.hops or 0) >= DEEP]
    assert len(deep) > 100
    assert not any(shortcut(world, words(task.question), task.answers, SMALL_TELLING) for task in deep)


def test_no_page_of_a_gold_path_is_shared_between_splits(world: World, tasks: list[Task]) -> None:
    used = {
        split: {step.title for task in tasks if task.split == split for step in task.evidence}
        | {task.answers[0] for task in tasks if task.split == split if task.answers[0] in world.graph.entities}
        for split in SPLITS
    }
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert not used[one] & used[other]


def _drawn(world: World, split: str, kind: str, hops: int, count: int = 400) -> list:
    source = Candidates(world, split, random.Random(7))
    return [found for _ in range(count) if (found := source.draw(kind, hops)) is not None]


def test_training_never_has_the_path_types_that_are_held_out(world: World) -> None:
    kinds = [("chain", 2), ("chain", 3), ("obfuscated", 3), ("comparison", 2)]
    train = {found.shape for kind, hops in kinds for found in _drawn(world, "train", kind, hops)}
    test = {found.shape for kind, hops in kinds for found in _drawn(world, "test", kind, hops)}
    assert not any(map(held_out, train))
    assert len([shape for shape in test if held_out(shape)]) >= 5
    assert not held_out("city>population")


@pytest.mark.parametrize("kind", SHARES)
def test_queries_give_the_one_answer_and_nothing_is_asked_twice(world: World, kind: str) -> None:
    found = _drawn(world, "train", kind, 2)
    assert found
    for candidate in found:
        task = make_task(world, candidate, random.Random(0), kind=kind, split="train")
        if task is not None:
            assert answers(world.graph, candidate.query) == {candidate.value}


def test_descriptions_fit_one_entity_and_need_every_fact(world: World) -> None:
    veiled = 0
    for candidate in _drawn(world, "train", "obfuscated", 4, 1500):
        node = candidate.query
        values = []
        while isinstance(node, Follow):
            values.append((node.kind, node.relation))
            node = node.source
        assert isinstance(node, Described)
        plain = Described(node.kind, node.facts)
        (title,) = answers(world.graph, node)
        assert identifies(world.graph, plain, title)
        task = make_task(world, candidate, random.Random(0), kind="obfuscated", split="train")
        if task is not None:
            assert not mentions(task.question, title)
            if node.via is not None:
                veiled += 1
                assert answers(world.graph, node.via) == {node.facts[0][1]}
                assert not mentions(task.question, node.facts[0][1])
    assert veiled > 3


def test_two_wordings_of_a_third_of_test_questions_are_new(world: World) -> None:
    """Templates: the wordings with a blank for every name and value."""

    def templates(split: str, held: bool) -> list[str]:
        rng = random.Random(3)
        found = [
            c for kind, (_, depths) in SHARES.items() for hops in depths for c in _drawn(world, split, kind, hops, 120)
        ]
        return [ask(world.graph, candidate.query, rng, held=held).template for candidate in found]

    assert not set(templates("train", False)) & set(templates("test", True))


def test_a_template_has_no_names(world: World) -> None:
    for candidate in _drawn(world, "train", "obfuscated", 3):
        wording = ask(world.graph, candidate.query, random.Random(1))
        assert "_" in wording.template
        assert not any(mentions(wording.template, step.title) for step in candidate.evidence)


def test_wordings_of_each_kind(world: World) -> None:
    graph = world.graph
    season, player = graph.by_kind["season"][0], graph.by_kind["player"][0]
    chain = Follow(Follow(Named(season.title), "season", "manager"), "player", "height")
    texts = {ask(graph, chain, random.Random(seed)).text for seed in range(60)}
    assert f"What is the height in inches of the manager of the {season.title}?" in texts
    assert f"Start from the {season.title}. Find its manager. What is his height in inches?" in texts
    assert len({ask(graph, chain, random.Random(seed), held=True).text for seed in range(60)} & texts) == 0
    described = Described("player", (("birth_city", player.facts["birth_city"][0]), ("height", "70")))
    town = player.facts["birth_city"][0]
    text = ask(graph, Follow(described, "player", "school"), random.Random(2)).text
    assert f"the baseball player who was born in {town} and stood 70 inches tall" in text
    pair = Compare(Named(season.title), Named(graph.by_kind["season"][1].title), "season", "wins", True)
    assert "won more games" in ask(graph, pair, random.Random(0)).text


def test_limits_hold(tasks: list[Task]) -> None:
    ends = Counter(
        (task.kind, task.hops, task.evidence[-1].relation, task.answers[0]) for task in tasks if task.split == "test"
    )
    assert max(ends.values()) <= 4


def test_equal_worlds_give_equal_bytes(world: World, tasks: list[Task], tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert len(write(tmp_path / name, world, tasks)) == len(tasks)
    for name in (*PASSAGES, *TASKS):
        one, two = ((tmp_path / folder / name).read_bytes() for folder in ("one", "two"))
        assert one == two
        assert one[4:8] == b"\0\0\0\0"  # no time stamp
    plain = gzip.decompress((tmp_path / "one" / PASSAGES[0]).read_bytes()).decode()
    assert not any(mentions(plain, player.title) for player in world.graph.by_kind["player"][:20])
