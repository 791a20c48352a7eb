"""Passages, pages, hits, and the :class:`Corpus` protocol that tools search and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Passage:
    """One row of ``venus.passage/1``; a page is all passages that share a url, in file order.

    Attributes:
        id: Unique in its corpus.
        url: Address of the page that it belongs to.
        title: Title of that page.
        text: The passage itself.
        section: Heading above it, if any.
        date: Date of publication as written in the source, if any.
        source: Where the text comes from, if stated.
    """

    id: str
    url: str
    title: str
    text: str
    section: str | None = None
    date: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage with its retrieval score (higher is better; comparable within one query only)."""

    passage: Passage
    score: float


@dataclass(frozen=True, slots=True)
class Page:
    """All passages of one url, in reading order (never empty)."""

    url: str
    title: str
    passages: tuple[Passage, ...]


@runtime_checkable
class Corpus(Protocol):
    """A searchable, readable collection of pages. Methods are async so that remote corpora fit the same shape.

    Infrastructure trouble (disk, server) raises; "nothing found" is an empty list or None.
    """

    @property
    def content_hash(self) -> str:
        """Hash of the passages; names the corpus in result cards."""
        ...

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most ``k`` hits per query, best first, at most one per page, one list per query in order."""
        ...

    async def page(self, url: str) -> Page | None:
        """Return the page at ``url``, or None when the corpus has no such page."""
        ...

    def unigram_counts(self) -> Mapping[str, int]:
        """Count of every lower-cased word in the corpus: the background model of ``LexicalBelief``."""
        ...
