"""What a run of the pipeline did, in numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from venus_rl.data.artifact import summary
from venus_rl.data.process import Clean, Rejected


class Tally:
    """Counts outcomes as they come; memory does not grow with the number of rows.

    Attributes:
        kept: Trajectories that went through.
        rejected: Dropped rows by stage and reason.
        stages: What each stage did to the rows that reached it.
        before: Number of trajectories by turns, as normalised.
        after: The same of what was kept.
        written: The same of all copies.
        tokens: Lengths of the kept trajectories by tokens; empty without a tokenizer.
    """

    def __init__(self) -> None:
        self.kept = 0
        self.rejected: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.stages: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.files: Counter[str] = Counter()
        self.before: Counter[int] = Counter()
        self.after: Counter[int] = Counter()
        self.written: Counter[int] = Counter()
        self.tokens: Counter[int] = Counter()

    def add(self, outcome: Clean | Rejected) -> None:
        """Count one outcome."""
        self.files[outcome.source.rpartition(":")[0]] += 1
        for stage, counts in outcome.counts.items():
            if stage == "before":
                self.before.update(int(key.removeprefix("turns:")) for key in counts)
            else:
                self.stages[stage].update(counts)
        if isinstance(outcome, Clean):
            self.kept += 1
            self.after[outcome.turns] += 1
        else:
            self.rejected[outcome.stage][outcome.reason] += 1

    @property
    def undecided(self) -> int:
        """Trajectories without a verdict, kept or not."""
        return self.stages["correctness"]["undecided"]

    def report(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        rejected = sum(counts.total() for counts in self.rejected.values())
        return {
            "rows": {
                "read": self.kept + rejected,
                "kept": self.kept,
                "rejected": rejected,
                "written": self.written.total(),
            },
            "rejected": {stage: _ordered(counts) for stage, counts in sorted(self.rejected.items())},
            "stages": {stage: _ordered(counts) for stage, counts in self.stages.items()},
            "turns": {name: _histogram(getattr(self, name)) for name in ("before", "after", "written")},
            "tokens": {**summary(list(self.tokens.elements())), "total": sum(self.tokens.elements())}
            if self.tokens
            else None,
            "files": dict(self.files),
        }


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return {name: number for name, number in counts.most_common() if number}


def _histogram(turns: Counter[int]) -> dict[str, int]:
    return {str(number): count for number, count in sorted(turns.items())}
