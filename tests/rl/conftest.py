"""A world of a dozen pages, a policy too small to know anything, and configurations over both."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.rl.commands import Done, train
from venus_env.corpus.build import build_index
from venus_env.setting import Setting
from venus_rl.config import Config

CITIES = ["Lyon", "Oslo", "Bern", "Turin", "Graz", "Porto", "Ghent", "Malmo", "Cork", "Brno", "Split", "Gdansk"]


@dataclass(frozen=True)
class World:
    """Paths of an index folder and of a task file: 8 train and 4 test questions of one hop."""

    corpus: str
    tasks: str


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    pages, tasks = [], []
    for number, city in enumerate(CITIES):
        url, mayor = f"https://venus.wiki/{city}", f"Ann Mayor{number}"
        sentence = f"Its mayor is {mayor}."
        text = f"{city} is a city on a river with an old town and a harbour for small boats. {sentence}"
        pages.append({"id": city, "url": url, "title": city, "text": text})
        evidence = {"url": url, "title": city, "sentence": sentence, "relation": "mayor", "value": mayor}
        tasks.append(
            {
                "id": city.lower(),
                "question": f"Who is the mayor of {city}?",
                "answers": [mayor],
                "evidence": [evidence],
                "hops": 1,
                "split": "test" if number % 3 == 2 else "train",
            }
        )
    for name, rows in (("pages.jsonl", pages), ("tasks.jsonl", tasks)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    build_index(folder / "pages.jsonl", folder / "index")
    return World(str(folder / "index"), str(folder / "tasks.jsonl"))


@pytest.fixture(scope="session")
def policy_folder(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of 2048 positions with its tokenizer, as a Hugging Face folder."""
    from venus_rl.model.build import ModelSpec, init_model, save_policy
    from venus_rl.model.tokenizer import train_tokenizer

    folder = tmp_path_factory.mktemp("policy") / "random"
    tokenizer = train_tokenizer([Path(world.tasks).read_text(encoding="utf-8")], vocab_size=600)
    sizes = ModelSpec(hidden=32, layers=1, heads=1, head_dim=32, feed_forward=16, positions=2048, copying=False)
    save_policy(init_model(sizes, tokenizer, seed=0), tokenizer, folder)
    return folder


@pytest.fixture
def make_config(world: World, policy_folder: Path, tmp_path: Path) -> Callable[..., Config]:
    """Make a configuration over the small world in a run folder of the test's own; groups are given as dicts."""

    def make(**groups: Any) -> Config:
        defaults: dict[str, Any] = {
            "run": {"dir": tmp_path / "run", "threads": 1},
            "model": {"path": str(policy_folder)},
            "env": {"corpus": world.corpus, "tasks": world.tasks},
            "data": {"oracle": 6, "recover": 0.0},
        }
        for name, group in groups.items():
            merge = isinstance(group, dict)
            defaults[name] = {**defaults.get(name, {}), **group} if merge else group
        return Config.model_validate(defaults)

    return make


@pytest.fixture(scope="session")
def setting(world: World) -> Setting:
    """The small world, opened as a run opens it."""
    return Setting.open(Config.model_validate({"env": {"corpus": world.corpus, "tasks": world.tasks}}).env)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """One whole run on the embedded world with a model made from scratch; minutes long, for slow tests only."""
    return train(tmp_path_factory.mktemp("end-to-end") / "run")
