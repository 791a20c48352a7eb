from __future__ import annotations

from typing import Any

import pytest

from venus_env.corpus.loaders.document import Section
from venus_env.corpus.loaders.layouts import LAYOUTS, layout_of

BASE = "https://corpus.invalid/"


@pytest.mark.parametrize(
    ("row", "layout", "expected"),
    [
        (
            {"id": "a", "url": "https://x/a", "title": "A", "text": "Text.", "section": "S", "date": "2020"},
            "passages",
            ("a", "https://x/a", "A", (Section("S", "Text."),), "2020"),
        ),
        (
            {"id": "12", "revid": "9", "url": "https://x?curid=12", "title": "A&B", "text": "A&B\nAs &lt;b&gt; was."},
            "wikipedia",
            ("12", "https://x?curid=12", "A&B", (Section(None, "As <b> was."),), None),
        ),
        (
            {
                "pageid": 7,
                "title": "New York",
                "extract": "Lead.\n\n== Past ==\nOld.\n=== War ===\nHot.\n== Now ==",
            },
            "wikipedia",
            (
                "7",
                BASE + "New_York",
                "New York",
                (Section(None, "Lead."), Section("Past", "Old."), Section("Past > War", "Hot.")),
                None,
            ),
        ),
        (
            {"_id": "d1", "title": "", "text": "Some words.", "metadata": {"url": "https://x/1"}},
            "beir",
            ("d1", "https://x/1", "Some words.", (Section(None, "Some words."),), None),
        ),
        ({"_id": "d/2", "title": "T", "text": ""}, "beir", ("d/2", BASE + "d/2", "T", (Section(None, "T"),), None)),
        (
            {"docid": "5", "url": "https://x/5", "text": '---\ntitle: "A: b"\ndate: 2018-01-01\n---\nBody.'},
            "browsecomp-plus",
            ("5", "https://x/5", "A: b", (Section(None, "Body."),), "2018-01-01"),
        ),
        (
            {"id": "0", "contents": '"Aaron"\nAaron was a prophet.'},
            "pyserini",
            ("0", BASE + "0", "Aaron", (Section(None, "Aaron was a prophet."),), None),
        ),
    ],
)
def test_rows_become_documents(row: dict[str, Any], layout: str, expected: tuple[Any, ...]) -> None:
    assert layout_of(frozenset(row)) == layout
    document = LAYOUTS[layout](row, BASE)
    assert (document.id, document.url, document.title, document.sections, document.date) == expected


@pytest.mark.parametrize(
    ("layout", "row", "reason"),
    [
        ("passages", {"id": "a", "title": "A", "text": "x"}, "'url' must be a non-blank string, got None"),
        ("beir", {"text": "x"}, "'_id' must be a non-blank string"),
        ("beir", {"_id": "a", "text": "", "title": " "}, "holds no text"),
        ("beir", {"_id": "a", "text": ["x"]}, "'text' must be a string"),
        ("browsecomp-plus", {"docid": "a", "text": None}, "'text' must be"),
        ("wikipedia", {"title": "A", "text": ""}, "'text' or 'extract' must be"),
        ("pyserini", {"id": True, "contents": "x"}, "'id' must be a string, got True"),
    ],
)
def test_bad_rows_name_the_key(layout: str, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        LAYOUTS[layout](row, BASE)


def test_unknown_columns_have_no_layout() -> None:
    assert layout_of(frozenset(["body", "name"])) is None
