"""What every loader makes: documents with sections, or a reason why a row holds none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from venus_env.corpus.errors import CorpusError
from venus_env.corpus.text import leading_words, scrub

# Reserved by RFC 2606: looks like any address, leads nowhere, and says nothing about the machine that built the index.
URL_BASE = "https://corpus.invalid/"
_TITLE_WORDS = 12
# NUL and its kin come out of PDFs and broken exports. Line breaks and tabs stay; U+FFFE is PDFium's soft hyphen.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of a document under one heading; paragraphs are separated by blank lines."""

    heading: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document before it is split into passages.

    Attributes:
        id: Unique in its corpus.
        url: Address of its page.
        title: Never blank.
        sections: At least one, in reading order, each with text.
        date: Date of publication as written in the source, if any.
        source: Where the text comes from, if stated.
    """

    id: str
    url: str
    title: str
    sections: tuple[Section, ...]
    date: str | None = None
    source: str | None = None


class BadInput(ValueError):
    """A row or file that holds no usable document; the message is the reason, without the place."""


class MissingExtra(CorpusError):
    """A loader needs a library that is not installed; the message has the pip line."""

    def __init__(self, what: str, library: str) -> None:
        super().__init__(f'{what} needs {library}, which is not installed: pip install "venus-research[corpus]"')


def clean(text: str) -> str:
    """Make text storable and printable: lone surrogates and control characters are replaced, line ends unified."""
    return _CONTROLS.sub(" ", scrub(text)).replace("\r\n", "\n").replace("\r", "\n")


def make_document(
    id: str,
    url: str,
    title: str,
    sections: list[Section],
    date: str | None = None,
    source: str | None = None,
) -> Document:
    """Clean all texts, leave out empty sections, and take the first words as title where there is none.

    Raises:
        BadInput: Nothing is left.
    """
    cleaned = [
        Section(clean(part.heading).strip() or None if part.heading else None, clean(part.text).strip())
        for part in sections
    ]
    kept = tuple(part for part in cleaned if part.text)
    if not kept:
        raise BadInput("holds no text")
    title = " ".join(clean(title).split()) or leading_words(kept[0].text, _TITLE_WORDS)
    return Document(clean(id), clean(url), title, kept, clean(date) if date else None, source)


def local_url(base: str, name: str) -> str:
    """Give the address of something that has none of its own: the base and its name, percent-encoded."""
    return base.rstrip("/") + "/" + quote(name.encode("utf-8", "surrogateescape"), safe="/")


def front_matter(text: str) -> tuple[dict[str, str], str]:
    """Split the ``key: value`` lines between two ``---`` at the head of a text from the rest."""
    match = re.match(r"\s*---[ \t]*\n(.*?)\n---[ \t]*(?:\n|$)", text, re.DOTALL)
    if match is None:
        return {}, text
    pairs = (line.partition(":") for line in match[1].splitlines() if not line[:1].isspace())
    fields = {key.strip().lower(): value.strip().strip("\"'") for key, colon, value in pairs if colon}
    return {key: value for key, value in fields.items() if value}, text[match.end() :]
