from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.rl.data.vectors import cleaning
from venus_rl.data.resample import bucket, consecutive, copies, spread

VECTORS = cleaning("compute_multiplier")
PAPER = ((50, 100), (1, 2, 5))


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_vectors(vector: dict[str, Any]) -> None:
    given = vector["input"]
    assert copies(given["turns"], given["thresholds"], given["mult"]) == vector["output"]


def test_the_papers_arithmetic() -> None:
    turns = [20] * 3_720 + [75] * 4_400 + [140] * 1_245
    counts = [copies(t, *PAPER) for t in turns]
    assert (len(turns), sum(counts), len(spread(counts, 0))) == (9_365, 18_745, 18_745)
    written = Counter(bucket(t, PAPER[0]) for t, count in zip(turns, counts, strict=True) for _ in range(count))
    assert written == {"0-50": 3_720, "51-100": 8_800, ">100": 6_225}
    assert round((written["51-100"] + written[">100"]) / 18_745, 4) == 0.8015  # 80.15 % of the paper


@pytest.mark.parametrize(("turns", "name"), [(0, "0-50"), (50, "0-50"), (51, "51-100"), (101, ">100")])
def test_buckets(turns: int, name: str) -> None:
    assert bucket(turns, PAPER[0]) == name
    assert bucket(turns, ()) == "all"


def test_copies_lie_apart() -> None:
    counts = [1, 2, 5, 0] * 200
    order = spread(counts, seed=3)
    assert Counter(row for row, _ in order) == {row: count for row, count in enumerate(counts) if count}
    assert order == spread(counts, seed=3) != spread(counts, seed=4)
    rows = np.array([row for row, _ in order])
    for row, count in enumerate(counts):
        gaps = np.diff(np.flatnonzero(rows == row))
        assert all(gap > 0.8 * len(order) / count for gap in gaps)
    assert [row for row, _ in order] != sorted(row for row, _ in order)


def test_the_order_of_the_reference() -> None:
    assert consecutive([1, 2]) == [(0, 0), (1, 0), (1, 1)]
    pandas = pytest.importorskip("pandas")
    shuffled = pandas.DataFrame({"row": range(50)}).sample(frac=1.0, random_state=42)["row"].tolist()
    assert [row for row, _ in consecutive([1] * 50, shuffle_seed=42)] == shuffled
