"""Passages on disk: any row in one read, any page by its url, nothing held in memory but what is asked for."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from venus_env.corpus.document import Page, Passage
from venus_env.corpus.rows import parse_record, stored_line
from venus_env.corpus.text import canonical_url, words

_ROWS = "passages.jsonl"
_OFFSETS = "offsets.npy"
_PAGE_OF = "page_of.npy"
_PAGE_ROWS = "page_rows.npy"
_PAGE_STARTS = "page_starts.npy"
_URL_KEYS = "url_keys.npy"
_URL_PAGES = "url_pages.npy"
_TITLE_KEYS = "title_keys.npy"
_TITLE_PAGES = "title_pages.npy"
_BOTH_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


def _key(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _title_key(title: str) -> int:
    return _key(" ".join(words(title)))


class StoreWriter:
    """Write passages one after another; ``close`` lays down the lookup tables.

    Attributes:
        pages: Number of distinct urls so far.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = (directory / _ROWS).open("wb")
        self._digest = hashlib.sha256()
        self._offsets = [0]
        self._page_of: list[int] = []
        self._page_by_key: dict[int, int] = {}
        self._other_spellings: dict[int, int] = {}
        self._title_keys: list[int] = []
        self.pages = 0

    def add(self, passage: Passage) -> None:
        """Append one passage."""
        line = stored_line(passage)
        self._file.write(line)
        self._digest.update(line)
        self._offsets.append(self._offsets[-1] + len(line))
        exact = _key(passage.url)
        page = self._page_by_key.setdefault(exact, self.pages)
        self._page_of.append(page)
        if page == self.pages:
            self.pages += 1
            # First page wins where two urls are spellings of one another; exact spellings are looked up before these.
            self._other_spellings.setdefault(_key(canonical_url(passage.url)), page)
            self._title_keys.append(_title_key(passage.title))

    def close(self) -> str:
        """Finish the files and return the content hash: SHA-256 over the rows as stored."""
        self._file.close()
        page_of = np.asarray(self._page_of, dtype=np.int32)
        lookup = self._other_spellings | self._page_by_key
        keys = np.fromiter(lookup.keys(), dtype=np.uint64, count=len(lookup))
        pages = np.fromiter(lookup.values(), dtype=np.int32, count=len(lookup))
        order = np.argsort(keys)
        titles = np.asarray(self._title_keys, dtype=np.uint64)
        title_order = np.argsort(titles, kind="stable").astype(np.int32)
        tables: dict[str, npt.NDArray[np.generic]] = {
            _OFFSETS: np.asarray(self._offsets, dtype=np.int64),
            _PAGE_OF: page_of,
            _PAGE_ROWS: np.argsort(page_of, kind="stable").astype(np.int32),
            _PAGE_STARTS: np.concatenate([[0], np.cumsum(np.bincount(page_of))]).astype(np.int64),
            _URL_KEYS: keys[order],
            _URL_PAGES: pages[order],
            _TITLE_KEYS: titles[title_order],
            _TITLE_PAGES: title_order,
        }
        for name, table in tables.items():
            np.save(self._directory / name, table)
        return self._digest.hexdigest()


class PassageStore:
    """Read-only view of what :class:`StoreWriter` wrote; memory-mapped, safe to share between threads and forks.

    Attributes:
        page_of: Page number of every row.
    """

    def __init__(self, directory: Path) -> None:
        with (directory / _ROWS).open("rb") as file:
            self._rows = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._offsets = _table(directory, _OFFSETS)
        self.page_of: npt.NDArray[np.int32] = _table(directory, _PAGE_OF)
        self._page_rows = _table(directory, _PAGE_ROWS)
        self._page_starts = _table(directory, _PAGE_STARTS)
        self._url_keys = _table(directory, _URL_KEYS)
        self._url_pages = _table(directory, _URL_PAGES)
        self._title_keys = _table(directory, _TITLE_KEYS)
        self._title_pages = _table(directory, _TITLE_PAGES)

    def __len__(self) -> int:
        return len(self.page_of)

    def passage(self, row: int) -> Passage:
        """Read one row."""
        return parse_record(json.loads(self._rows[self._offsets[row] : self._offsets[row + 1]]))

    def passages(self) -> Iterator[Passage]:
        """Read all rows in file order."""
        return (self.passage(row) for row in range(len(self)))

    def first_row(self, page: int) -> int:
        """Row with which a page begins."""
        return int(self._page_rows[self._page_starts[page]])

    def titled(self, query: str) -> list[int]:
        """Pages whose whole title is the query, compared word by word, in file order."""
        return self.titled_any([words(query)])[0]

    def titled_any(self, phrases: Sequence[Sequence[str]]) -> list[list[int]]:
        """Do what :meth:`titled` does for many titles, given as words, in one look at the table."""
        keys = np.fromiter((_key(" ".join(phrase)) for phrase in phrases), dtype=np.uint64, count=len(phrases))
        firsts, ends = (np.searchsorted(self._title_keys, keys, side) for side in _BOTH_SIDES)
        found: list[list[int]] = [[] for _ in phrases]
        for place in np.flatnonzero(firsts < ends).tolist():
            pages = self._title_pages[firsts[place] : ends[place]].tolist()
            asked = list(phrases[place])
            # The table holds hashes: what it finds has to be the title asked for.
            found[place] = [page for page in pages if words(self.passage(self.first_row(page)).title) == asked]
        return found

    def page(self, url: str) -> Page | None:
        """Find a page by its url as written, else by another spelling of the same address."""
        canonical = canonical_url(url)
        for spelling in (url, canonical):
            page = self._page_at(spelling)
            # The table holds hashes: what it finds has to be the page asked for.
            if page is not None and (page.url == url or canonical_url(page.url) == canonical):
                return page
        return None

    def _page_at(self, spelling: str) -> Page | None:
        key = np.uint64(_key(spelling))
        place = int(np.searchsorted(self._url_keys, key))
        if place == len(self._url_keys) or self._url_keys[place] != key:
            return None
        number = int(self._url_pages[place])
        rows: Iterable[int] = self._page_rows[self._page_starts[number] : self._page_starts[number + 1]]
        passages = tuple(self.passage(row) for row in rows)
        return Page(passages[0].url, passages[0].title, passages)


def _table(directory: Path, name: str) -> npt.NDArray[np.int32]:
    table: npt.NDArray[np.int32] = np.load(directory / name, mmap_mode="r", allow_pickle=False)
    # A plain ndarray over the map: indexing np.memmap runs Python code for every element.
    return table.view(np.ndarray)
