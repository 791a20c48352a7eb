"""Layouts of rows: how one JSON object or one parquet row becomes a document."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from typing import Any

from venus_env.corpus.loaders.document import BadInput, Document, Section, front_matter, local_url, make_document
from venus_env.corpus.rows import OPTIONAL, REQUIRED, check_passage

Layout = Callable[[Mapping[str, Any], str], Document]
"""Turns a row into a document, given the base of addresses; raises ``BadInput`` with the reason."""

# MediaWiki's plain-text extracts keep their headings like this.
_WIKI_HEADING = re.compile(r"^(={2,6})\s*(.+?)\s*\1\s*$", re.MULTILINE)


def passages(row: Mapping[str, Any], url_base: str) -> Document:
    """``venus.passage/1``: id, url, title, text; optional section, date, source."""
    passage = check_passage(row)
    section = Section(passage.section, passage.text)
    return Document(passage.id, passage.url, passage.title, (section,), passage.date, passage.source)


def wikipedia(row: Mapping[str, Any], url_base: str) -> Document:
    """Wikipedia extracts: title and text (or extract); id or pageid, url and the like where they are given."""
    title = _text(row, "title")
    text = html.unescape(_text(row, "text", "extract"))
    first, _, rest = text.partition("\n")
    if first.strip() == title.strip():  # WikiExtractor repeats the title above the text
        text = rest
    return make_document(
        _text(row, "id", "pageid", "title"),
        _optional(row, "url", "fullurl", "canonicalurl") or local_url(url_base, title.replace(" ", "_")),
        title,
        wiki_sections(text),
        _optional(row, "date", "timestamp"),
        "wikipedia",
    )


def beir(row: Mapping[str, Any], url_base: str) -> Document:
    """BEIR: _id, text and title (either may be empty), optional metadata.url."""
    id = _text(row, "_id")
    metadata = row.get("metadata")
    url = _optional(metadata, "url") if isinstance(metadata, Mapping) else None
    title = _optional(row, "title") or ""
    return make_document(id, url or local_url(url_base, id), title, [Section(None, _optional(row, "text") or title)])


def browsecomp_plus(row: Mapping[str, Any], url_base: str) -> Document:
    """BrowseComp-Plus: docid, text, url; the text may begin with front matter that has title and date."""
    id = _text(row, "docid")
    fields, text = front_matter(_text(row, "text"))
    title = _optional(row, "title") or fields.get("title", "")
    url = _optional(row, "url") or local_url(url_base, id)
    return make_document(id, url, title, [Section(None, text)], fields.get("date"))


def pyserini(row: Mapping[str, Any], url_base: str) -> Document:
    r"""Pyserini and Search-R1: id and contents, which begin with the title in quotes where there is one."""
    id = _text(row, "id")
    contents = _text(row, "contents")
    first, newline, rest = contents.partition("\n")
    titled = bool(newline) and len(first) > 2 and first[0] == first[-1] == '"'
    title = first[1:-1] if titled else ""
    return make_document(id, local_url(url_base, id), title, [Section(None, rest if titled else contents)])


LAYOUTS: dict[str, Layout] = {
    "passages": passages,
    "wikipedia": wikipedia,
    "beir": beir,
    "browsecomp-plus": browsecomp_plus,
    "pyserini": pyserini,
}
_OTHERS = "_id metadata docid contents extract pageid revid fullurl canonicalurl timestamp"
COLUMNS = frozenset([*REQUIRED, *OPTIONAL, *_OTHERS.split()])
"""Every column that some layout reads."""


def layout_of(columns: frozenset[str]) -> str | None:
    """Name the layout of rows with these columns; None if it is none of ours."""
    if {"revid", "title", "text"} <= columns or {"title", "extract"} <= columns:
        return "wikipedia"
    if columns.issuperset(REQUIRED):
        return "passages"
    for column, name in (("_id", "beir"), ("docid", "browsecomp-plus")):
        if {column, "text"} <= columns:
            return name
    return "pyserini" if {"id", "contents"} <= columns else None


def wiki_sections(text: str) -> list[Section]:
    """Split text at ``== Heading ==`` lines; a heading below another is named with it."""
    sections = []
    path: list[str] = []
    start = 0
    for match in _WIKI_HEADING.finditer(text):
        sections.append(Section(" > ".join(path) or None, text[start : match.start()]))
        level = len(match[1]) - 2
        path = [*path[:level], match[2]]
        start = match.end()
    sections.append(Section(" > ".join(path) or None, text[start:]))
    return sections


def _text(row: Mapping[str, Any], *keys: str) -> str:
    """First of these columns that has a value, as text."""
    found = _optional(row, *keys)
    if found is None:
        raise BadInput(f"{' or '.join(map(repr, keys))} must be a non-blank string; found {sorted(row)}")
    return found


def _optional(row: Mapping[str, Any], *keys: str) -> str | None:
    for key in keys:
        value = row.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is None or value == "":
            continue
        if not isinstance(value, str):
            raise BadInput(f"{key!r} must be a string, got {value!r:.80}")
        if value.strip():
            return value
    return None
