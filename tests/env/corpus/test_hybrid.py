from __future__ import annotations

import pytest

from venus_env.corpus.hybrid import fuse


def test_fusion_by_hand() -> None:
    fused = fuse([[7, 8], [8, 9]], [1.0, 0.5])
    assert [thing for thing, _ in fused] == [8, 7, 9]
    assert dict(fused) == pytest.approx({7: 1 / 11, 8: 1 / 12 + 0.5 / 11, 9: 0.5 / 12})


def test_ties_go_to_the_smaller_number() -> None:
    assert [thing for thing, _ in fuse([[5], [3]], [1.0, 1.0])] == [3, 5]
    assert fuse([[], []], [1.0, 1.0]) == []
