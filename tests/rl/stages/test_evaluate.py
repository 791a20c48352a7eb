from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from venus_env.protocol.trajectory import Trajectory
from venus_env.setting import Setting
from venus_rl.config import Config
from venus_rl.run_folder import RunFolder
from venus_rl.stages import evaluate

SHORT = {"max_turns": 2, "max_turn_tokens": 16}


@pytest.mark.parametrize(
    ("count", "ids"),
    [
        (None, ["bern", "porto", "cork", "gdansk"]),
        (9, ["bern", "porto", "cork", "gdansk"]),
        (2, ["bern", "cork"]),
        (3, ["bern", "porto", "cork"]),
        (1, ["bern"]),
    ],
)
def test_questions_are_spread_over_the_split(
    make_config: Callable[..., Config], setting: Setting, count: int | None, ids: list[str]
) -> None:
    chosen = evaluate.questions(make_config(eval={"questions": count}), setting)
    # The test split is every third city: Bern, Porto, Cork, Gdansk.
    assert [task.id for task in chosen] == ids


def test_an_evaluation_leaves_a_card_and_its_trajectories_and_is_not_repeated(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path
) -> None:
    config = make_config(env=SHORT, eval={"samples": 2, "temperature": 1.0})
    folder, short = RunFolder(config), Setting.open(config.env, corpus=setting.corpus)
    tasks = evaluate.questions(config, short)
    card = evaluate.run(folder, short, "initial", policy_folder, "weights", tasks)
    assert (card.scores.episodes, card.scores.exact_match.questions) == (8, 4)
    assert card.policy == {"checkpoint": "initial", "temperature": 1.0, "top_p": 1.0, "max_turn_tokens": 16}
    assert card.corpus_hash == setting.corpus.content_hash
    assert set(card.baselines) == {"single_search", "closed_book"}
    lines = (folder.root / "eval" / "initial-trajectories.jsonl").read_text(encoding="utf-8").splitlines()
    played = [Trajectory.model_validate_json(line) for line in lines]
    assert sorted(t.task["id"] for t in played) == sorted([task.id for task in tasks] * 2)

    written = (folder.root / "eval" / "initial.json").stat().st_mtime_ns
    again = evaluate.run(folder, short, "initial", Path("not/read/again"), "weights", tasks)
    assert again.model_dump_json() == card.model_dump_json()
    assert (folder.root / "eval" / "initial.json").stat().st_mtime_ns == written


@pytest.mark.parametrize("change", ["weights", "seed", "questions", "rules"])
def test_a_card_of_other_weights_or_settings_is_not_reused(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path, change: str
) -> None:
    config = make_config(env=SHORT, eval={"questions": 1, "closed_book": False})
    folder, short = RunFolder(config), Setting.open(config.env, corpus=setting.corpus)

    def played() -> int:
        tasks = evaluate.questions(config, short)
        evaluate.run(folder, short, "initial", policy_folder, "b" if changed == "weights" else "a", tasks)
        return (folder.root / "eval" / "initial.json").stat().st_mtime_ns

    changed = ""
    first = played()
    assert played() == first
    changed = change
    if change == "seed":
        config.run.seed = 1
    elif change == "questions":
        config.eval.questions = 2
    elif change == "rules":
        config.env = config.env.model_copy(update={"max_turns": 1})
    assert played() > first


def test_closed_book_can_be_left_out(make_config: Callable[..., Config], setting: Setting, policy_folder: Path) -> None:
    config = make_config(env=SHORT, eval={"questions": 1, "closed_book": False})
    short = Setting.open(config.env, corpus=setting.corpus)
    card = evaluate.run(RunFolder(config), short, "sft", policy_folder, "k", evaluate.questions(config, short))
    assert set(card.baselines) == {"single_search"}
    assert card.baselines["single_search"].questions == 1
