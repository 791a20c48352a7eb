"""Lines that show how an episode went, below its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SHOWN_CHARACTERS = 700
"""Characters of a message that are shown unless a user asks for all of it."""


def reward_line(terms: Mapping[str, float]) -> str:
    """Show the reward of a turn and the terms that it is made of."""
    named = ", ".join(f"{name} {value:+.3f}" for name, value in terms.items())
    return f"[reward] {float(sum(terms.values())):+.3f}" + (f"  ({named})" if named else "")


def end_line(end: str, score: float | None, answers: Sequence[str]) -> str:
    """Show how an episode ended and what would have been right."""
    return f"[end] {end}, score {score}, accepted: {' | '.join(answers)}"
