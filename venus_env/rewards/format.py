"""The format penalty of one turn (method 4.4): a badly formed turn earns ``-penalty`` instead of its other reward."""

from __future__ import annotations


def format_reward(format_ok: bool, penalty: float) -> float | None:
    """Return what replaces a turn's reward for its form.

    Args:
        format_ok: Verdict of ``check_turn_format`` for the turn's position.
        penalty: Size of the penalty, not negative.

    Returns:
        None for a well-formed turn, which keeps its own reward. Otherwise ``-penalty``, which replaces the information
        gain of a tool turn and the outcome of an answer turn, a correct one included. The penalty is per turn: one bad
        turn does not punish the rest of a long episode.
    """
    return None if format_ok else -penalty
