from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.env.evaluation.test_runner import Sessions
from venus_env.corpus import Corpus
from venus_env.evaluation.card import ResultCard, make_card, read_card, write_card, write_text_atomic
from venus_env.evaluation.metrics import estimate
from venus_env.evaluation.runner import evaluate
from venus_env.policies.scripted import OraclePolicy
from venus_env.protocol.config import EpisodeConfig
from venus_env.rewards.compose import RewardConfig
from venus_env.tasks.task import Task


async def card_of(corpus: Corpus, tasks: list[Task], **config: object) -> ResultCard:
    sessions = Sessions(corpus)
    return make_card(
        await evaluate(OraclePolicy(), tasks, sessions, progress=False),
        policy={"name": "oracle"},
        seed=0,
        samples=1,
        corpus_hash=corpus.content_hash,
        tools=sessions.tools,
        config=EpisodeConfig(max_turns=8, **config),  # type: ignore[arg-type]
        rewards=RewardConfig(),
        baselines={"closed_book": estimate([0.0, 1.0])},
    )


async def test_the_same_run_writes_the_same_card(corpus: Corpus, tasks: list[Task], tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write_card(await card_of(corpus, tasks), tmp_path / name)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    raw = json.loads((tmp_path / "a.json").read_text())
    assert raw["schema"] == "venus.result/1"
    assert raw["scores"]["exact_match"] == {"mean": 1.0, "standard_error": 0.0, "questions": 3}
    assert raw["budgets"]["max_turns"] == 8
    assert [tool["function"]["name"] for tool in raw["tools"]] == ["search", "visit"]
    assert {"python", "venus-research"} <= set(raw["versions"])
    assert read_card(tmp_path / "a.json") == await card_of(corpus, tasks)


async def test_hashes_change_with_what_they_name(corpus: Corpus, tasks: list[Task]) -> None:
    card = await card_of(corpus, tasks)
    assert (await card_of(corpus, tasks, prompt="compact")).prompt_hash != card.prompt_hash
    assert (await card_of(corpus, tasks, current_date="2020-01-01")).prompt_hash != card.prompt_hash
    assert (await card_of(corpus, tasks[:2])).tasks_hash != card.tasks_hash
    assert (await card_of(corpus, tasks[::-1])).tasks_hash == card.tasks_hash


def test_wrong_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text('{"schema": "venus.result/2"}')
    with pytest.raises(ValueError, match=r"card\.json is no venus\.result/1"):
        read_card(path)


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "card.json"
    write_text_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text_atomic(path, "new \ud800")
    assert path.read_text() == "old"
    assert [file.name for file in path.parent.iterdir()] == ["card.json"]
    assert path.stat().st_mode & 0o777 == 0o644
