"""HTML: the main content of a page, without navigation, advertisements and the like."""

from __future__ import annotations

import logging
import re

from venus_env.corpus.loaders.decode import decode
from venus_env.corpus.loaders.document import BadInput, MissingExtra, Section, front_matter
from venus_env.corpus.loaders.markdown import markdown_sections

_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_HEAD_BYTES = 4096
# Finding the main content takes seconds per megabyte; above this size all visible text is taken.
_EXTRACT_CHARACTERS = 1_000_000
# Only dates that the page states in its head: a date guessed from the text misleads, and would depend on today's.
_DATES = {"extensive_search": False, "original_date": True, "max_date": "2100-01-01"}
# Elements that only an end tag closes. Parsers take time with the square of the depth: 200,000 levels are hours.
_NESTING = re.compile(
    r"<(/?)(?:div|span|section|ul|ol|table|blockquote|font|center|a|b|i|em|strong)[\s>/]", re.IGNORECASE
)
_MAX_DEPTH = 5000
_INVISIBLE = ["script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form", "svg"]


def html_sections(data: bytes) -> tuple[dict[str, str], list[Section]]:
    """Read a page.

    Returns:
        ``title`` and ``date`` where the page states them, and its sections.

    Raises:
        BadInput: It is nested beyond reason.
    """
    declared = _CHARSET.search(data[:_HEAD_BYTES])
    page = decode(data, declared[1].decode("ascii") if declared else None)
    if _depth(page) > _MAX_DEPTH:
        raise BadInput(f"HTML with elements nested more than {_MAX_DEPTH} deep")
    fields, markdown = _main_content(page) if len(page) <= _EXTRACT_CHARACTERS else ({}, "")
    if not markdown.strip():
        return _visible_text(page)
    title, sections = markdown_sections(markdown)
    return {"title": title} | fields, sections


def _depth(page: str) -> int:
    depth = deepest = 0
    for match in _NESTING.finditer(page):
        depth = max(depth - 1, 0) if match[1] else depth + 1
        deepest = max(deepest, depth)
    return deepest


def _main_content(page: str) -> tuple[dict[str, str], str]:
    try:
        from trafilatura import extract
    except ImportError as error:
        raise MissingExtra("reading HTML", "trafilatura") from error
    # It reports every page without content through logging; what comes of that is decided here.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    found = extract(
        page,
        output_format="markdown",
        with_metadata=True,
        include_comments=False,
        include_links=False,
        include_images=False,
        date_extraction_params=_DATES,
    )
    fields, markdown = front_matter(found or "")
    return {key: fields[key] for key in ("title", "date") if key in fields}, markdown


def _visible_text(page: str) -> tuple[dict[str, str], list[Section]]:
    """All text of a page, for pages that are too short or too large to tell their main content."""
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise MissingExtra("reading HTML", "selectolax") from error
    tree = LexborHTMLParser(page)
    title = tree.css_first("title")
    fields = {"title": title.text().strip()} if title is not None and title.text().strip() else {}
    tree.strip_tags([*_INVISIBLE, "title"])
    lines = (tree.body or tree.root).text(separator="\n").split("\n") if tree.root is not None else []
    return fields, [Section(None, "\n".join(line.strip() for line in lines if line.strip()))]
