from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_env.corpus.text import (
    canonical_url,
    content_stems,
    estimate_tokens,
    join_gaps,
    leading_words,
    scrub,
    sentences,
    words,
)


def test_words_fold_case_accents_width_and_split_han() -> None:
    assert words("São Paulo's 3rd_ＡＢＣ straße") == ["sao", "paulo", "s", "3rd", "abc", "straße"]
    assert words("东京 tower서울") == ["东", "京", "tower서울"]
    assert words("...") == []


def test_content_stems_drop_function_words_unless_nothing_else_is_left() -> None:
    assert content_stems("the rivers of running water") == ["river", "run", "water"]
    assert content_stems("The Who") == ["the", "who"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. A. B. Cee met Mr. Dee. He left.", ["Dr. A. B. Cee met Mr. Dee.", "He left."]),
        ("The U.S. Navy sailed. It won.", ["The U.S. Navy sailed.", "It won."]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("It costs 3.5 euros. Cheap", ["It costs 3.5 euros.", "Cheap"]),
        ("Line one\nline two", ["Line one", "line two"]),
        ("一句。两句！", ["一句。", "两句！"]),
        ("no capital. after this", ["no capital. after this"]),
        ("  ", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='aB. !?\n"。é', max_size=60))
def test_sentences_lose_nothing_but_outer_whitespace(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_canonical_url_joins_spellings_and_keeps_pages_apart() -> None:
    spelling = canonical_url("https://en.wikipedia.org/wiki/S%C3%A3o_Paulo")
    for other in (
        "http://EN.wikipedia.org/wiki/São Paulo/",
        " <https://en.wikipedia.org/wiki/São_Paulo#History> ",
        "https://en.wikipedia.org/wiki/Sa\u0303o_Paulo",
    ):
        assert canonical_url(other) == spelling
    assert canonical_url("https://a.b/C%23") != canonical_url("https://a.b/C")
    assert canonical_url("https://a.b/x?id=1") != canonical_url("https://a.b/x?id=2")
    assert canonical_url("http://[broken") == "http://[broken"


def test_leading_words_and_token_estimate() -> None:
    assert leading_words("a b\nc", 3) == "a b c"
    assert leading_words("a b c d", 3) == "a b c ..."
    assert estimate_tokens("one two three") == 4
    assert estimate_tokens("x" * 60) == 10


def test_join_gaps_marks_what_is_left_out() -> None:
    assert join_gaps([(0, "A."), (1, "B."), (4, "E.")]) == "A. B. [...] E."


def test_scrub_makes_text_encodable() -> None:
    assert scrub("a\ud800b") == "a\ufffdb"
