from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_env.corpus.text import (
    canonical_url,
    content_stems,
    index_terms,
    join_gaps,
    leading_words,
    scrub,
    sentences,
    snippet,
    tokens_by_words,
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
    assert tokens_by_words("one two three") == 4
    assert tokens_by_words("x" * 60) == 10


def test_join_gaps_marks_what_is_left_out() -> None:
    assert join_gaps([(0, "A."), (1, "B."), (4, "E.")]) == "A. B. [...] E."


def test_scrub_makes_text_encodable() -> None:
    assert scrub("a\ud800b") == "a\ufffdb"


def test_index_terms_have_pairs_where_a_script_has_no_spaces() -> None:
    assert index_terms(words("running water")) == ["run", "water"]
    assert index_terms(words("東京都 Tokyo")) == ["東", "京", "都", "tokyo", "東京", "京都"]
    assert index_terms(words("서울은 수도")) == ["서울은", "수도", "서울", "울은"]
    assert index_terms(words("𠮷野")) == ["𠮷", "野", "𠮷野"]
    assert index_terms(words("naïve café")) == ["naiv", "cafe"]


LONG = "Alpha beta gamma delta. " * 10 + "The treasure was buried in Bergen by Ada. " + "Filler words go on. " * 10


def test_snippets_show_the_stretch_with_the_words_of_the_query() -> None:
    assert snippet("a b\nc", "c", 3) == "a b c"
    assert snippet(LONG, "Who buried the treasure?", 6) == "... The treasure was buried in Bergen ..."
    assert snippet(LONG, "filler", 4) == "... Ada. Filler words go ..."
    assert snippet(LONG, "alpha", 5) == leading_words(LONG, 5) == "Alpha beta gamma delta. Alpha ..."
    assert snippet(LONG, "nothing of this", 5) == leading_words(LONG, 5)
    assert snippet(LONG.strip(), "on", 3).endswith("...")
    assert snippet("one two three four", "four", 2) == "... three four"
    assert snippet("", "x", 1) == ""


def test_a_han_character_counts_as_a_word() -> None:
    text = "東京は日本の首都である。大阪は西日本の中心である。"
    assert leading_words(text, 4) == "東京は日 ..."
    assert snippet(text, "大阪の中心", 9) == "... 大阪は西日本の中心 ..."
    assert tokens_by_words(text) >= 23
    assert tokens_by_words("abc " * 3) == 4


@given(text=st.text(max_size=200), query=st.text(max_size=20), limit=st.integers(1, 20))
def test_snippets_are_verbatim_and_short(text: str, query: str, limit: int) -> None:
    shown = snippet(text, query, limit).removeprefix("... ").removesuffix(" ...")
    assert shown in " ".join(text.split()) or "..." in text
    assert len(shown.split()) <= limit or "..." in text


def test_snippets_of_endless_texts_are_quick() -> None:
    text = "word " * 2_000_000 + "needle"
    started = time.perf_counter()
    assert snippet(text, "needle", 3) == "word word word ..."
    assert time.perf_counter() - started < 1
