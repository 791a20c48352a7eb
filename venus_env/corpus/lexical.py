"""Which words rank passages: BM25 over the terms of ``corpus/text.py``, by one of two libraries.

Both index and search the very same terms. What differs is where the work is done: ``docs/retrieval.md`` has the
measurements behind :func:`choose_lexical`.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from venus_env.corpus.errors import CorpusError
from venus_env.corpus.text import TERMS_VERSION, content_words, index_terms, words

LexicalKind = Literal["bm25s", "tantivy"]
AUTO = "auto"
LEXICAL = (AUTO, "bm25s", "tantivy")
# From here on ``auto`` means tantivy: bm25s takes 5 kB a passage to build, 2.5 GB here.
TANTIVY_PASSAGES = 500_000

_FOLDER = "lexical"


class LexicalWriter(Protocol):
    """Takes the terms of passages in row order; ``close`` completes the index."""

    def add(self, terms: Sequence[str]) -> None:
        """Append one passage, given its terms."""
        ...

    def close(self) -> None:
        """Write what is not written yet. Nothing can be added afterwards."""
        ...


class LexicalIndex(Protocol):
    """Ranks rows by BM25. Safe to share between threads."""

    def rarity(self, terms: Sequence[str]) -> npt.NDArray[np.float64]:
        """Inverse document frequency of terms (Lucene's form); the highest there is for a term that no row has."""
        ...

    def rank_terms(self, terms: Sequence[str], limit: int) -> npt.NDArray[np.int64]:
        """Return up to ``limit`` rows that hold one of the terms, best first, the earlier row on ties.

        A term counts as often as it is given.
        """
        ...


def query_terms(query: str) -> list[str]:
    """Terms by which a query searches the index."""
    return index_terms(content_words(words(query)))


def inverse_document_frequency(held: Sequence[int], rows: int) -> npt.NDArray[np.float64]:
    """Lucene's form, from the numbers of rows that hold each term."""
    counts = np.asarray(held, dtype=np.float64)
    return np.log1p((rows - counts + 0.5) / (counts + 0.5))


def choose_lexical(wanted: str, passages: int) -> LexicalKind:
    """Decide which library indexes so many passages.

    Args:
        wanted: ``"bm25s"``, ``"tantivy"``, or ``"auto"``: tantivy from ``TANTIVY_PASSAGES`` on. It depends on nothing
            but the size, so that the same input is indexed alike everywhere.
        passages: Number of passages.

    Raises:
        CorpusError: ``auto`` means tantivy, which is not installed.
    """
    if wanted == "bm25s" or (wanted == AUTO and passages < TANTIVY_PASSAGES):
        return "bm25s"
    if wanted not in LEXICAL:
        raise ValueError(f"lexical: expected one of {', '.join(LEXICAL)}, got {wanted!r}")
    try:
        lexical_name("tantivy")
    except CorpusError as error:
        if wanted == AUTO:
            raise CorpusError(f"{passages} passages: {error}; or build with lexical bm25s (--lexical bm25s)") from error
        raise
    return "tantivy"


def lexical_name(kind: LexicalKind) -> str:
    """Library, format and way to make terms; an index made with others is stale.

    Raises:
        CorpusError: The library is not installed.
    """
    try:
        release = ".".join(importlib.metadata.version(kind).split(".")[:2])
    except importlib.metadata.PackageNotFoundError as error:
        raise CorpusError(
            f'the lexical index needs {kind}, which is not installed: pip install "venus-research[{kind}]"'
        ) from error
    return f"{kind} {release}, terms {TERMS_VERSION}"


def kind_of(name: str) -> LexicalKind:
    """Library of an index, from the name that :func:`lexical_name` gave it."""
    return "tantivy" if name.startswith("tantivy ") else "bm25s"


def lexical_writer(kind: LexicalKind, directory: Path) -> LexicalWriter:
    """Begin the lexical index of a data folder."""
    folder = directory / _FOLDER
    if kind == "tantivy":
        from venus_env.corpus.lexical_tantivy import TantivyWriter

        return TantivyWriter(folder)
    from venus_env.corpus.lexical_bm25s import Bm25sWriter

    return Bm25sWriter(folder)


def open_lexical(kind: LexicalKind, directory: Path) -> LexicalIndex:
    """Open the lexical index of a data folder.

    Raises:
        OSError: Its files are gone or damaged.
    """
    folder = directory / _FOLDER
    if kind == "tantivy":
        from venus_env.corpus.lexical_tantivy import TantivyIndex

        return TantivyIndex(folder)
    from venus_env.corpus.lexical_bm25s import Bm25sIndex

    return Bm25sIndex(folder)
