from __future__ import annotations

from pathlib import Path

import pytest

from venus_rl.checkpoints import (
    COMPLETE,
    TRACKER,
    CheckpointNotSaved,
    complete_steps,
    is_complete,
    mark_complete,
    prune,
    repair,
    saving,
    step_folder,
)


def save(root: Path, step: int, *, whole: bool = True) -> Path:
    folder = step_folder(root, step)
    (folder / "actor").mkdir(parents=True)
    (folder / "actor" / "model.pt").write_bytes(b"w" * 100)
    (folder / "data.pt").write_bytes(b"d")
    if whole:
        mark_complete(folder)
    (root / TRACKER).write_text(str(step))  # as verl does
    return folder


def test_a_checkpoint_is_complete_once_it_is_marked(tmp_path: Path) -> None:
    folder = save(tmp_path, 1, whole=False)
    assert not is_complete(folder)
    mark_complete(folder)
    assert is_complete(folder)
    mark_complete(folder)  # again: the marker itself is no part of what it lists
    assert is_complete(folder)


def cut(folder: Path) -> None:
    (folder / "actor" / "model.pt").write_bytes(b"w" * 50)


def lose(folder: Path) -> None:
    (folder / "data.pt").unlink()


def blank(folder: Path) -> None:
    (folder / COMPLETE).write_text("")


@pytest.mark.parametrize("damage", [cut, lose, blank])
def test_a_damaged_checkpoint_is_not_resumed(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    save(tmp_path, 2)
    damage(save(tmp_path, 4))
    assert complete_steps(tmp_path) == [2]
    assert repair(tmp_path) == 2
    assert (tmp_path / TRACKER).read_text() == "2"
    assert not step_folder(tmp_path, 4).exists()


def test_a_tracker_that_a_full_disk_left_empty_is_written_anew(tmp_path: Path) -> None:
    save(tmp_path, 2)
    (tmp_path / TRACKER).write_text("")
    assert repair(tmp_path) == 2
    assert (tmp_path / TRACKER).read_text() == "2"


def test_without_a_whole_checkpoint_training_starts_anew(tmp_path: Path) -> None:
    assert repair(tmp_path / "absent") == 0
    save(tmp_path, 1, whole=False)
    assert repair(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_fails_is_named_with_the_room_that_is_left(tmp_path: Path) -> None:
    with (
        pytest.raises(
            CheckpointNotSaved, match=r"in .*, where [\d,]+ MiB are free; .*\(RuntimeError: iostream error\)"
        ),
        saving(tmp_path),
    ):
        raise RuntimeError("a stack\niostream error")
    with saving(tmp_path):
        pass


@pytest.mark.parametrize(("keep", "left"), [(1, [10]), (2, [9, 10]), (9, [2, 9, 10])])
def test_the_newest_checkpoints_are_kept_and_what_is_being_written_is_let_be(
    tmp_path: Path, keep: int, left: list[int]
) -> None:
    for step in (2, 9, 10):
        save(tmp_path, step)
    unfinished = save(tmp_path, 11, whole=False)
    prune(tmp_path, keep)
    assert complete_steps(tmp_path) == left
    assert unfinished.is_dir()
    assert sorted(path.name for path in tmp_path.glob("global_step_*")) == sorted(
        f"global_step_{step}" for step in [*left, 11]
    )
