"""Which files an input consists of, and whether they are still the same."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tqdm import tqdm

from venus_env.corpus.errors import CorpusError
from venus_env.corpus.rows import file_sha256

UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of an input.

    Attributes:
        name: Path below the input folder with ``/``, or the name of the input file; never a path of this machine.
        path: Where it lies.
        bytes: Size when it was hashed.
        mtime_ns: Time of its last change then.
        sha256: Hash of its content, or ``UNREADABLE``.
    """

    name: str
    path: Path
    bytes: int
    mtime_ns: int
    sha256: str


def find_files(source: Path) -> list[tuple[str, Path]]:
    """List the files of an input by name: the file itself, or all files below a folder.

    Hidden files and folders are left out. Links to files count as files; links to folders are not followed, so that a
    link back to a folder above cannot make the walk endless.
    """
    if not source.is_dir():
        return [(source.name, source)]
    found = []
    for folder, folders, files in os.walk(source, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            if not name.startswith("."):
                path = Path(folder, name)
                found.append((path.relative_to(source).as_posix(), path))
    return sorted(found)


def hash_files(files: list[tuple[str, Path]]) -> list[SourceFile]:
    """Hash files, keeping their order; a file that cannot be read is marked, and reported where it is loaded."""
    hashed = []
    for name, path in tqdm(files, desc="hashing", unit="file", disable=None if len(files) > 1 else True):
        try:
            status = path.stat()
            hashed.append(SourceFile(name, path, status.st_size, status.st_mtime_ns, file_sha256(path)))
        except OSError:
            hashed.append(SourceFile(name, path, 0, 0, UNREADABLE))
    return hashed


def digest_of(files: list[SourceFile]) -> str:
    """Hash an input: for a single file the hash of its bytes, else that of all names and contents."""
    if len(files) == 1:
        return files[0].sha256
    named = "".join(f"{file.name}\0{file.sha256}\n" for file in files)
    return hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()


def check_unchanged(files: list[SourceFile]) -> None:
    """Make sure that what was read is what was hashed.

    Raises:
        CorpusError: A file changed meanwhile.
    """
    for file in files:
        if file.sha256 == UNREADABLE:
            continue
        try:
            status = file.path.stat()
            same = (status.st_size, status.st_mtime_ns) == (file.bytes, file.mtime_ns)
        except OSError:
            same = False
        if not same:
            raise CorpusError(f"{file.name}: changed while it was being read; build again once it is complete")


def open_rows(path: Path) -> IO[bytes]:
    """Open a file of lines, gzipped or not."""
    return io.BufferedReader(gzip.open(path)) if path.name.endswith(".gz") else path.open("rb")


def first_lines(path: Path, limit: int) -> Iterator[bytes]:
    """Give the first lines of a file, cut where they are very long."""
    with open_rows(path) as rows:
        for _ in range(limit):
            line = rows.readline(64 * 2**20)
            if not line:
                return
            yield line
