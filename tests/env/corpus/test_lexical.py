from __future__ import annotations

import math
from pathlib import Path

import pytest

from venus_env.corpus.lexical import LexicalIndex, LexicalWriter


def index(directory: Path, rows: list[list[str]]) -> LexicalIndex:
    writer = LexicalWriter(directory)
    for row in rows:
        writer.add(row)
    writer.close()
    return LexicalIndex(directory)


def test_rank_follows_hand_computed_bm25(tmp_path: Path) -> None:
    lexical = index(tmp_path, [["cat", "dog"], ["cat", "cat", "bird", "bird"], ["fish"]])
    assert lexical.rank("cat", 10).tolist() == [1, 0]
    # Lucene's form: idf = ln(1 + (N - df + .5) / (df + .5)), tf part = tf / (tf + k1 (1 - b + b dl / avgdl)).
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    expected = [idf * tf / (tf + 1.5 * (0.25 + 0.75 * length / (7 / 3))) for tf, length in ((1, 2), (2, 4))]
    scores = lexical._index.get_scores(["cat"])
    assert scores[:2].tolist() == pytest.approx(expected, rel=1e-5)


def test_ties_go_to_the_earlier_row_whatever_the_limit(tmp_path: Path) -> None:
    lexical = index(tmp_path, [["other"]] + [["same"]] * 50)
    for limit in (1, 7, 50, 80):
        assert lexical.rank("same", limit).tolist() == list(range(1, 51))[:limit]


def test_unknown_words_find_nothing(tmp_path: Path) -> None:
    lexical = index(tmp_path, [["cat"], ["dog"]])
    assert lexical.rank("zebra", 5).tolist() == []
    assert lexical.rank("", 5).tolist() == []
    assert lexical.rank("zebra dogs", 5).tolist() == [1]
