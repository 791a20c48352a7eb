from __future__ import annotations

import pytest

from venus_env.corpus.hybrid import fuse


def test_fusion_by_hand() -> None:
    fused = fuse([([7, 8], 1.0), ([8, 9], 0.5)], constant=10)
    assert [thing for thing, _ in fused] == [8, 7, 9]
    assert dict(fused) == pytest.approx({7: 1 / 11, 8: 1 / 12 + 0.5 / 11, 9: 0.5 / 12})


def test_shares_count_as_first_places() -> None:
    fused = fuse([([7, 8], 1.0)], {9: 2.0, 8: 0.5, 5: 0.0}, constant=10)
    assert dict(fused) == pytest.approx({9: 2 / 11, 8: 1 / 12 + 0.5 / 11, 7: 1 / 11})
    assert [thing for thing, _ in fused] == [9, 8, 7]


def test_ties_go_to_the_smaller_number_and_weightless_rankings_add_nothing() -> None:
    assert [thing for thing, _ in fuse([([5], 1.0), ([3], 1.0)])] == [3, 5]
    assert fuse([([], 1.0), ([4], 0.0)]) == []
