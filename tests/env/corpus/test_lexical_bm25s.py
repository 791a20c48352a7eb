from __future__ import annotations

import math
from pathlib import Path

import pytest

from venus_env.corpus.lexical_bm25s import Bm25sIndex, Bm25sWriter


def test_scores_are_those_computed_by_hand(tmp_path: Path) -> None:
    writer = Bm25sWriter(tmp_path / "lexical")
    for row in (["cat", "dog"], ["cat", "cat", "bird", "bird"], ["fish"]):
        writer.add(row)
    writer.close()
    # Lucene's form: idf = ln(1 + (N - df + .5) / (df + .5)), tf part = tf / (tf + k1 (1 - b + b dl / avgdl)).
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    expected = [idf * tf / (tf + 1.5 * (0.25 + 0.75 * length / (7 / 3))) for tf, length in ((1, 2), (2, 4))]
    scores = Bm25sIndex(tmp_path / "lexical")._index.get_scores(["cat"])
    assert scores[:2].tolist() == pytest.approx(expected, rel=1e-5)
