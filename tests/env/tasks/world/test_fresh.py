import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_env.tasks.world import KINDS, make_task, random_world


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(20, 120))
def test_random_worlds_are_closed_and_every_question_has_one_answer(seed: int, n: int) -> None:
    rng = random.Random(seed)
    world = random_world(rng, n)
    assert {entity.kind for entity in world.entities.values()} == set(KINDS)
    for entity in world.entities.values():
        for name, value in entity.facts.items():
            if KINDS[entity.kind].relations[name].target in KINDS:
                assert world.target(entity.kind, name, value) is not None
                assert value != entity.name
    start = rng.choice(sorted(world.entities))
    for hops in (1, 2, 3):
        for path in list(world.paths(start, hops))[:10]:
            task = make_task(world, path, rng, id="x")
            assert task.hops == hops == len(task.evidence)
            assert task.answers == (path[-1].value,)
            for step in task.evidence:
                assert step.sentence in world.text(step.title)
                assert step.value is not None
                assert step.value in step.sentence


def test_the_same_seed_gives_the_same_world() -> None:
    first, second = (random_world(random.Random(7), 60) for _ in range(2))
    assert first.entities == second.entities
    assert [first.text(name) for name in first.entities] == [second.text(name) for name in second.entities]
    assert random_world(random.Random(8), 60).entities.keys() != first.entities.keys()


def test_names_come_from_the_given_callable() -> None:
    world = random_world(random.Random(0), 40, names=lambda rng: f"Word{rng.randrange(10_000)}")
    for entity in world.entities.values():
        words = entity.name.removesuffix(" Airport").split()
        assert all(word.startswith("Word") for word in words)
        assert entity.name.endswith(" Airport") == (entity.kind == "airport")


def test_too_few_names_are_reported() -> None:
    with pytest.raises(ValueError, match="name in 1000 draws"):
        random_world(random.Random(0), 200, names=lambda rng: rng.choice(("Ada", "Bob")))
