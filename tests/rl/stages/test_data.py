from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest

from venus_env.setting import Setting
from venus_rl.config import Config, ConfigError
from venus_rl.run_folder import RunFolder
from venus_rl.stages import data

ROW = {
    "question": "Who is the mayor of Lyon?",
    "messages": [
        {"role": "system", "content": "You answer questions by research."},
        {"role": "user", "content": "Who is the mayor of Lyon?"},
        {"role": "assistant", "content": "<think>I know.</think>\n<answer>Ann Mayor0</answer>"},
    ],
    "gt": "Ann Mayor0",
}


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    path = tmp_path / "given.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    return path


@pytest.mark.parametrize(
    ("oracle", "given", "episodes"),
    [(None, None, data.DEFAULT_ORACLE), (None, "x.jsonl", 0), (5, None, 5), (5, "x.jsonl", 5), (0, "x.jsonl", 0)],
)
def test_oracle_episodes_are_the_default_source_and_may_be_added(
    make_config: Callable[..., Config], oracle: int | None, given: str | None, episodes: int
) -> None:
    assert data.oracle_episodes(make_config(data={"oracle": oracle}, sft={"data": given})) == episodes


def test_oracle_episodes_become_rows_of_tokens(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path
) -> None:
    folder = RunFolder(make_config(data={"oracle": 10}))  # more than there are questions: some are played twice
    made = data.run(folder, setting, policy_folder)
    table = pyarrow.parquet.read_table(made.file).to_pylist()
    assert made.rows == len(table) == 10
    assert made.longest == max(len(row["input_ids"]) for row in table)
    assert all(0 < sum(row["loss_mask"]) < len(row["loss_mask"]) for row in table)
    assert made.file.is_relative_to(folder.root / "data")


def test_the_same_inputs_are_worked_on_once(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path
) -> None:
    folder = RunFolder(make_config())
    first = data.run(folder, setting, policy_folder)
    written = first.file.stat().st_mtime_ns
    assert data.run(folder, setting, policy_folder) == first
    assert first.file.stat().st_mtime_ns == written
    folder.config.run.seed = 1
    assert data.run(folder, setting, policy_folder).fingerprint != first.fingerprint


def test_given_conversations_are_used_instead_or_besides(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path, conversations: Path
) -> None:
    alone = make_config(data={"oracle": None}, sft={"data": str(conversations)})
    assert data.run(RunFolder(alone), setting, policy_folder).rows == 1
    both = make_config(data={"oracle": 3}, sft={"data": str(conversations)})
    assert data.run(RunFolder(both), setting, policy_folder).rows == 4


def test_conversations_that_do_not_fit_leave_an_error_that_names_the_settings(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path
) -> None:
    folder = RunFolder(make_config(sft={"max_tokens": 20}))
    with pytest.raises(ConfigError, match=r"data\.oracle=6: no trajectory is left of 6 rows; .*'over_long': 6"):
        data.run(folder, setting, policy_folder)


def test_damaged_conversations_are_named(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"dialogue": []}\n')
    folder = RunFolder(make_config(data={"oracle": None}, sft={"data": str(bad)}))
    with pytest.raises(ConfigError, match=r"sft\.data=.*bad\.jsonl, row 1: no list of messages under 'messages'"):
        data.run(folder, setting, policy_folder)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"sft": {"data": "nowhere/*.jsonl"}}, r"sft\.data=nowhere/\*\.jsonl: no such file"),
        ({"data": {"oracle": 0}}, r"data\.oracle=0 and no sft\.data"),
        ({"sft": {"data": "nowhere", "enabled": False}}, None),
        ({"stage": "eval", "data": {"oracle": 0}}, None),
        ({"data": {"oracle": 1}}, None),
    ],
)
def test_sources_are_checked_when_they_will_be_read(
    make_config: Callable[..., Config], groups: dict[str, object], message: str | None
) -> None:
    if message is None:
        data.check_sources(make_config(**groups))
    else:
        with pytest.raises(ConfigError, match=message):
            data.check_sources(make_config(**groups))


def test_conversations_go_through_the_cleaning_pipeline_when_asked(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path, conversations: Path
) -> None:
    clean = {"thresholds": [], "multipliers": [3], "correctness": "exact"}
    config = make_config(data={"oracle": 2, "clean": clean}, sft={"data": str(conversations)})
    folder = RunFolder(config)
    assert data.run(folder, setting, policy_folder).rows == 9
    (report,) = (folder.root / "data").glob("clean-*/report.json")
    assert json.loads(report.read_text())["rows"] == {"read": 3, "kept": 3, "rejected": 0, "written": 9}


def test_a_pipeline_that_leaves_nothing_names_the_setting(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path, conversations: Path
) -> None:
    given = {"data": {"oracle": None, "clean": {"multipliers": [0, 0, 0]}}, "sft": {"data": str(conversations)}}
    with pytest.raises(ConfigError, match=r"data\.clean leaves none of 1 rows"):
        data.run(RunFolder(make_config(**given)), setting, policy_folder)
