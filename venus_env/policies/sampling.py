"""Drawing one token per row, each from its own random number, so that rows do not disturb each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def draw_tokens(
    logits: torch.Tensor, temperatures: Sequence[float], top_ps: Sequence[float], draws: Sequence[float]
) -> tuple[list[int], list[float]]:
    """Sample a token per row by inverse transform sampling.

    Args:
        logits: Shape (rows, vocabulary), float32.
        temperatures: Per row; 0 takes the most probable token.
        top_ps: Per row; sample from the smallest set of tokens that holds this probability.
        draws: Per row, uniform in [0, 1).

    Returns:
        The tokens, and their log-probabilities under the temperature-scaled distribution (temperature 1 when greedy)
        before the top-p cut.
    """
    import torch

    device = logits.device
    scale = torch.tensor([temperature or 1.0 for temperature in temperatures], device=device)
    logprobs = (logits / scale[:, None]).log_softmax(-1)
    if any(temperatures):
        # In float64, so that the rounding of a sum over the vocabulary stays far below the spacing of the draws.
        probabilities = logprobs.double().exp()
        if any(top_p < 1 for top_p in top_ps):
            probabilities = _nucleus(probabilities, torch.tensor(top_ps, device=device, dtype=torch.float64))
        cumulative = probabilities.cumsum(-1)
        target = torch.tensor(draws, device=device, dtype=torch.float64)[:, None] * cumulative[:, -1:]
        # right=True: the first token whose cumulative probability exceeds the target, never one of probability zero.
        tokens = torch.searchsorted(cumulative, target, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
        greedy = torch.tensor([temperature == 0 for temperature in temperatures], device=device)
        tokens = logprobs.argmax(-1).where(greedy, tokens)
    else:
        tokens = logprobs.argmax(-1)
    return tokens.tolist(), logprobs.gather(-1, tokens[:, None])[:, 0].tolist()


def _nucleus(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Zero all but the smallest set of tokens whose probability reaches ``top_p`` (per row)."""
    ordered, order = probabilities.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered  # a token stays while those above it fall short of top_p
    kept = ordered.where(before < top_p[:, None], 0.0)
    return kept.new_zeros(kept.shape).scatter(-1, order, kept)
