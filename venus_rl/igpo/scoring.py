"""What scoring answers on a rollout server gives back, and the figures that say whether it can be trusted.

A rollout server scores with its own copy of the weights and its own kernels. A sample of its scores is therefore
computed once more by the trained model, and the differences are metrics of every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, slots=True)
class BoundaryScores:
    """A rollout server's reply to a :class:`~venus_env.beliefs.probes.ProbeRequest`.

    Attributes:
        scores: Mean log-probability per token of the most likely accepted answer, one per boundary.
        requests: Forward requests that it took.
        tokens_read: Tokens that the model was run on; what a cache held is not among them.
    """

    scores: list[float]
    requests: int
    tokens_read: int


@dataclass(frozen=True, slots=True)
class ScoringRecord:
    """One rollout's scoring, as it travels from the agent loop to the trainer.

    Attributes:
        boundaries: Context lengths at which answers were scored.
        probes: ``(ids, start)`` of each pseudo answer.
        scores: As in :class:`BoundaryScores`.
        requests: As in :class:`BoundaryScores`.
        tokens_read: As in :class:`BoundaryScores`.
        started: Wall-clock time in seconds.
        ended: Wall-clock time in seconds.
    """

    boundaries: list[int]
    probes: list[tuple[list[int], int]]
    scores: list[float]
    requests: int
    tokens_read: int
    started: float
    ended: float


def scoring_metrics(records: Sequence[ScoringRecord]) -> dict[str, float]:
    """Cost of scoring per scored boundary; empty where nothing was scored."""
    boundaries = sum(len(record.boundaries) for record in records)
    if not boundaries:
        return {}
    return {
        "scoring/boundaries": float(boundaries),
        "scoring/requests_per_boundary": sum(record.requests for record in records) / boundaries,
        "scoring/tokens_read_per_boundary": sum(record.tokens_read for record in records) / boundaries,
    }


def difference_metrics(server: Sequence[float], actor: Sequence[float]) -> dict[str, float]:
    """Largest and mean absolute difference between a server's scores and the trained model's own.

    Args:
        server: Scores of a rollout server.
        actor: The same boundaries' scores by the trained model.
    """
    differences = [abs(theirs - own) for theirs, own in zip(server, actor, strict=True)]
    if not differences:
        return {}
    return {
        "scoring/verified": float(len(differences)),
        "scoring/difference_max": max(differences),
        "scoring/difference_mean": fmean(differences),
    }


def covered_seconds(records: Iterable[ScoringRecord]) -> float:
    """Length of the time in which at least one rollout was being scored; generation may have gone on beside it."""
    covered, until = 0.0, float("-inf")
    for started, ended in sorted((record.started, record.ended) for record in records):
        covered += max(0.0, ended - max(started, until))
        until = max(until, ended)
    return covered
