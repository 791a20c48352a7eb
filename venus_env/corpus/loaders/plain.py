"""Plain text files."""

from __future__ import annotations

import re

from venus_env.corpus.loaders.decode import decode
from venus_env.corpus.loaders.document import Section

_BLANK = re.compile(r"\n[ \t]*\n\s*")
_WRAPPED_AT = 50
_HYPHEN = re.compile(r"(?<=[^\W\d_])-\n(?=[a-z])")


def plain_sections(data: bytes) -> list[Section]:
    """Read a text file as one section; hard-wrapped paragraphs are joined into lines."""
    text = decode(data).replace("\r\n", "\n")
    paragraphs = (_joined(paragraph) for paragraph in _BLANK.split(text))
    return [Section(None, "\n\n".join(paragraphs))]


def unwrap(paragraph: str) -> str:
    """Join the lines of a paragraph, words divided by a hyphen included."""
    return " ".join(_HYPHEN.sub("", paragraph).split())


def _joined(paragraph: str) -> str:
    lines = paragraph.strip().split("\n")
    # Lists, poems and tables have short lines: their line breaks mean something.
    wrapped = len(lines) > 1 and all(len(line) >= _WRAPPED_AT for line in lines[:-1])
    return unwrap(paragraph) if wrapped else "\n".join(line.rstrip() for line in lines)
