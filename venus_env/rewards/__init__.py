"""Rewards: outcome, format penalty, information gain, and how a turn's terms are composed."""

from venus_env.rewards.compose import RewardConfig, compose_turn, episode_score, outcome_reward
from venus_env.rewards.information_gain import GainTracker, best_score, information_gain, turn_gains
from venus_env.rewards.outcome import exact_match, normalise_answer, word_f1

__all__ = [
    "GainTracker",
    "RewardConfig",
    "best_score",
    "compose_turn",
    "episode_score",
    "exact_match",
    "information_gain",
    "normalise_answer",
    "outcome_reward",
    "turn_gains",
    "word_f1",
]
