"""Markdown: headings become sections, the rest plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from venus_env.corpus.loaders.document import MissingExtra, Section

if TYPE_CHECKING:
    from markdown_it.token import Token

_INLINE = {"softbreak": " ", "hardbreak": "\n", "html_inline": ""}
_TAG = re.compile(r"<!--.*?-->|</?[a-zA-Z][^>]*>", re.DOTALL)


def markdown_sections(text: str) -> tuple[str, list[Section]]:
    """Split Markdown at its headings.

    Returns:
        The text of the first heading of the first level ('' if there is none), and the sections. That heading names no
        section, since it is the title; other headings are named together with those above them.
    """
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingExtra("reading Markdown and HTML", "markdown-it-py") from error
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    title = ""
    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    blocks: list[str] = []
    for kind, level, content in _blocks(tokens):
        if kind != "heading":
            # Items of one list and rows of one table belong together; other blocks are paragraphs.
            close = kind in ("item", "row") and blocks and blocks[-1] != ""
            blocks += [content] if close else ["", content]
            continue
        sections.append(Section(" > ".join(name for _, name in path) or None, "\n".join(blocks)))
        blocks = []
        path = [step for step in path if step[0] < level]
        if level == 1 and not title:
            title = content
        else:
            path.append((level, content))
    sections.append(Section(" > ".join(name for _, name in path) or None, "\n".join(blocks)))
    return title, sections


def _blocks(tokens: Sequence[Token]) -> Iterator[tuple[str, int, str]]:
    """Give the blocks of a document as kind (heading, paragraph, item, row), heading level, and text."""
    kind, level = "paragraph", 0
    cells: list[str] = []
    for token in tokens:
        if token.type == "heading_open":
            kind, level = "heading", int(token.tag[1:])
        elif token.type == "list_item_open":
            kind = "item"
        elif token.type == "tr_open":
            kind, cells = "row", []
        elif token.type == "tr_close":
            yield "row", 0, " | ".join(cells)
            kind = "paragraph"
        elif token.type in ("fence", "code_block"):
            yield "paragraph", 0, token.content.rstrip("\n")
        elif token.type == "html_block":
            yield "paragraph", 0, _TAG.sub(" ", token.content).strip()
        elif token.type == "inline":
            text = _inline(token.children or ())
            if kind == "row":
                cells.append(text)
                continue
            yield kind, level, f"- {text}" if kind == "item" else text
            kind = "paragraph"


def _inline(tokens: Sequence[Token]) -> str:
    return "".join(_INLINE.get(token.type, token.content) for token in tokens).strip()
