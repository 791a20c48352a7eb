"""From an input to its format and its chunks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from venus_env.corpus.errors import CorpusError
from venus_env.corpus.loaders.chunk import Chunk
from venus_env.corpus.loaders.document import BadInput
from venus_env.corpus.loaders.files import KINDS, file_chunks, is_document
from venus_env.corpus.loaders.jsonl import line_chunks
from venus_env.corpus.loaders.layouts import LAYOUTS, layout_of
from venus_env.corpus.loaders.parquet import parquet_columns, row_group_chunks
from venus_env.corpus.loaders.source import SourceFile, digest_of, find_files, first_lines, hash_files
from venus_env.corpus.rows import READ_ERRORS, parse_row

AUTO = "auto"
FILES = "files"
FORMATS = (AUTO, *LAYOUTS, FILES)

_LINES = re.compile(r"\.jsonl(\.gz)?$|(^|/)wiki_\d+(\.gz)?$")  # WikiExtractor's files have no suffix
_PROBED_LINES = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """How an input will be read.

    Attributes:
        name: Name of the input, without the folders above it.
        format: One of ``FORMATS``, not ``auto``.
        files: Its files, in the order in which they are read.
        ignored: Files of other kinds, counted by suffix.
    """

    name: str
    format: str
    files: list[SourceFile]
    ignored: Counter[str]

    @property
    def digest(self) -> str:
        """Hash of the input."""
        return digest_of(self.files)

    def chunks(self, url_base: str) -> Iterator[Chunk]:
        """Cut the input into chunks, always the same."""
        if self.format == FILES:
            yield from file_chunks(self.files, url_base)
            return
        for file in self.files:
            cut = row_group_chunks if file.name.endswith(".parquet") else line_chunks
            yield from cut(file, self.format, url_base)


def plan_input(source: Path, format: str = AUTO) -> Plan:
    """Look at an input and decide how to read it.

    A folder with ``corpus.jsonl`` is BEIR's: the queries beside it are not read. Else a folder holds either documents
    (HTML, Markdown, PDF, text) or rows (JSON lines, parquet); where it holds both, the format must be given. The layout
    of rows is told by the keys of the first one.

    Raises:
        CorpusError: There is no such input, or its format cannot be told.
    """
    if format not in FORMATS:
        raise CorpusError(f"no format {format!r}; formats are {', '.join(FORMATS)}")
    if not source.exists():
        raise CorpusError(f"{source}: no such file or folder; give passages, documents, or a folder of them")
    found = find_files(source)
    rows, documents = _rows(found), [(name, path) for name, path in found if is_document(path)]
    if format == FILES or (format == AUTO and documents and not rows):
        kept, format = documents, FILES
    elif format == AUTO and documents and rows:
        raise CorpusError(
            f"{source}: holds documents ({documents[0][0]}) and rows ({rows[0][0]}); say which to read: "
            f"format {FILES!r}, or one of {', '.join(LAYOUTS)}"
        )
    else:
        kept = rows
        format = _layout(rows) if format == AUTO and rows else format
    if not kept:
        raise CorpusError(
            f"{source}: nothing to read; expected .jsonl, .jsonl.gz or .parquet rows, or files that end in "
            f"{', '.join(KINDS)}"
        )
    names = {name for name, _ in kept}
    ignored = Counter(path.suffix or "(none)" for name, path in found if name not in names)
    return Plan(source.resolve().name, format, hash_files(kept), ignored)


def _rows(found: list[tuple[str, Path]]) -> list[tuple[str, Path]]:
    by_name = dict(found)
    for name in ("corpus.jsonl", "corpus.jsonl.gz"):
        if name in by_name:
            return [(name, by_name[name])]
    return [(name, path) for name, path in found if _LINES.search(name) or name.endswith(".parquet")]


def _layout(rows: list[tuple[str, Path]]) -> str:
    """Tell the layout by the first file that can be read."""
    name, path = rows[0]
    try:
        columns = parquet_columns(path) if name.endswith(".parquet") else _keys(path)
    except (BadInput, *READ_ERRORS) as error:
        raise CorpusError(f"{name}: {error}") from error
    layout = layout_of(columns)
    if layout is None:
        raise CorpusError(
            f"{name}: rows with {', '.join(sorted(columns)) or 'no keys'} are of no layout known here; passages have "
            f"id, url, title, text; to force a layout give the format: {', '.join(LAYOUTS)}"
        )
    return layout


def _keys(path: Path) -> frozenset[str]:
    reason = "holds no passage"
    for number, line in enumerate(first_lines(path, _PROBED_LINES), start=1):
        if not line.strip():
            continue
        try:
            return frozenset(parse_row(line))
        except ValueError as error:
            reason = f"line {number}: {error}"
    raise BadInput(reason)
