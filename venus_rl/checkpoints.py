"""Checkpoints of a stage: which of verl's ``global_step_N`` folders are whole, which one is resumed, which are kept.

verl 0.9.1 writes checkpoints in place. A process that dies while it saves, or a full disk, leaves a folder with some of
its files, or a tracker file without a number in it. verl also forgets at a restart which checkpoints it has to remove,
and removes the last good one before the new one can be resumed. So a checkpoint counts once :func:`mark_complete` has
written a list of its files into it; everything without a true list is removed before a stage resumes.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from venus_env.evaluation.card import write_text_atomic

logger = logging.getLogger(__name__)

COMPLETE = "complete.json"
TRACKER = "latest_checkpointed_iteration.txt"  # verl's: the step that it resumes from
_FOLDER = re.compile(r"global_step_(\d+)")


class CheckpointNotSaved(RuntimeError):
    """A checkpoint could not be written; the message names the place and the room that is left there."""


@contextmanager
def saving(root: Path) -> Iterator[None]:
    """Say where a checkpoint failed and how much room there is: of a full disk, torch says ``iostream error``.

    Raises:
        CheckpointNotSaved: Anything went wrong inside of the block.
    """
    try:
        yield
    except Exception as error:
        free = shutil.disk_usage(root).free
        raise CheckpointNotSaved(
            f"no checkpoint could be saved in {root}, where {free / 2**20:,.0f} MiB are free; earlier ones are as they "
            f"were ({type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error).strip() else ''})"
        ) from error


def step_folder(root: Path, step: int) -> Path:
    """Folder of the checkpoint that was saved after ``step``."""
    return root / f"global_step_{step}"


def mark_complete(folder: Path) -> None:
    """Declare that everything belonging to the checkpoint in ``folder`` has been written."""
    files = {str(path.relative_to(folder)): path.stat().st_size for path in _files(folder)}
    write_text_atomic(folder / COMPLETE, json.dumps({"files": files}, indent=1))


def is_complete(folder: Path) -> bool:
    """Whether ``folder`` has been marked and its files still have the sizes they had then."""
    try:
        files = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))["files"]
        return all((folder / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, KeyError):
        return False


def complete_steps(root: Path) -> list[int]:
    """Steps of the whole checkpoints in ``root``, ascending."""
    return sorted(step for step, folder in _folders(root).items() if is_complete(folder))


def repair(root: Path) -> int:
    """Remove what is no whole checkpoint, let verl's tracker name the newest one, and return its step (0: none).

    Call it while nothing else writes to ``root``.
    """
    for step, folder in sorted(_folders(root).items()):
        if not is_complete(folder):
            logger.warning("checkpoint of step %d in %s was never finished: removed", step, root)
            shutil.rmtree(folder)
    steps = complete_steps(root)
    if steps:
        write_text_atomic(root / TRACKER, str(steps[-1]))
    else:
        (root / TRACKER).unlink(missing_ok=True)
    return steps[-1] if steps else 0


def prune(root: Path, keep: int) -> None:
    """Remove all whole checkpoints but the newest ``keep``. Unmarked folders are left alone: one may be being written.

    Args:
        root: Folder of checkpoints.
        keep: At least 1.
    """
    for step in complete_steps(root)[:-keep]:
        shutil.rmtree(step_folder(root, step))


def _folders(root: Path) -> dict[int, Path]:
    named = ((_FOLDER.fullmatch(path.name), path) for path in root.iterdir()) if root.is_dir() else ()
    return {int(match[1]): path for match, path in named if match and path.is_dir()}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != COMPLETE)
