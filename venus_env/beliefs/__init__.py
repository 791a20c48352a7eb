"""Beliefs: who estimates the probability of the right answer while an episode runs."""

from venus_env.beliefs.base import Belief, BeliefState, open_belief, turn_boundaries

__all__ = ["Belief", "BeliefState", "open_belief", "turn_boundaries"]
