"""A chunk of input: the unit of work, of resuming, and of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from venus_env.corpus.loaders.document import BadInput, Document


@dataclass(frozen=True, slots=True)
class Found:
    """What stands in one place of the input.

    Attributes:
        file: File name, where a chunk has several; '' where the chunk has one.
        line: Line or row within the chunk, from 1; None for whole files.
        document: The document there, or why there is none.
    """

    file: str
    line: int | None
    document: Document | BadInput


class Chunk(Protocol):
    """A piece of the input that one worker reads alone. Picklable; the same pieces whatever the number of workers."""

    @property
    def file(self) -> str:
        """Name of the file that the chunk is cut from; '' where it is made of whole files."""
        ...

    @property
    def first(self) -> int:
        """Number of rows of the file before this chunk."""
        ...

    def fingerprint(self) -> bytes:
        """Hash of everything that decides which documents come out."""
        ...

    def documents(self) -> Iterator[Found]:
        """Read the chunk, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for the rest of a file that cannot be read."""

    file: str
    first: int
    reason: str

    def fingerprint(self) -> bytes:
        """Hash the reason."""
        return f"unreadable\n{self.file}\n{self.reason}".encode("utf-8", "surrogateescape")

    def documents(self) -> Iterator[Found]:
        """Report the reason in the place of the first row that is lost."""
        yield Found("", 1, BadInput(self.reason))
