"""What a belief raises when it cannot score for reasons outside of itself."""

from __future__ import annotations


class BeliefError(Exception):
    """There is no score to be had: an infrastructure failure, never a gain of zero. The message tells all there is."""
