from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from venus_env.corpus.loaders.document import Document, Section
from venus_env.corpus.split import split_document


def document(*sections: tuple[str | None, str]) -> Document:
    return Document("d", "https://x/d", "T", tuple(Section(*section) for section in sections), "2020", "s")


def test_paragraphs_are_packed_within_a_section() -> None:
    passages = split_document(document((None, "one two\n\nthree four\n\nfive six"), ("H", "seven")), 10)
    assert [(passage.id, passage.section, passage.text) for passage in passages] == [
        ("d#0", None, "one two\n\nthree four\n\nfive six"),
        ("d#1", "H", "seven"),
    ]
    assert {(passage.url, passage.title, passage.date, passage.source) for passage in passages} == {
        ("https://x/d", "T", "2020", "s")
    }
    packed = split_document(document((None, "a b c d\n\ne f g h\n\ni j")), 9)
    assert [passage.text for passage in packed] == ["a b c d\n\ne f g h", "i j"]


def test_long_paragraphs_are_cut_at_sentences_then_words() -> None:
    text = "One two three four. Five six seven. " + "W0 " + " ".join(f"w{n}" for n in range(1, 12)) + ". Last one."
    assert [passage.text for passage in split_document(document((None, text)), 5)] == [
        "One two three four.",
        "Five six seven.",
        "W0 w1 w2 w3 w4",
        "w5 w6 w7 w8 w9",
        "w10 w11.",
        "Last one.",
    ]


def test_scripts_without_spaces_and_endless_words_are_cut_too() -> None:
    passages = split_document(document((None, "東京は日本の首都")), 3)
    assert [passage.text for passage in passages] == ["東京は", "日本の", "首都"]
    assert max(len(passage.text) for passage in split_document(document((None, "x" * 10_000)), 10)) == 640


def test_rows_that_are_passages_stay_as_they_are() -> None:
    (passage,) = split_document(document(("H", "word " * 5000)), None)
    assert (passage.id, passage.section, passage.text) == ("d", "H", "word " * 5000)


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="ab .\n東é", max_size=200), st.integers(1, 8))
def test_nothing_is_lost(text: str, limit: int) -> None:
    passages = split_document(document((None, text)), limit)
    assert "".join("".join(passage.text.split()) for passage in passages) == "".join(text.split())
    assert all(passage.text.strip() for passage in passages)
