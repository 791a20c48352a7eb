"""Files of ``venus.trajectory/1``: JSON lines in UTF-8, one episode a line; ``.jsonl.gz`` is for reading only."""

from __future__ import annotations

import gzip
import json
import logging
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from filelock import FileLock, Timeout
from pydantic import ValidationError

from venus_env.protocol.trajectory import Trajectory

logger = logging.getLogger(__name__)

_SCHEMA = "venus.trajectory/1"
_FIELDS = "a line holds one episode with task, messages, turns and end, as `python -m venus_env rollout` writes it"
_BLOCK = 1 << 20


class TrajectoryFileError(ValueError):
    """A trajectory file that cannot be used; the message names file, line and field, and the fix."""


def read_trajectories(path: str | Path) -> Iterator[Trajectory]:
    """Read a file one episode at a time; blank lines are skipped.

    Raises:
        TrajectoryFileError: There is no such file or its name has another ending (at once); it cannot be read or a
            line is no ``venus.trajectory/1`` (when that line is reached).
    """
    path = Path(path)
    if not path.is_file():
        raise TrajectoryFileError(f"no trajectory file at {path}; give a .jsonl or .jsonl.gz file")
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise TrajectoryFileError(f"cannot tell the format of {path}; its name must end in .jsonl or .jsonl.gz")
    return _read(path)


class TrajectoryWriter:
    """Appends episodes to a ``.jsonl`` file, one line each, flushed at once; used as a context manager.

    Opening a file that a crash has left with half a line at its end drops that half line, and nothing else, and logs
    it. While the writer is open no other writer can open the same file.

    Args:
        path: The file; made with its folder if absent.

    Raises:
        TrajectoryFileError: The name does not end in ``.jsonl``, the file cannot be opened, or another process is
            writing to it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = _lock(self.path)
        try:
            self._file: BinaryIO = self.path.open("a+b")
        except OSError as error:
            self._lock.release()
            raise TrajectoryFileError(f"cannot write to {path}: {error}") from error
        _mend_end(self._file, self.path)

    def append(self, trajectory: Trajectory) -> None:
        """Write one episode; it is in the file when this returns."""
        self._file.write(trajectory.model_dump_json(by_alias=True).encode() + b"\n")
        self._file.flush()

    def sync(self) -> None:
        """Wait until everything written so far is on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; may be called more than once."""
        self._file.close()
        self._lock.release()

    def __enter__(self) -> TrajectoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def replacing_writer(path: str | Path) -> Iterator[TrajectoryWriter]:
    """Write a whole file in one step: ``path`` is replaced when the block ends, and left as it is if the block raises.

    Raises:
        TrajectoryFileError: As for :class:`TrajectoryWriter`.
    """
    target = Path(path)
    with _lock(target), tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        with TrajectoryWriter(Path(folder) / target.name) as writer:
            yield writer
            writer.sync()
        writer.path.replace(target)


def _lock(path: Path) -> FileLock:
    """Take the lock of a file that is to be written."""
    if not path.name.endswith(".jsonl"):
        raise TrajectoryFileError(f"cannot write trajectories to {path}; its name must end in .jsonl")
    lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        if not Path(lock.lock_file).exists():  # filelock gives the same error where it cannot make the file
            raise TrajectoryFileError(f"cannot write to {path}: its folder takes no files") from None
        raise TrajectoryFileError(f"another process is writing to {path}; wait for it, or name another file") from None
    except OSError as error:
        raise TrajectoryFileError(f"cannot write to {path}: {error}") from error
    return lock


def _read(path: Path) -> Iterator[Trajectory]:
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _trajectory(line, f"{path}, line {number}")
    except (OSError, EOFError, zlib.error) as error:
        raise TrajectoryFileError(f"cannot read {path} after line {number}: {error}") from error


def _trajectory(line: bytes, where: str) -> Trajectory:
    try:
        record: Any = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if not line.endswith(b"\n"):
            raise TrajectoryFileError(
                f"{where}: the file breaks off within this line, its writer was interrupted; delete the line, or run "
                "the interrupted `rollout` again, which drops it and goes on"
            ) from error
        raise TrajectoryFileError(f"{where}: not a line of JSON in UTF-8: {error}; {_FIELDS}") from error
    if not isinstance(record, dict):
        raise TrajectoryFileError(f"{where}: expected an object, not {type(record).__name__}; {_FIELDS}")
    if "schema" not in record:
        raise TrajectoryFileError(f"{where}: field 'schema' is missing; it must be {_SCHEMA!r}: {_FIELDS}")
    if record["schema"] != _SCHEMA:
        raise TrajectoryFileError(f"{where}: field 'schema' is {record['schema']!r}; this reader knows {_SCHEMA}")
    try:
        trajectory = Trajectory.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise TrajectoryFileError(f"{where}: field {field!r}: {first['msg']}; {_FIELDS}") from error
    for turn in trajectory.turns:
        if not 0 <= turn.message_index < len(trajectory.messages):
            raise TrajectoryFileError(
                f"{where}: field 'turns.{turn.index}.message_index' is {turn.message_index}, but there are "
                f"{len(trajectory.messages)} messages; {_FIELDS}"
            )
    return trajectory


def _mend_end(file: BinaryIO, path: Path) -> None:
    """Make sure that the file ends after a whole line, so that the next one starts at its beginning."""
    size = file.seek(0, os.SEEK_END)
    start = _last_line_start(file, size)
    if start == size:
        return
    file.seek(start)
    last = file.read()
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        file.truncate(start)
        logger.warning("%s: dropped half a line of %d bytes at its end, left by an interrupted writer", path, len(last))
    else:  # a whole line that only lacks its line end
        file.write(b"\n")


def _last_line_start(file: BinaryIO, size: int) -> int:
    """Position after the last line end."""
    end = size
    while end > 0:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
