from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from venus_env.policies.sampling import draw_tokens  # noqa: E402

PROBABILITIES = [0.1, 0.6, 0.0, 0.3]


def draw(draws: list[float], temperature: float = 1.0, top_p: float = 1.0) -> tuple[list[int], list[float]]:
    logits = torch.tensor([PROBABILITIES]).log().repeat(len(draws), 1) + 7.0  # a constant changes nothing
    return draw_tokens(logits, [temperature] * len(draws), [top_p] * len(draws), draws)


def test_draws_fall_into_the_cumulative_distribution() -> None:
    tokens, logprobs = draw([0.0, 0.099, 0.101, 0.699, 0.701, 0.999999])
    assert tokens == [0, 0, 1, 1, 3, 3]
    assert logprobs == pytest.approx([math.log(PROBABILITIES[token]) for token in tokens], abs=1e-5)


def test_top_p_keeps_the_fewest_tokens_that_reach_it() -> None:
    # 0.6 alone falls short of 0.7; 0.6 and 0.3 reach it, so token 0 goes and the two share the draws 2 to 1.
    tokens, logprobs = draw([0.0, 0.66, 0.67, 0.99], top_p=0.7)
    assert tokens == [1, 1, 3, 3]
    assert logprobs[0] == pytest.approx(math.log(0.6), abs=1e-5)  # before the cut
    assert draw([0.0, 0.99], top_p=0.6)[0] == [1, 1]


def test_temperature_sharpens_and_zero_is_greedy() -> None:
    # Squared and normalised at temperature 1/2: .01, .36, .09 of .46.
    tokens, logprobs = draw([0.0, 0.021, 0.023, 0.80, 0.81], temperature=0.5)
    assert tokens == [0, 0, 1, 1, 3]
    assert logprobs[2] == pytest.approx(math.log(0.36 / 0.46), abs=1e-5)
    tokens, logprobs = draw([0.0, 0.99], temperature=0.0)
    assert tokens == [1, 1]
    assert logprobs == pytest.approx([math.log(0.6)] * 2, abs=1e-5)


def test_rows_have_their_own_settings() -> None:
    logits = torch.tensor([PROBABILITIES] * 3).log()
    assert draw_tokens(logits, [0.0, 1.0, 1.0], [1.0, 1.0, 0.5], [0.0, 0.0, 0.0])[0] == [1, 0, 1]
