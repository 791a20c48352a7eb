from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from venus_env.setting import Setting
from venus_rl.config import Config, ConfigError
from venus_rl.run_folder import RunFolder
from venus_rl.stages import prepare

TINY = {
    "vocab_size": 600,
    "hidden": 32,
    "layers": 1,
    "heads": 1,
    "head_dim": 32,
    "feed_forward": 16,
    "positions": 1024,
    "copying": False,
}


def test_threads_are_given_or_an_equal_share(
    make_config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare.os, "cpu_count", lambda: 8)
    assert prepare.threads_per_process(make_config(run={"threads": 3, "processes": 2})) == 3
    assert prepare.threads_per_process(make_config(run={"threads": 0, "processes": 2})) == 4
    assert prepare.threads_per_process(make_config(run={"threads": 0, "processes": 16})) == 1
    monkeypatch.setattr(prepare.os, "cpu_count", lambda: None)
    assert prepare.threads_per_process(make_config(run={"threads": 0})) == 1


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("batch", [1, 8, 31])
def test_the_suggested_batch_size_is_accepted(make_config: Callable[..., Config], processes: int, batch: int) -> None:
    config = make_config(run={"processes": processes}, sft={"batch_size": batch}, rl={"group": 24})
    try:
        prepare.check_sizes(config)
    except ConfigError as error:
        suggested = int(str(error).rsplit("sft.batch_size=", 1)[1])
        assert batch < suggested < batch + processes
        config.sft.batch_size = suggested
        prepare.check_sizes(config)
    else:
        assert batch % processes == 0


def test_the_suggested_group_is_accepted(make_config: Callable[..., Config]) -> None:
    config = make_config(run={"processes": 4}, sft={"batch_size": 4}, rl={"prompts": 3, "group": 2})
    with pytest.raises(ConfigError, match=r"3 × 2 = 6 rollouts .* run\.processes=4; use rl\.group=4"):
        prepare.check_sizes(config)
    config.rl.group = 4
    prepare.check_sizes(config)


def test_the_window_is_the_models_own(policy_folder: Path, tmp_path: Path) -> None:
    assert prepare.model_window(policy_folder) == 2048
    (tmp_path / "config.json").write_text("{}")
    assert prepare.model_window(tmp_path) >= 2**31


def test_a_window_that_is_just_long_enough_passes(make_config: Callable[..., Config]) -> None:
    prepare.check_model(make_config(env={"max_context_tokens": 2048}, sft={"max_tokens": 2048}))
    with pytest.raises(ConfigError, match=r"sft\.max_tokens=2049 is more tokens than .* reads \(2048\)"):
        prepare.check_model(make_config(sft={"max_tokens": 2049}))


def test_base_is_the_model_shipped_with_the_package(make_config: Callable[..., Config]) -> None:
    assert prepare.model_path(make_config(model={"path": "base"})) == prepare.BASE_MODEL
    assert prepare.BASE_MODEL.parts[-3:] == ("venus_rl", "model", "base")


def test_model_key_changes_with_the_weights_only(policy_folder: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "elsewhere"
    shutil.copytree(policy_folder, copy)
    (copy / "README.md").write_text("notes")
    assert prepare.model_key(copy) == prepare.model_key(policy_folder)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert prepare.model_key(copy) != prepare.model_key(policy_folder)


def test_a_model_from_sizes_is_made_once_in_the_run_folder(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path
) -> None:
    config = make_config(model={"init": TINY})
    prepare.check_model(config)
    folder = RunFolder(config)
    path = prepare.initial_model(folder, setting)
    assert path == folder.root / "model"
    assert json.loads((path / "config.json").read_text())["max_position_embeddings"] == 1024
    before = {file: file.stat().st_mtime_ns for file in path.iterdir()}
    assert prepare.initial_model(folder, setting) == path
    assert {file: file.stat().st_mtime_ns for file in path.iterdir()} == before
    stored = json.loads((path / "finished.json").read_text())
    assert stored["parameters"] > 600 * 32

    config.run.seed = 1
    with pytest.raises(ConfigError, match=r"run/model was made with other settings"):
        prepare.initial_model(folder, setting)


def test_the_same_seed_makes_the_same_model(
    make_config: Callable[..., Config], setting: Setting, tmp_path: Path
) -> None:
    keys = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        config = make_config(run={"dir": tmp_path / name, "seed": seed}, model={"init": TINY})
        keys.append(prepare.model_key(prepare.initial_model(RunFolder(config), setting)))
    assert keys[0] == keys[1] != keys[2]


def test_a_folder_is_used_where_it_lies(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path
) -> None:
    folder = RunFolder(make_config())
    assert prepare.initial_model(folder, setting) == policy_folder
    assert not (folder.root / "model").exists()


def test_tasks_of_a_split_and_of_hop_counts(setting: Setting) -> None:
    assert len(prepare.select_tasks(setting, "train")) == 8
    assert len(prepare.select_tasks(setting, "test", [1, 2])) == 4
    with pytest.raises(ConfigError, match=r"rl\.hops=\[2\]: no test task has that many hops; .*tasks\.jsonl has \[1\]"):
        prepare.select_tasks(setting, "test", [2], "rl.hops")


def test_hops_of_tasks_that_name_none(setting: Setting, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"question": "q?", "answers": ["a"], "split": "train"}\n')
    plain = Setting(setting.config.model_copy(update={"tasks": str(file)}), setting.corpus, setting.tools)
    with pytest.raises(ConfigError, match="has no hop counts"):
        prepare.select_tasks(plain, "train", [1], "rl.hops")
