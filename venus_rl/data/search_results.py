r"""Printed search results → the JSON that the agent's search tool answers with.

A printed result reads ``A Google search for 'q' found 2 results:``, ``## Web Results`` and numbered Markdown links with
their snippets; the parts for several queries are joined by a line of ``=======``.
"""

from __future__ import annotations

import json
import re
from typing import Any

_HEADER = re.compile(r"^A Google search for (.+?) found \d+ results:$")
_NOTHING = re.compile(r"^No results(?: found)? for (.+?)\. ")
_RESULT = re.compile(r"^\d+\.\s+(?=\[)")
_DATE = re.compile(r"^Date\s+(?:published|updated)\s*:\s*", re.IGNORECASE)
_SEPARATOR = "======="


def parse_search_results(text: str, *, reference: bool = False) -> str:
    """Turn printed results into JSON: ``[{query, web_page_info_list: [{title, url, snippet}]}]``.

    A part without results becomes a record whose ``message`` says what stood there, as our search tool writes it. Text
    that holds no printed results at all is returned as it is.

    Args:
        text: Content of a tool response.
        reference: Reproduce the reference: the separator and messages about other queries end up in the snippet above
            them, and text without results becomes an empty list.
    """
    text = text.replace("<tool_response>", "").replace("</tool_response>", "").strip()
    records: list[dict[str, Any]] = []
    for header, lines in _blocks([line.strip() for line in text.splitlines()], split=not reference):
        if header or reference:
            records.append({"query": _query(header), "web_page_info_list": _results(lines)})
        elif message := "\n".join(lines).strip():
            nothing = _NOTHING.match(message)
            query = _unquoted(nothing[1]) if nothing else ""
            records.append({"query": query, "web_page_info_list": [], "message": message})
    if not reference and not any("message" not in record for record in records):
        return text
    return json.dumps(records, ensure_ascii=False)


def _blocks(lines: list[str], split: bool) -> list[tuple[str, list[str]]]:
    """Headers with the lines below them; with ``split`` also the parts between separators, under an empty header."""
    # There are thousands of lines: those that may begin a block are picked out first.
    starts = [n for n, line in enumerate(lines) if line.startswith("A Google") and _HEADER.match(line)]
    headers = set(starts)
    if split:
        starts = sorted(starts + [n for n, line in enumerate(lines) if line == _SEPARATOR])
    elif not starts:
        return [("", lines)]
    blocks = [("", lines[: starts[0]] if starts else lines)] if split else []
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        blocks.append((lines[start] if start in headers else "", lines[start + 1 : end]))
    return blocks


def _query(header: str) -> str:
    match = _HEADER.match(header)
    return _unquoted(match[1].strip()) if match else ""


def _unquoted(query: str) -> str:
    return query[1:-1] if len(query) >= 2 and query[0] == query[-1] and query[0] in "'\"" else query


def _results(lines: list[str]) -> list[dict[str, str]]:
    if "## Web Results" in lines:
        lines = lines[lines.index("## Web Results") + 1 :]
    starts = [n for n, line in enumerate(lines) if line[:1].isdigit() and _RESULT.match(line)]
    results = []
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        link = _link(lines[start])
        if link is not None:
            title, url, rest = link
            results.append({"title": title, "url": url, "snippet": _snippet([rest, *lines[start + 1 : end]])})
    return results


def _snippet(lines: list[str]) -> str:
    """Lines of a result without those on dates that lead it, and without blank ones."""
    start = next((index for index, line in enumerate(lines) if line), len(lines))
    while start < len(lines) and _DATE.match(lines[start]):
        start += 1
    return "\n".join(line for line in lines[start:] if line)


def _link(line: str) -> tuple[str, str, str] | None:
    """Title, url and what follows of ``1. [title](url) …``; brackets may be nested. None without a title or url."""
    prefix = _RESULT.match(line)
    if prefix is None:
        return None
    closed = _closing(line, prefix.end(), "[]")
    if closed is None or line[closed + 1 : closed + 2] != "(":
        return None
    ended = _closing(line, closed + 1, "()")
    if ended is None:
        return None
    title, url = line[prefix.end() + 1 : closed].strip(), line[closed + 2 : ended].strip()
    return (title, url, line[ended + 1 :].strip()) if title and url else None


def _closing(line: str, start: int, pair: str) -> int | None:
    """Position of the bracket that closes the one at ``start``."""
    closed = line.find(pair[1], start)
    if line.find(pair[0], start + 1, closed) < 0:  # nothing nested, nearly always
        return closed if closed >= 0 else None
    depth = 0
    for index in range(start, len(line)):
        depth += (line[index] == pair[0]) - (line[index] == pair[1])
        if depth == 0:
            return index
    return None
