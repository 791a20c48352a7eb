from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from venus_env.corpus.local import LocalCorpus
from venus_env.tools import SearchTool, Tool, ToolError
from venus_env.tools.arguments import SearchArguments


def ask(*queries: str) -> SearchArguments:
    return SearchArguments(query=list(queries))


async def test_json_layout(corpus: LocalCorpus) -> None:
    tool: Tool = SearchTool(corpus, top_k=1, snippet_words=4, snippets="leading")
    result = await tool(ask("capital of Norway", 'what "gones" means'))
    assert result.text == (
        '[{"query": "capital of Norway", "web_page_info_list": [{"title": "Oslo", "url": "https://venus.wiki/oslo", '
        '"snippet": "Oslo is the capital ...", "date": "2021-05-06"}]}, '
        '{"query": "what \\"gones\\" means", "web_page_info_list": [{"title": "Lyon", '
        '"url": "https://venus.wiki/lyon", "snippet": "Lyon is a city ..."}]}]'
    )
    assert result.ok
    assert result.urls == ("https://venus.wiki/oslo", "https://venus.wiki/lyon")


async def test_compact_layout(corpus: LocalCorpus) -> None:
    result = await SearchTool(corpus, top_k=2, snippet_words=3, style="compact")(ask("Lyon", "?"))
    first, second = result.text.split("\n=======\n")
    assert first.startswith("1. Lyon\nhttps://venus.wiki/lyon\nLyon is a ...\n2. ")
    assert second == "?: No results. Try other or fewer words."
    assert len(first.split("\n")) == 6


async def test_default_snippets_and_non_ascii_text_stay_readable(corpus: LocalCorpus) -> None:
    (record,) = json.loads((await SearchTool(corpus)(ask("fjord é"))).text)
    assert record["query"] == "fjord é"
    assert record["web_page_info_list"][0]["snippet"].endswith("at the end of a long fjord.")
    assert "é" in (await SearchTool(corpus)(ask("fjord é"))).text


async def test_nothing_found_is_said_and_not_ok(corpus: LocalCorpus) -> None:
    result = await SearchTool(corpus)(ask("?!"))
    assert json.loads(result.text) == [
        {"query": "?!", "web_page_info_list": [], "message": "No results. Try other or fewer words."}
    ]
    assert not result.ok
    assert result.urls == ()


async def test_queries_over_the_limit_are_named(corpus: LocalCorpus) -> None:
    records = json.loads((await SearchTool(corpus, max_queries=2)(ask("Oslo", "Lyon", "Long"))).text)
    assert [bool(record["web_page_info_list"]) for record in records] == [True, True, False]
    assert records[2]["message"] == "Not run: a call takes at most 2 queries."


async def test_failing_corpus_is_a_tool_error(corpus: LocalCorpus, tmp_path: Path) -> None:
    shutil.copytree(corpus.directory, tmp_path / "index")
    broken = LocalCorpus(tmp_path / "index")
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(ToolError, match=r"search failed on .*CorpusDamaged"):
        await SearchTool(broken)(ask("Oslo"))


def test_bad_settings_are_named(corpus: LocalCorpus) -> None:
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        SearchTool(corpus, top_k=0)
    with pytest.raises(ValueError, match="style must be"):
        SearchTool(corpus, style="xml")  # type: ignore[arg-type]


async def test_snippets_follow_the_query_or_the_text(corpus: LocalCorpus) -> None:
    query = "buried in Bergen"
    (hit,) = (await corpus.search([query], 1))[0]
    around = SearchTool(corpus, top_k=1, snippet_words=12)
    leading = SearchTool(corpus, top_k=1, snippet_words=12, snippets="leading")
    assert "treasure was buried in Bergen" in around.snippet(query, hit.passage)
    assert leading.snippet(query, hit.passage).startswith("A long page begins here.")
    for tool in (around, leading):
        (record,) = json.loads((await tool(ask(query))).text)
        assert record["web_page_info_list"][0]["snippet"] == tool.snippet(query, hit.passage)
    compact = SearchTool(corpus, top_k=1, snippet_words=12, style="compact")
    assert (await compact(ask(query))).text.endswith(leading.snippet(query, hit.passage))
    with pytest.raises(ValueError, match="snippets must be"):
        SearchTool(corpus, snippets="middle")  # type: ignore[arg-type]
