"""Vectors of the reference's cleaner, and those that we override on purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[2] / "vectors"

DEFECTS = {
    "ends_on_user": "a conversation without any answer teaches to stop",
    "unparseable_tool_passes": "a call that cannot run teaches to write calls that cannot run",
    "two_queries": "the separator is no part of a snippet",
    "mixed_ok_and_none": "a message about another query is no part of a snippet",
    "timeout": "an error is not an empty result",
    "no_results": "a message is not an empty result",
    "no_snippet_then_next": "a result without snippet swallows the next one",
    "apostrophe_query": "an apostrophe cuts the query off",
}


def cleaning(*functions: str) -> dict[str, dict[str, Any]]:
    """Vectors of some functions of the reference, by id."""
    vectors = json.loads((_FOLDER / "cleaning.json").read_text())["vectors"]
    return {vector["id"]: vector for vector in vectors if vector["fn"] in functions}


def search_results() -> dict[str, dict[str, Any]]:
    return {v["id"]: v for v in json.loads((_FOLDER / "search_result_parse.json").read_text())["vectors"]}
