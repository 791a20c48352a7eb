"""The figures of a set of episodes as lines for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from venus_env.evaluation.metrics import Estimate, Summary
from venus_env.protocol.trajectory import Trajectory


def figures(summary: Summary, trajectories: Sequence[Trajectory]) -> str:
    """Lay out a summary, one figure a line; ``trajectories`` are the episodes that it sums up."""
    ends = ", ".join(f"{end} {count}" for end, count in summary.ends.items())
    rows = [("episodes", f"{summary.episodes}, of which {summary.graded} graded  ({ends or 'none'})")]
    if summary.graded:
        rows += [("score", estimate_text(summary.score)), ("exact match", estimate_text(summary.exact_match))]
        rows += [
            (f"  {hops} {'hop' if hops == 1 else 'hops'}", estimate_text(value))
            for hops, value in summary.exact_match_by_hops.items()
        ]
        rows += [("word F1", estimate_text(summary.f1))]
        rows += [(f"pass@{k}", estimate_text(value)) for k, value in summary.pass_at.items() if k > 1]
        terms = ", ".join(f"{name} {value:+.3f}" for name, value in summary.reward_terms.items())
        rows += [
            ("return", f"{number_text(summary.return_per_episode)}  ({terms})"),
            ("turns", number_text(summary.turns)),
            ("tool calls", ", ".join(f"{tool} {count:.2f}" for tool, count in summary.tool_calls.items())),
            ("format errors", number_text(summary.format_error_rate)),
            ("context tokens", number_text(summary.context_tokens)),
        ]
    spent = _policy_usage(trajectories)
    if spent:
        rows.append(("policy usage", ", ".join(f"{name} {count:,}" for name, count in sorted(spent.items()))))
    return "\n".join(f"{label:<16}{value}" for label, value in rows)


def estimate_text(estimate: Estimate) -> str:
    """Write a mean with its standard error."""
    if estimate.mean is None:
        return "-"
    error = "" if estimate.standard_error is None else f" ±{estimate.standard_error:.3f}"
    return f"{estimate.mean:.3f}{error}  ({estimate.questions} questions)"


def number_text(value: float | None) -> str:
    """Write a figure that may be missing."""
    return "-" if value is None else f"{value:.3f}"


def _policy_usage(trajectories: Sequence[Trajectory]) -> Counter[str]:
    spent: Counter[str] = Counter()
    for trajectory in trajectories:
        spent.update(trajectory.usage.get("policy", {}))
    return spent
