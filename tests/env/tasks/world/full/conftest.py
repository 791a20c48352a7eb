from collections.abc import Iterator

import pytest

from tests.env.tasks.world.full.small import small_world
from venus_env.tasks.task import Task
from venus_env.tasks.world.full import choose
from venus_env.tasks.world.full.world import World

SMALL_TELLING = 2
"""In a world of a few hundred pages every name is rare."""


@pytest.fixture(scope="session")
def world() -> World:
    return small_world()


@pytest.fixture(scope="session")
def tasks(world: World) -> Iterator[list[Task]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose, "QUOTAS", {"train": 500, "dev": 60, "test": 200})
        patch.setattr(choose, "TELLING", SMALL_TELLING)
        yield [task for split in ("train", "dev", "test") for task in choose.choose_tasks(world, split, 0)]
