"""Cutting documents into passages: at headings, then paragraphs, then sentences, and inside one only if it must be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from venus_env.corpus.document import Passage
from venus_env.corpus.loaders.document import Document, Section
from venus_env.corpus.text import sentences

DEFAULT_WORDS = 250
_PARAGRAPH = re.compile(r"\n\s*\n")
# A Han or kana character counts as a word, as in text.words; a run without spaces counts once for 64 characters.
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\s\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]{1,64}")


def split_document(document: Document, limit: int | None) -> list[Passage]:
    """Cut a document into passages of at most ``limit`` words, none across a heading.

    Args:
        document: What to cut. Its title, url, date and source go to every passage.
        limit: Words per passage; None leaves a document of one section as it is, under its own id.

    Returns:
        Passages with ids ``<document>#<number>``, from 0.
    """
    if limit is None and len(document.sections) == 1:
        (section,) = document.sections
        return [_passage(document, document.id, section.heading, section.text)]
    pieces = (
        (section.heading, text)
        for section in document.sections
        for text in ([section.text] if limit is None else _cut(section, limit))
    )
    return [_passage(document, f"{document.id}#{number}", *piece) for number, piece in enumerate(pieces)]


def _passage(document: Document, id: str, heading: str | None, text: str) -> Passage:
    return Passage(id, document.url, document.title, text, heading, document.date, document.source)


def _cut(section: Section, limit: int) -> Iterator[str]:
    """Pack paragraphs into passages; a paragraph that is too long is packed sentence by sentence."""
    packed: list[str] = []
    size = 0
    for paragraph in _PARAGRAPH.split(section.text):
        # A very long paragraph need not be counted to know that it is too long.
        length = _length(paragraph) if len(paragraph) <= 64 * limit else limit + 1
        if packed and size + length > limit:
            yield "\n\n".join(packed)
            packed, size = [], 0
        if length > limit:
            yield from _pack_sentences(paragraph, limit)
        elif paragraph.strip():
            packed.append(paragraph.strip())
            size += length
    if packed:
        yield "\n\n".join(packed)


def _pack_sentences(paragraph: str, limit: int) -> Iterator[str]:
    packed: list[str] = []
    size = 0
    for sentence in sentences(paragraph):
        length = _length(sentence)
        if packed and size + length > limit:
            yield " ".join(packed)
            packed, size = [], 0
        if length > limit:
            yield from _chop(sentence, limit)
        else:
            packed.append(sentence)
            size += length
    if packed:
        yield " ".join(packed)


def _chop(sentence: str, limit: int) -> Iterator[str]:
    """Cut where nothing else helps: after every ``limit`` words."""
    starts = [match.start() for match in _TOKEN.finditer(sentence)][::limit]
    for start, end in zip(starts, [*starts[1:], len(sentence)], strict=True):
        yield sentence[start:end].strip()


def _length(text: str) -> int:
    return len(_TOKEN.findall(text))
