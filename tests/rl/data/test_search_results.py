from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rl.data.vectors import DEFECTS, search_results
from venus_rl.data.search_results import parse_search_results

VECTORS = search_results()


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_the_reference_on_its_vectors(vector: dict[str, Any]) -> None:
    made = json.loads(parse_search_results(vector["input"]["raw_text"], reference=True))
    assert made == vector["output"]["sft_cleaner"]


@pytest.mark.parametrize("vector", [v for v in VECTORS.values() if v["id"] not in DEFECTS], ids=lambda v: v["id"])
def test_equal_where_the_reference_is_right(vector: dict[str, Any]) -> None:
    assert json.loads(parse_search_results(vector["input"]["raw_text"])) == vector["output"]["sft_cleaner"]


def items(name: str) -> list[Any]:
    return list(json.loads(parse_search_results(VECTORS[name]["input"]["raw_text"])))


def test_the_separator_stays_out_of_snippets() -> None:
    first, second = items("two_queries")
    assert first["web_page_info_list"][0]["snippet"] == "Source: A\nsnippet a"
    assert second["query"] == "q2"


def test_messages_stay_messages() -> None:
    found, nothing = items("mixed_ok_and_none")
    assert found["web_page_info_list"][0]["snippet"] == "snippet b line1\nline2"
    assert nothing == {
        "query": "q2",
        "web_page_info_list": [],
        "message": "No results found for 'q2'. Try with a more general query.",
    }
    timeout = VECTORS["timeout"]["input"]["raw_text"]
    assert parse_search_results(timeout) == timeout


def test_apostrophes_and_results_without_snippet() -> None:
    (record,) = items("apostrophe_query")
    assert record["query"] == "what's new"
    text = (
        "A Google search for 'q' found 2 results:\n\n## Web Results\n1. [A](u1)\n2. [B](u2)\n\ns\n3. [](u3)\n4. [C] u4"
    )
    (record,) = json.loads(parse_search_results(text))
    assert [(r["url"], r["snippet"]) for r in record["web_page_info_list"]] == [("u1", ""), ("u2", "s")]
