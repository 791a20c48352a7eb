"""Evaluation: play tasks, compute metrics, write the result card, compare with baselines."""

from venus_env.evaluation.metrics import Estimate, Summary, summarise
from venus_env.evaluation.runner import evaluate

__all__ = ["Estimate", "Summary", "evaluate", "summarise"]
