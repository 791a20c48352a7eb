"""What a policy raises when it cannot write a turn for reasons outside of itself."""

from __future__ import annotations


class PolicyError(Exception):
    """There is no turn to be had: an infrastructure failure, never a wrong answer. The message tells all there is."""


class ContextFull(PolicyError):
    """The conversation has outgrown the policy's window: the policy's own limit, so the episode is scored as failed."""
