"""What a judge has said before, in an SQLite file: asking again costs nothing."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any


class VerdictCache:
    """Replies of a judge by the request that they answer. Several processes may use one file.

    Args:
        path: The file; made with its folder if absent.

    Raises:
        OSError: The file cannot be used; the message names it.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._connection = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute("CREATE TABLE IF NOT EXISTS replies (request TEXT PRIMARY KEY, reply TEXT) STRICT")
        except sqlite3.Error as error:
            raise OSError(f"{path} cannot hold a judge's verdicts: {error}; name another file or delete it") from error

    def get(self, request: Any) -> str | None:
        """Reply to an equal request, or None."""
        row = self._connection.execute("SELECT reply FROM replies WHERE request = ?", (_key(request),)).fetchone()
        return None if row is None else str(row[0])

    def put(self, request: Any, reply: str) -> None:
        """Keep a reply; it is on the disk before long, and survives a crash of this process at once."""
        self._connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (_key(request), reply))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _key(request: Any) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
