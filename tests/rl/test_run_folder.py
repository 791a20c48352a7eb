from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_rl.config import Config, ConfigError, load_config
from venus_rl.run_folder import RunFolder, fingerprint

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(Config.model_validate({"run": {"dir": tmp_path / "a" / "run"}}))


@settings(max_examples=60, deadline=None)
@given(JSON, JSON)
def test_fingerprints_tell_values_apart(one: Any, two: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert (fingerprint(one) == fingerprint(two)) == same


def test_fingerprint_ignores_the_order_of_keys_only() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])
    assert fingerprint("x", Path("y")) == fingerprint("x", "y")
    assert len(fingerprint(None)) == 16


def test_a_stage_is_to_do_then_begun_then_finished(folder: RunFolder) -> None:
    assert folder.finished("sft", "k") is None
    assert folder.begin("sft", "k") == folder.root / "sft"
    assert folder.finished("sft", "k") is None  # begun: to be resumed
    stored = folder.finish("sft", "k", 12.34, steps=5)
    assert (stored["seconds"], stored["steps"]) == (12.3, 5)
    assert folder.finished("sft", "k") == stored
    assert folder.finished("rl", "k") is None


@pytest.mark.parametrize("finish", [False, True])
def test_a_stage_of_other_settings_is_refused_not_mixed(folder: RunFolder, finish: bool) -> None:
    folder.begin("sft", "k")
    if finish:
        folder.finish("sft", "k", 1.0)
    with pytest.raises(ConfigError, match=r"run/sft was made with other settings: choose another run\.dir, or delete"):
        folder.finished("sft", "other")


def test_a_begun_continuation_of_a_finished_stage_stays_finished(folder: RunFolder) -> None:
    """More RL steps begin the stage again: until they are done, what was finished counts."""
    folder.begin("rl", "k")
    folder.finish("rl", "k", 1.0, steps=2)
    folder.begin("rl", "k")
    stored = folder.finished("rl", "k")
    assert stored is not None
    assert stored["steps"] == 2


def test_saved_configuration_reads_back(folder: RunFolder) -> None:
    folder.config.rl.probe_prefix = "<think>\n\u2028 ${x} é"
    folder.config.rl.hops = [1]
    folder.save_config()
    as_json = Config.model_validate_json((folder.root / "config.json").read_text(encoding="utf-8"))
    assert as_json == folder.config
    folder.config.rl.probe_prefix = "<think>Done.</think>\n<answer>"
    folder.save_config()
    assert load_config(folder.root / "config.yaml", []) == folder.config


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ConfigError, match=r"run\.dir=.*file.*: cannot make this folder"):
            RunFolder(Config.model_validate({"run": {"dir": bad}}))


def test_one_command_at_a_time(make_config: Callable[..., Config]) -> None:
    first, second = RunFolder(make_config()), RunFolder(make_config())
    with first.locked():
        assert first.lock is not None
        with pytest.raises(ConfigError, match="another command is working in this folder"), second.locked(0.3):
            pass
    with second.locked(0.0):
        assert (first.lock, second.lock is not None) == (None, True)
