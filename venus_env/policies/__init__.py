"""Policies: what a policy is, the oracle, the random floor; language models are in ``hf`` and ``openai``."""

from venus_env.policies.base import EpisodePolicies, Policy, next_turn, start_episode
from venus_env.policies.random import RandomPolicy
from venus_env.policies.scripted import OraclePolicy

__all__ = ["EpisodePolicies", "OraclePolicy", "Policy", "RandomPolicy", "next_turn", "start_episode"]
