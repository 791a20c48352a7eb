from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from venus_env.corpus import Corpus, open_corpus
from venus_env.setting import EnvConfig, Setting, draw_tasks, split_tasks
from venus_env.tasks.task import Task
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("setting")
    rows = [
        {"id": str(n), "url": f"https://venus.wiki/P{n}", "title": f"P{n}", "text": f"Page {n} is about rivers. " * 9}
        for n in range(5)
    ]
    (folder / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return open_corpus(folder / "pages.jsonl", cache_dir=folder / "cache")


def tasks(*splits: str | None) -> list[Task]:
    return [Task(id=f"t{n}", question="?", answers=("a",), split=split) for n, split in enumerate(splits)]


def test_tools_follow_the_configuration(corpus: Corpus) -> None:
    setting = Setting.open(EnvConfig(top_k=2, snippet_words=4, visit_tokens=16), corpus=corpus)
    search, visit = setting.tools
    assert isinstance(search, SearchTool)
    assert isinstance(visit, VisitTool)
    assert setting.corpus is corpus
    assert (search.name, visit.name) == ("search", "visit")


async def test_both_tool_styles_reach_the_policy(corpus: Corpus) -> None:
    shown = {}
    for style in ("full", "compact"):
        setting = Setting.open(EnvConfig(tool_style=style, top_k=2, snippet_words=3), corpus=corpus)
        search = setting.tools[0]
        shown[style] = (await search(search.arguments(query=["rivers"]))).text
    (results,) = json.loads(shown["full"])
    assert len(results["web_page_info_list"]) == 2
    assert [line.split(". ")[0] for line in shown["compact"].splitlines()[::3]] == ["1", "2"]


async def test_a_session_plays_by_the_settings_rules(corpus: Corpus) -> None:
    setting = Setting.open(EnvConfig(max_turns=1, force_final_answer=False, prompt="compact"), corpus=corpus)
    session = setting.session(tasks("train")[0], seed=3)
    await session.start()
    assert session.messages[0]["content"].startswith("You answer questions by research.")
    call = '<think>t</think>\n<tool_call>{"name": "search", "arguments": {"query": ["rivers"]}}</tool_call>'
    assert (await session.step(call)).end == "turn_limit"
    assert session.trajectory().seed == 3


def test_named_splits_are_taken_as_they_are() -> None:
    all_tasks = tasks("train", "test", None, "train")
    assert [task.id for task in split_tasks(all_tasks, "train", "f")] == ["t0", "t3"]
    assert [task.id for task in split_tasks(all_tasks, "test", "f")] == ["t1"]


def test_tasks_without_splits_are_divided_by_a_hash_of_their_ids() -> None:
    all_tasks = tasks(*[None] * 400)
    test, train = split_tasks(all_tasks, "test", "f"), split_tasks(all_tasks, "train", "f")
    assert sorted(task.id for task in test + train) == sorted(task.id for task in all_tasks)
    assert 75 <= len(test) <= 125
    # A task keeps its side when others are added or the order changes.
    assert set(test) == set(split_tasks(all_tasks[::-1], "test", "f"))
    assert [t for t in test if t in all_tasks[:100]] == split_tasks(all_tasks[:100], "test", "f")


@pytest.mark.parametrize(
    ("splits", "wanted", "message"),
    [
        (["train", "dev"], "test", "f has no task of split 'test'; it has dev, train"),
        ([None] * 400, "dev", r"no task of split 'dev'; it has test, train \(its 400 tasks name no split"),
        ([None], "test", r"it has train \(its 1 tasks name no split"),
    ],
)
def test_a_split_that_is_not_there_is_named_with_those_that_are(
    splits: list[str | None], wanted: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        split_tasks(tasks(*splits), wanted, "f")


def test_tasks_are_read_from_the_configured_file(corpus: Corpus, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps({"id": "a", "question": "q?", "answers": ["b"], "split": "dev"}) + "\n")
    assert [task.id for task in Setting.open(EnvConfig(tasks=str(file)), corpus=corpus).tasks("dev")] == ["a"]


def test_some_tasks_of_a_split_or_of_the_file(corpus: Corpus, tmp_path: Path) -> None:
    all_tasks = tasks(*["dev", "test"] * 20)
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(task.model_dump_json(exclude_defaults=True) + "\n" for task in all_tasks))
    setting = Setting.open(EnvConfig(tasks=str(file)), corpus=corpus)
    assert setting.tasks(None) == all_tasks
    assert setting.tasks("dev", 5) == draw_tasks(setting.tasks("dev"), 5)
    assert setting.tasks(None, 40) == draw_tasks(all_tasks, 40)


def test_drawn_tasks_are_fair_and_the_same_in_any_order_of_the_file() -> None:
    all_tasks = tasks(*["dev"] * 400)
    drawn = draw_tasks(all_tasks, 100)
    assert draw_tasks(all_tasks[::-1], 100) == drawn
    assert draw_tasks(all_tasks, 101)[:100] == drawn
    assert 35 <= sum(task in all_tasks[:200] for task in drawn) <= 65  # a file sorted by kind


@pytest.mark.parametrize("count", [0, -1, 4])
def test_more_tasks_than_there_are_cannot_be_drawn(count: int) -> None:
    with pytest.raises(ValueError, match=f"count must be from 1 to 3, .* got {count}"):
        draw_tasks(tasks("dev", "dev", "dev"), count)


@pytest.mark.parametrize("bad", [{"top_k": 0}, {"visit_tokens": 15}, {"tool_style": "short"}, {"topk": 3}])
def test_values_out_of_range_and_unknown_keys_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(bad))):
        EnvConfig.model_validate(bad)
