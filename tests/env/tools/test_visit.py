from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.env.tools.conftest import ROWS
from venus_env.corpus import open_corpus
from venus_env.corpus.build import build_index
from venus_env.corpus.local import LocalCorpus
from venus_env.corpus.text import tokens_by_words
from venus_env.tasks.loaders import load_tasks
from venus_env.tools import Tool, ToolError, VisitTool
from venus_env.tools.arguments import VisitArguments
from venus_env.tools.visit import rank_sentences

OSLO = "https://venus.wiki/oslo"
LONG = "https://venus.wiki/long"


def read(goal: str, *urls: str) -> VisitArguments:
    return VisitArguments(url=list(urls), goal=goal)


async def test_frame_of_the_method(corpus: LocalCorpus) -> None:
    tool: Tool = VisitTool(corpus)
    result = await tool(read("where the harbour lies", OSLO))
    assert result.text == (
        "The useful information in https://venus.wiki/oslo for user goal where the harbour lies as follows: \n\n"
        "Evidence in page: \n"
        "Oslo is the capital of Norway. Its harbour lies at the end of a long fjord.\n\n"
        "Summary: \nIts harbour lies at the end of a long fjord.\n\n"
    )
    assert result.ok
    assert result.urls == (OSLO,)


async def test_compact_layout_and_several_urls(corpus: LocalCorpus) -> None:
    result = await VisitTool(corpus, style="compact")(read("x", OSLO, "https://venus.wiki/nowhere"))
    assert result.text == (
        "Oslo\nOslo is the capital of Norway. Its harbour lies at the end of a long fjord."
        "\n=======\n"
        "https://venus.wiki/nowhere\nThis page could not be accessed: no page has this url. "
        "Copy a url exactly as a search result shows it."
    )
    assert result.ok
    assert result.urls == (OSLO,)


async def test_evidence_fits_the_budget_matches_the_goal_and_keeps_page_order(corpus: LocalCorpus) -> None:
    result = await VisitTool(corpus, max_tokens=30, style="compact")(read("who found the buried treasure", LONG))
    title, first, second = result.text.split("\n")
    assert title == "Long"
    assert "The treasure was buried in Bergen." in first
    assert second == "The treasure was found by Ada in 1999."
    assert tokens_by_words(first.replace("[...]", "")) + tokens_by_words(second) <= 30


async def test_sentence_over_the_budget_is_cut(corpus: LocalCorpus) -> None:
    result = await VisitTool(corpus, max_tokens=4, style="compact")(read("treasure found by Ada", LONG))
    evidence = result.text.split("\n")[1]
    assert evidence.endswith(" [...]")
    assert "The treasure was found".startswith(evidence.removesuffix(" [...]"))


async def test_an_injected_counter_decides(corpus: LocalCorpus) -> None:
    result = await VisitTool(corpus, max_tokens=31, style="compact", count_tokens=len)(read("capital", OSLO))
    assert result.text == "Oslo\nOslo is the capital of Norway."


@settings(max_examples=40, deadline=None)
@given(goal=st.text(max_size=30), budget=st.integers(1, 400))
async def test_evidence_is_verbatim_and_in_order(corpus: LocalCorpus, goal: str, budget: int) -> None:
    text = (await VisitTool(corpus, max_tokens=budget)(read(goal, LONG))).text
    evidence = text.split("Evidence in page: \n", 1)[1].split("\n\nSummary: \n")[0]
    page = "\n".join(text for name, _, text, _ in ROWS if name == "long")
    position = 0
    for piece in evidence.replace("\n", " [...] ").split(" [...]"):
        position = page.index(piece.strip(), position) + len(piece.strip())


async def test_all_unknown_is_not_ok_and_limits_are_named(corpus: LocalCorpus) -> None:
    missing = await VisitTool(corpus)(read("g", "https://venus.wiki/nowhere"))
    assert not missing.ok
    assert missing.text.startswith("The useful information in https://venus.wiki/nowhere for user goal g as follows:")
    assert "could not be accessed" in missing.text
    limited = await VisitTool(corpus, max_urls=1)(read("g", OSLO, LONG))
    assert "a call takes at most 1 urls" in limited.text
    assert limited.urls == (OSLO,)


async def test_failing_corpus_is_a_tool_error(corpus: LocalCorpus, tmp_path: Path) -> None:
    class Failing(LocalCorpus):
        async def page(self, url: str) -> None:
            raise OSError("disk gone")

    shutil.copytree(corpus.directory, tmp_path / "index")
    with pytest.raises(ToolError, match=r"visit failed on 'https://venus\.wiki/oslo': OSError: disk gone"):
        await VisitTool(Failing(tmp_path / "index"))(read("g", OSLO))


def test_rare_goal_words_weigh_more_and_the_earlier_sentence_wins_ties() -> None:
    texts = ["Oslo is big.", "Oslo has a fjord.", "Oslo is old.", "Rivers run."]
    assert rank_sentences(texts, "the fjord of Oslo") == [1, 0, 2, 3]
    assert rank_sentences(texts, "unrelated") == [0, 1, 2, 3]
    assert rank_sentences(texts, "river running") == [3, 0, 1, 2]


def test_names_and_settings(corpus: LocalCorpus) -> None:
    assert VisitTool.name == "visit"
    assert VisitTool.aliases == ("browse",)
    with pytest.raises(ValueError, match="max_tokens must be at least 1"):
        VisitTool(corpus, max_tokens=0)
    with pytest.raises(ValueError, match="style must be"):
        VisitTool(corpus, style="html")  # type: ignore[arg-type]


def test_a_sentence_counts_what_its_paragraph_names() -> None:
    texts = ["Oslo is a city.", "It lies on a fjord.", "Lyon is a city.", "It lies on two rivers."]
    assert rank_sentences(texts, "where Lyon lies") == [2, 1, 3, 0]
    assert rank_sentences(texts, "where Lyon lies", [0, 0, 1, 1]) == [2, 3, 1, 0]
    assert rank_sentences(texts, "where Oslo lies", [0] * 4) == rank_sentences(texts, "where Oslo lies")


async def test_pages_of_the_world_show_what_a_sub_question_needs(tmp_path: Path) -> None:
    world = open_corpus("embedded", tmp_path)
    tool = VisitTool(world, max_tokens=300)
    shown = []
    for task in load_tasks("embedded", "test")[::25]:
        for item in task.evidence:
            assert item.url is not None
            text = (await tool(read(f"{item.relation} of {item.title}", item.url))).text
            shown.append(item.sentence is not None and item.sentence in text)
    assert len(shown) > 30
    assert sum(shown) / len(shown) >= 0.95


async def test_a_very_long_page_is_read_beside_others(tmp_path: Path) -> None:
    rows = [
        {
            "id": "long",
            "url": "https://a/long",
            "title": "Long",
            "text": "Nothing of it. " * 20_000 + "Ada found gold.",
        },
        {"id": "short", "url": "https://a/short", "title": "Short", "text": "Ada lived."},
    ]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_index(tmp_path / "pages.jsonl", tmp_path / "index")
    tool = VisitTool(LocalCorpus(tmp_path / "index"), max_tokens=10, style="compact")
    result = await tool(read("who found gold", "https://a/long", "https://a/short"))
    assert result.text.endswith("Ada found gold.\n=======\nShort\nAda lived.")
