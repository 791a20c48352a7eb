from __future__ import annotations

from pathlib import Path

import pytest

from venus_rl.checkpoints import complete_steps, step_folder

pytest.importorskip("verl")

from venus_rl.sft.launch import MarkedCheckpoints


class Handler:
    """verl's checkpoint handler on one process."""

    def __init__(self, root: Path, rank: int) -> None:
        self.default_local_dir, self.rank = str(root), rank

    def load_checkpoint(self) -> int:
        return 7

    def save_checkpoint(self, step: int) -> None:
        folder = step_folder(Path(self.default_local_dir), step)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.pt").write_bytes(b"w")


@pytest.mark.parametrize(("rank", "complete"), [(0, [3, 4]), (1, [])])
def test_one_process_marks_and_prunes(tmp_path: Path, rank: int, complete: list[int]) -> None:
    checkpoints = MarkedCheckpoints(Handler(tmp_path, rank), keep=2)
    for step in (1, 2, 3, 4):
        checkpoints.save_checkpoint(step)
    assert complete_steps(tmp_path) == complete
    assert checkpoints.load_checkpoint() == 7
