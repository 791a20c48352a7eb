from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from venus_rl.data.artifact import file_hash, produce


def test_same_inputs_are_built_once_and_others_apart(tmp_path: Path) -> None:
    calls: list[int] = []

    def build(folder: Path) -> dict[str, int]:
        calls.append(1)
        (folder / "data.txt").write_text("x")
        return {"rows": 1}

    first = produce(tmp_path, "stage", {"a": 1}, build)
    again = produce(tmp_path, "stage", {"a": 1}, build)
    other = produce(tmp_path, "stage", {"a": 2}, build)
    assert (first.reused, again.reused, other.reused) == (False, True, False)
    assert first.path == again.path != other.path
    assert len(calls) == 2
    assert again.report == first.report == json.loads((first.path / "report.json").read_text())
    assert first.report == {"stage": "stage", "inputs": {"a": 1}, "rows": 1}


def test_a_failed_build_leaves_nothing_and_a_killed_ones_rest_is_cleared(tmp_path: Path) -> None:
    def fail(folder: Path) -> dict[str, int]:
        (folder / "half").write_text("x")
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        produce(tmp_path, "stage", {}, fail)
    assert not [p for p in tmp_path.iterdir() if p.is_dir()]
    name = produce(tmp_path, "stage", {}, lambda folder: {}).path.name
    rest = tmp_path / f".{name}.abc.tmp"
    (rest / "inner").mkdir(parents=True)
    (tmp_path / name / "report.json").unlink()
    (tmp_path / name).rmdir()
    produce(tmp_path, "stage", {}, lambda folder: {})
    assert not rest.exists()


def test_two_at_the_same_time_build_once(tmp_path: Path) -> None:
    calls: list[int] = []
    threads = [
        threading.Thread(target=produce, args=(tmp_path, "s", {}, lambda folder: calls.append(1) or {}))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_file_hash(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert file_hash(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
