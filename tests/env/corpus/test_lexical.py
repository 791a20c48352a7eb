from __future__ import annotations

import importlib.metadata
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from venus_env.corpus import CorpusError, LocalCorpus
from venus_env.corpus.build import build_index
from venus_env.corpus.lexical import LexicalIndex, LexicalKind, lexical_writer, open_lexical, query_terms

KINDS: tuple[LexicalKind, ...] = ("bm25s", "tantivy")


@pytest.fixture(params=KINDS)
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[list[list[str]]], LexicalIndex]:
    def build(rows: list[list[str]]) -> LexicalIndex:
        writer = lexical_writer(request.param, tmp_path)
        for row in rows:
            writer.add(row)
        writer.close()
        return open_lexical(request.param, tmp_path)

    return build


Build = Callable[[list[list[str]]], LexicalIndex]


def test_ranking_follows_bm25(index: Build) -> None:
    lexical = index([["cat", "dog"], ["cat", "cat", "bird", "bird"], ["fish"]])
    assert lexical.rank_terms(["cat"], 10).tolist() == [1, 0]
    assert lexical.rank_terms(["cat", "dog"], 10).tolist() == [0, 1]
    assert lexical.rank_terms(["cat", "bird"], 1).tolist() == [1]


def test_a_term_counts_as_often_as_it_is_given(index: Build) -> None:
    lexical = index([["cat", "x"], ["dog", "x"], ["dog", "y"], ["fish"]])  # a dog is commoner, hence worth less
    assert lexical.rank_terms(["cat", "dog"], 10).tolist() == [0, 1, 2]
    assert lexical.rank_terms(["cat", "dog", "dog", "dog"], 10).tolist() == [1, 2, 0]


def test_rarity_is_lucenes(index: Build) -> None:
    lexical = index([["cat", "dog", "cat"], ["cat"], ["fish"]])
    expected = [math.log(1 + (3 - held + 0.5) / (held + 0.5)) for held in (2, 1, 0)]
    assert lexical.rarity(["cat", "fish", "zebra"]).tolist() == pytest.approx(expected)
    assert lexical.rarity([]).tolist() == []


def test_ties_go_to_the_earlier_row_whatever_the_limit(index: Build) -> None:
    lexical = index([["other"]] + [["same", "row"]] * 500)
    for limit in (1, 7, 50, 499, 500, 501, 10_000):
        assert lexical.rank_terms(["same", "row", "absent"], limit).tolist() == list(range(1, 501))[:limit]


def test_unknown_terms_find_nothing(index: Build) -> None:
    lexical = index([["cat"], ["dog"]])
    assert lexical.rank_terms(["zebra"], 5).tolist() == []
    assert lexical.rank_terms([], 5).tolist() == []
    assert lexical.rank_terms(["zebra", "dog"], 5).tolist() == [1]


def test_terms_of_every_script_and_length_are_found_as_they_are(index: Build) -> None:
    rows = [["東京", "京", "서울"], ["ñandú", "straße"], ["x" * 30_000], ["x" * 29_999 + "y"], ["𠮷" * 70_000], ["and"]]
    lexical = index(rows)
    for row, terms in enumerate(rows):
        assert row in lexical.rank_terms(terms, 10).tolist()
    assert lexical.rank_terms(["東"], 10).tolist() == []


def test_rows_without_terms_keep_their_number(index: Build) -> None:
    assert index([[], ["cat"], [], ["cat"]]).rank_terms(["cat"], 5).tolist() == [1, 3]


def test_both_libraries_agree_on_what_matches(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = [rng.choices("abcdefghij", k=rng.randint(1, 12)) for _ in range(300)]
    found = []
    for kind in KINDS:
        writer = lexical_writer(kind, tmp_path)
        for row in rows:
            writer.add(row)
        writer.close()
        lexical = open_lexical(kind, tmp_path)
        found.append([set(lexical.rank_terms(terms, 300).tolist()) for terms in ("a", "abc", "jj")])
        (tmp_path / "lexical").rename(tmp_path / kind)
    assert found[0] == found[1]


def test_query_terms_drop_function_words_and_pair_han() -> None:
    assert query_terms("the running of 東京") == ["run", "東", "京", "東京"]
    assert query_terms("the and of") == ["the", "and", "of"]
    assert query_terms("\x00 🙂") == []


def test_a_missing_library_is_named_with_its_extra(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(write(rows), tmp_path / "index", lexical="tantivy")
    installed = importlib.metadata.version

    def version(name: str) -> str:
        if name == "tantivy":
            raise importlib.metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    needed = r'needs tantivy, which is not installed: pip install "venus-research\[tantivy\]"'
    with pytest.raises(CorpusError, match=needed):
        LocalCorpus(tmp_path / "index")
    with pytest.raises(CorpusError, match=needed):
        build_index(write(rows), tmp_path / "other", lexical="tantivy")
    assert not (tmp_path / "other").exists()
    build_index(write(rows), tmp_path / "other")
    monkeypatch.setattr("venus_env.corpus.lexical.TANTIVY_PASSAGES", 1)
    with pytest.raises(CorpusError, match=rf"5 passages: .*{needed}; or build with lexical bm25s"):
        build_index(write(rows), tmp_path / "third")
