"""Cleaned trajectories between reading and writing, on the disk: the order of the output is known only at the end."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any


class RowStore:
    """A list of values in a temporary file; only their places are in memory. Used as a context manager.

    Args:
        folder: Where the file lives; it has no name and is gone when the store is closed or the process dies.
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed in __exit__
        self._starts: list[int] = []
        self._end = 0

    def __len__(self) -> int:
        return len(self._starts)

    def append(self, value: Any) -> None:
        """Add a value; all are added before the first is read."""
        self._starts.append(self._end)
        self._end += self._file.write(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))

    def __getitem__(self, index: int) -> Any:
        self._file.seek(self._starts[index])
        return pickle.load(self._file)

    def __enter__(self) -> RowStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
