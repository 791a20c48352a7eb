from __future__ import annotations

import pytest

from venus_rl.igpo.scoring import ScoringRecord, covered_seconds, difference_metrics, scoring_metrics


def record(started: float = 0.0, ended: float = 1.0, boundaries: int = 2, **changes: int) -> ScoringRecord:
    return ScoringRecord(
        boundaries=list(range(1, boundaries + 1)),
        probes=[([1, 2], 1)],
        scores=[-1.0] * boundaries,
        requests=changes.get("requests", 6),
        tokens_read=changes.get("tokens_read", 60),
        started=started,
        ended=ended,
    )


def test_costs_are_per_boundary_over_all_rollouts() -> None:
    metrics = scoring_metrics([record(), record(boundaries=1, requests=0, tokens_read=0)])
    assert metrics == {
        "scoring/boundaries": 3.0,
        "scoring/requests_per_boundary": 2.0,
        "scoring/tokens_read_per_boundary": 20.0,
    }


def test_nothing_scored_gives_no_metrics() -> None:
    assert scoring_metrics([]) == difference_metrics([], []) == {}


def test_differences_are_absolute() -> None:
    metrics = difference_metrics([-1.0, -2.0], [-1.5, -1.9])
    assert metrics["scoring/verified"] == 2
    assert metrics["scoring/difference_max"] == pytest.approx(0.5)
    assert metrics["scoring/difference_mean"] == pytest.approx(0.3)


def test_every_score_needs_its_counterpart() -> None:
    with pytest.raises(ValueError, match="zip"):
        difference_metrics([-1.0, -2.0], [-1.0])


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [([], 0), ([(0, 2), (1, 3)], 3), ([(5, 6), (0, 1)], 2), ([(0, 9), (1, 2), (3, 4)], 9)],
)
def test_time_that_several_rollouts_share_counts_once(spans: list[tuple[float, float]], seconds: float) -> None:
    assert covered_seconds([record(*span) for span in spans]) == seconds
