"""BM25 by tantivy: an inverted index on disk, written in bounded memory and read where a query needs it.

Its BM25 is Lucene's form with k1 1.2 and b 0.75, which cannot be changed, and passage lengths rounded to one byte.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tantivy

from venus_env.corpus.lexical import inverse_document_frequency

# What the writer may hold before it writes a segment.
HEAP_BYTES = 128_000_000
_TERMS = "terms"
_ROW = "row"
# The library drops terms of more than 65,530 bytes; a character has up to four.
_TERM_CHARACTERS = 16_000


class TantivyWriter:
    """Streams passages into segments on disk; ``close`` completes them."""

    def __init__(self, folder: Path, heap_bytes: int = HEAP_BYTES) -> None:
        folder.mkdir()
        self._folder = folder
        schema = tantivy.SchemaBuilder()
        # Terms hold no blanks, so splitting at blanks gives them back as they are.
        schema.add_text_field(_TERMS, tokenizer_name="whitespace", index_option="freq")
        schema.add_unsigned_field(_ROW, fast=True)
        # With several threads, which rows share a segment would be left to chance.
        self._writer = tantivy.Index(schema.build(), str(folder)).writer(heap_size=heap_bytes, num_threads=1)
        self._rows = 0

    def add(self, terms: Sequence[str]) -> None:
        """Append one passage, given its terms."""
        document = tantivy.Document()
        document.add_text(_TERMS, " ".join(map(_cut, terms)))
        document.add_unsigned(_ROW, self._rows)
        with _io_errors(self._folder):
            self._writer.add_document(document)
        self._rows += 1

    def close(self) -> None:
        """Write the last segment and wait until those that are being merged are there."""
        with _io_errors(self._folder):
            self._writer.commit()
            self._writer.wait_merging_threads()
        for lock in self._folder.glob(".*.lock"):
            lock.unlink()
        mode = self._folder.stat().st_mode & 0o666
        for path in self._folder.iterdir():  # the library makes some for their owner alone
            path.chmod(mode)


class TantivyIndex:
    """Looks a query's terms up in memory-mapped posting lists."""

    def __init__(self, folder: Path) -> None:
        # Opening takes a lock file in its folder and watches the folder for changes. In a folder of links it neither
        # touches the index nor needs the right to write there. The files are mapped by the time that their names go;
        # the watcher may just be taking its lock again, hence the errors to ignore.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as links:
            for path in folder.iterdir():
                (Path(links) / path.name).symlink_to(path.absolute())
            with _io_errors(folder):
                index = tantivy.Index.open(links)
                index.config_reader(reload_policy="manual")
                self._searcher = index.searcher()
        self._schema = index.schema

    def rarity(self, terms: Sequence[str]) -> npt.NDArray[np.float64]:
        """Inverse document frequency of terms (Lucene's form); the highest there is for a term that no row has."""
        held = [self._searcher.doc_freq(_TERMS, _cut(term)) for term in terms]
        return inverse_document_frequency(held, self._searcher.num_docs)

    def rank_terms(self, terms: Sequence[str], limit: int) -> npt.NDArray[np.int64]:
        """Return up to ``limit`` rows that hold one of the terms, best first, the earlier row on ties."""
        query, rows = self._query(terms), self._searcher.num_docs
        asked = min(limit, rows)
        while True:
            hits = self._searcher.search(query, asked + 1, count=False).hits
            # The library cuts ties by segment: ask for more until the last hit is worse than the last one wanted.
            if len(hits) <= asked or hits[-1][0] < hits[limit - 1][0]:
                break
            asked = min(4 * asked, rows)
        scores = np.array([score for score, _ in hits], dtype=np.float32)
        found = np.array(self._searcher.fast_field_values(_ROW, [place for _, place in hits]), dtype=np.int64)
        return found[np.lexsort((found, -scores))[:limit]]

    def _query(self, terms: Sequence[str]) -> tantivy.Query:
        clauses = []
        for term, times in Counter(map(_cut, terms)).items():
            clause = tantivy.Query.term_query(self._schema, _TERMS, term, index_option="freq")
            if times > 1:  # only then: without a boost the library skips blocks that cannot reach the top
                clause = tantivy.Query.boost_query(clause, float(times))
            clauses.append((tantivy.Occur.Should, clause))
        return tantivy.Query.boolean_query(clauses)


@contextmanager
def _io_errors(folder: Path) -> Iterator[None]:
    """Give the library's errors, which are all ValueErrors, the class of what they are about: files."""
    try:
        yield
    except ValueError as error:
        raise OSError(f"{folder}: {error}") from error


def _cut(term: str) -> str:
    return term[:_TERM_CHARACTERS]
