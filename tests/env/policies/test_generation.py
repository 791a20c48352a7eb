from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.env.policies import tiny

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from venus_env.policies.generation import BatchGenerator  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def prompt(length: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(tiny.VOCABULARY) for _ in range(length)]


def greedy_by_hand(model: Any, ids: list[int], count: int) -> tuple[list[int], list[float]]:
    """The plainest way there is: one full forward pass per token, no cache, no batch."""
    tokens, logprobs = list(ids), []
    with torch.no_grad():
        for _ in range(count):
            row = model(torch.tensor([tokens])).logits[0, -1].log_softmax(-1)
            tokens.append(int(row.argmax()))
            logprobs.append(float(row.max()))
    return tokens[len(ids) :], logprobs


@pytest.mark.parametrize("make", [tiny.qwen, tiny.llama])
async def test_greedy_equals_one_full_forward_per_token(make: Any) -> None:
    model = make()
    generator = BatchGenerator(model, [], 0, max_batch=8)
    prompts = [prompt(length, length) for length in (1, 3, 40, 41, 7, 120)]
    results = await asyncio.gather(*(generator.generate(p, 12, temperature=0, return_logprobs=True) for p in prompts))
    for ids, result in zip(prompts, results, strict=True):
        expected, logprobs = greedy_by_hand(model, ids, 12)
        assert result.ids == expected
        assert result.logprobs == pytest.approx(logprobs, abs=1e-4)
        assert result.stop_reason == "length"
    assert model.config._attn_implementation == "sdpa"


async def test_samples_do_not_depend_on_the_batch() -> None:
    generator = BatchGenerator(tiny.qwen(), [], 0, max_batch=16)
    prompts = [prompt(5 + 7 * i, i) for i in range(12)]

    async def one(i: int, delay: float = 0.0) -> Any:
        await asyncio.sleep(delay)
        return await generator.generate(prompts[i], 5 + i, temperature=0.9, top_p=0.8, seed=i, return_logprobs=True)

    alone = [await one(i) for i in range(12)]
    generator.clear_prefixes()
    together = await asyncio.gather(*(one(i) for i in range(12)))
    generator.clear_prefixes()
    staggered = await asyncio.gather(*(one(i, delay=0.004 * i) for i in range(12)))
    for a, b, c in zip(alone, together, staggered, strict=True):
        assert a.ids == b.ids == c.ids
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)
        assert a.logprobs == pytest.approx(c.logprobs, abs=1e-4)


async def test_equal_prompts_are_read_once_and_sampled_apart() -> None:
    generator = BatchGenerator(tiny.qwen(), [], 0)
    ids = prompt(50, 0)
    results = await asyncio.gather(*(generator.generate(ids, 6, seed=seed) for seed in range(8)))
    assert len({tuple(result.ids) for result in results}) > 1
    assert generator.stats.prefilled_tokens == 50
    assert generator.stats.reused_tokens == 7 * 50


async def test_next_turn_continues_from_stored_prefix() -> None:
    model = tiny.qwen()
    generator, fresh = BatchGenerator(model, [], 0), BatchGenerator(model, [], 0, prefix_bytes=0)
    first = await generator.generate(prompt(60, 1), 10, seed=1)
    longer = [*prompt(60, 1), *first.ids, *prompt(30, 2)]
    again = await generator.generate(longer, 10, seed=2, return_logprobs=True)
    # 60 prompt tokens and 9 sampled ones were read before (the tenth was sampled last, hence never read).
    assert generator.stats.reused_tokens == 69
    assert generator.stats.prefilled_tokens == 60 + 31
    expected = await fresh.generate(longer, 10, seed=2, return_logprobs=True)
    assert again.ids == expected.ids
    assert again.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
    assert fresh.stats.reused_tokens == 0


async def test_changed_weights_drop_stored_prefixes() -> None:
    model = tiny.qwen(seed=0)
    generator = BatchGenerator(model, [], 0)
    ids = prompt(40, 3)
    await generator.generate(ids, 4, temperature=0)
    model.load_state_dict(tiny.qwen(seed=9).state_dict())
    result = await generator.generate([*ids, 5], 8, temperature=0)
    assert result.ids == greedy_by_hand(model, [*ids, 5], 8)[0]
    assert generator.stats.reused_tokens == 0


async def test_long_prompts_are_read_in_chunks() -> None:
    model = tiny.qwen()
    generator = BatchGenerator(model, [], 0)
    ids = prompt(700, 4)  # more than one chunk of 512
    short = prompt(20, 5)
    long_result, short_result = await asyncio.gather(
        generator.generate(ids, 3, temperature=0), generator.generate(short, 3, temperature=0)
    )
    assert long_result.ids == greedy_by_hand(model, ids, 3)[0]
    assert short_result.ids == greedy_by_hand(model, short, 3)[0]


async def test_stops_at_end_token_and_at_the_last_position() -> None:
    model = tiny.qwen(max_position_embeddings=64)
    ids = prompt(20, 6)
    expected, _ = greedy_by_hand(model, ids, 6)
    stop = expected[3]
    first = expected.index(stop)
    result = await BatchGenerator(model, [stop], 0).generate(ids, 30, temperature=0)
    assert (result.ids, result.stop_reason) == (expected[: first + 1], "stop")
    result = await BatchGenerator(model, [], 0).generate(ids, 1000)
    assert (len(result.ids), result.stop_reason) == (44, "length")


async def test_more_requests_than_rows() -> None:
    model = tiny.qwen()
    generator = BatchGenerator(model, [], 0, max_batch=3)
    prompts = [prompt(10 + i, i) for i in range(11)]
    results = await asyncio.gather(*(generator.generate(p, 3 + i % 4, temperature=0) for i, p in enumerate(prompts)))
    for i, result in enumerate(results):
        assert result.ids == greedy_by_hand(model, prompts[i], 3 + i % 4)[0]


async def test_sampling_follows_the_distribution_and_top_p() -> None:
    model = tiny.qwen(vocab_size=20, initializer_range=0.15)
    ids = [1, 2, 3]
    with torch.no_grad():
        expected = (model(torch.tensor([ids])).logits[0, -1] / 0.7).softmax(-1)
    generator = BatchGenerator(model, [], 0)
    draws = await asyncio.gather(*(generator.generate(ids, 1, 0.7, seed=s, return_logprobs=True) for s in range(1500)))
    counts = torch.bincount(torch.tensor([draw.ids[0] for draw in draws]), minlength=20)
    # Five standard deviations of a binomial proportion.
    margin = 5 * (expected * (1 - expected) / 1500).sqrt() + 1e-3
    assert ((counts / 1500 - expected).abs() <= margin).all()
    for draw in draws[:50]:
        assert draw.logprobs[0] == pytest.approx(float(expected[draw.ids[0]].log()), abs=1e-4)

    ordered, order = expected.sort(descending=True)
    nucleus = set(order[: int((ordered.cumsum(0) < 0.5).sum()) + 1].tolist())
    cut = await asyncio.gather(*(generator.generate(ids, 1, 0.7, top_p=0.5, seed=s) for s in range(300)))
    assert {draw.ids[0] for draw in cut} == nucleus


async def test_pause_waits_and_resume_continues() -> None:
    generator = BatchGenerator(tiny.qwen(), [], 0)
    running = asyncio.create_task(generator.generate(prompt(10, 1), 60))
    await asyncio.sleep(0.02)
    await generator.pause()
    await asyncio.sleep(0)
    waiting = asyncio.create_task(generator.generate(prompt(10, 2), 3))
    assert len((await running).ids) == 60
    await asyncio.sleep(0.05)
    assert not waiting.done()
    generator.resume()
    assert len((await waiting).ids) == 3


async def test_abort_returns_what_was_sampled_and_cancel_frees_the_row() -> None:
    generator = BatchGenerator(tiny.qwen(), [], 0, max_batch=1)
    running = asyncio.create_task(generator.generate(prompt(10, 1), 1000))
    queued = asyncio.create_task(generator.generate(prompt(10, 2), 1000))
    while not generator.stats.steps:  # noqa: ASYNC110  (a counter of a worker thread)
        await asyncio.sleep(0.005)
    assert generator.abort_all() == 2
    first, second = await running, await queued
    assert first.stop_reason == second.stop_reason == "aborted"
    assert 0 < len(first.ids) < 1000
    assert second.ids == []

    await generator.pause()
    waiting = asyncio.create_task(generator.generate(prompt(10, 2), 1000))
    await asyncio.sleep(0)
    assert generator.abort_all() == 1
    assert (await waiting).stop_reason == "aborted"
    generator.resume()

    cancelled = asyncio.create_task(generator.generate(prompt(10, 3), 1000))
    await asyncio.sleep(0.02)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert len((await asyncio.wait_for(generator.generate(prompt(10, 4), 2), 5)).ids) == 2


async def test_an_error_in_the_model_reaches_every_caller_and_passes() -> None:
    model = tiny.qwen()
    generator = BatchGenerator(model, [], 0)
    weight = model.model.embed_tokens.weight
    model.model.embed_tokens.weight = torch.nn.Parameter(torch.zeros(tiny.VOCABULARY, 3))  # does not fit the layers
    results = await asyncio.gather(*(generator.generate(prompt(9, s), 4) for s in range(3)), return_exceptions=True)
    assert all(isinstance(result, RuntimeError) for result in results)
    model.model.embed_tokens.weight = weight
    assert len((await generator.generate(prompt(9, 1), 4)).ids) == 4


async def test_bad_input_is_named() -> None:
    generator = BatchGenerator(tiny.qwen(), [], 0)
    with pytest.raises(ValueError, match="non-empty"):
        await generator.generate([], 4)
    with pytest.raises(ValueError, match=r"outside the model's vocabulary \[0, 320\)"):
        await generator.generate([1, 320], 4)
    with pytest.raises(ValueError, match="1024 positions"):
        await generator.generate([1] * 1024, 4)
    with pytest.raises(ValueError, match="temperature=-1"):
        await generator.generate([1], 4, temperature=-1)
    with pytest.raises(ValueError, match="sliding-window"):
        BatchGenerator(tiny.qwen(use_sliding_window=True, sliding_window=8, max_window_layers=0), [], 0)
    with pytest.raises(ValueError, match="max_batch"):
        BatchGenerator(tiny.qwen(), [], 0, max_batch=0)
