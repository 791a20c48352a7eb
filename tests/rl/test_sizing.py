"""The formulas against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from venus_rl import sizing
from venus_rl.model.shape import SHAPES, ModelShape
from venus_rl.sizing import GIB, Hardware, Plan, Workload

FOUR = SHAPES["qwen3-4b"]
TINY = ModelShape(vocab=1000, hidden=10, layers=2, heads=2, kv_heads=1, head_dim=4, feed_forward=30, positions=100)
GPU = Hardware("test", memory=10 * GIB, flops=1e6, bandwidth=1e6, train_efficiency=0.5, decode_efficiency=0.5)
ONE = Plan(gpus=1, tensor_parallel=1, sequence_parallel=1, window=100, micro_batch_tokens=50)
NODE = Plan(8, 4, 8, 261_000, 32_768, offload=True, rollout_memory=0.9, reference=True)


def test_training_memory_by_hand() -> None:
    got = sizing.training_memory(TINY, replace(ONE, fused_logits=False))
    # A layer keeps 2·10 + 2·8 + 2·4 + 3·30 = 134 numbers a token.
    layer = 2 * 10 * 8 + 2 * 10 * 4 + 3 * 10 * 30 + 2 * 10 + 2 * 4
    parameters = 2 * layer + 10_000 + 10
    assert TINY.parameters == parameters
    assert got == {
        "masters, gradients, Adam": 16 * parameters,
        "gathered parameters": (2 * layer + 10_000) * 2 + layer * 4,
        "activations kept": 2 * 100 * 10 * 2,
        "activations of a layer": 2 * 100 * 134 * 2,
        "logits": 100 * 1000 * 8,
        "overhead": 4 * GIB,
    }


def test_without_checkpointing_every_layer_is_kept() -> None:
    got = sizing.training_memory(TINY, replace(ONE, checkpointing=False))
    assert got["activations kept"] == 2 * 100 * 134 * 2


def test_sequence_parallel_divides_what_grows_with_tokens_and_gpus_what_does_not() -> None:
    one, eight = (
        sizing.training_memory(FOUR, replace(NODE, gpus=n, sequence_parallel=n, micro_batch_tokens=1)) for n in (1, 8)
    )
    for part in ("masters, gradients, Adam", "activations kept", "activations of a layer"):
        assert one[part] == pytest.approx(8 * eight[part], rel=1e-4)
    assert one["gathered parameters"] == eight["gathered parameters"]


def test_logits_of_a_long_sequence_are_the_largest_thing_unless_they_come_in_chunks() -> None:
    whole = sizing.training_memory(FOUR, replace(NODE, fused_logits=False))
    assert max(whole, key=lambda part: whole[part]) == "logits"
    assert whole["logits"] == 32_768 * 151_936 * 8
    chunks = sizing.training_memory(FOUR, NODE)
    assert chunks["logits"] == 512 * 151_936 * 8
    assert sum(chunks.values()) < 30 * GIB


def test_keys_and_values_by_hand() -> None:
    assert FOUR.kv_bytes_per_token == 147_456  # 2 · 36 layers · 8 heads · 128 · 2 bytes
    assert sizing.kv_bytes_per_gpu(FOUR, NODE) == 147_456 / 4
    assert sizing.kv_bytes_per_gpu(FOUR, replace(NODE, tensor_parallel=16)) == 147_456 / 8  # copied beyond 8 heads
    room = int(0.9 * 10 * GIB) - TINY.parameters * 2 - 2 * GIB
    plan = replace(ONE, rollout_memory=0.9)
    assert sizing.rollout_memory(TINY, plan, GPU)["keys and values"] == room
    assert sizing.sequences_in_memory(TINY, plan, GPU, 1000) == room // (2 * 2 * 4 * 2 * 1000)
    assert sizing.sequences_in_memory(FOUR, plan, GPU, 10**9) == 0


def test_the_trainers_state_is_beside_rollouts_unless_offloaded() -> None:
    assert sizing.resident_memory(FOUR, NODE) == 0
    assert sizing.resident_memory(TINY, replace(ONE, gpus=2)) == TINY.parameters * 12 // 2
    assert sizing.resident_memory(TINY, replace(ONE, gpus=2, reference=True)) == TINY.parameters * 16 // 2


def test_attention_outgrows_the_matrices_with_length() -> None:
    matrices = TINY.layers * TINY.layer_parameters + 10_000
    assert sizing.forward_flops(TINY, 3) == 2 * matrices * 3 + 2 * 2 * 8 * 9
    long, longer = sizing.forward_flops(FOUR, 100_000), sizing.forward_flops(FOUR, 200_000)
    assert 3 < longer / long < 4


def test_step_time_by_hand() -> None:
    work = Workload(episodes=4, tokens=100, turns=5, generated=10, probes=3)
    got = sizing.step_seconds(TINY, replace(ONE, reference=True, rollout_memory=0.9, max_batch=2), GPU, work)
    forward = 4 * sizing.forward_flops(TINY, 100) / 0.5e6
    assert got["old log-probabilities"] == got["reference log-probabilities"] == pytest.approx(forward)
    assert got["update"] == pytest.approx(4 * forward)
    assert got["reading tool results"] == pytest.approx(forward / 2)  # 50 of 100 tokens are written by the policy
    # 200 tokens in batches of 2: 100 steps that read the weights and two contexts of 50 tokens.
    kv = 2 * 2 * 4 * 2
    assert got["generation"] == pytest.approx(100 * (TINY.parameters * 2 + 2 * 50 * kv) / 0.5e6)
    assert got["scoring"] == pytest.approx(4 * 3 * 50 * kv / 0.5e6)
    assert sizing.step_seconds(TINY, ONE, GPU, work)["reference log-probabilities"] == 0


def test_tokens_calls_disk_and_price() -> None:
    work = Workload(episodes=128, tokens=1000, turns=75)
    assert (work.step_tokens, work.tool_calls, work.written) == (128_000, 128 * 74, 1000)
    assert sizing.checkpoint_bytes(TINY) == 16 * TINY.parameters
    assert sizing.step_price(1800, 8, 1000, gpu_hour=2.0, tool_call=0.001) == pytest.approx(8 + 1)


def test_main_memory_of_a_cpu_run_counts_every_copy() -> None:
    one, two = (sizing.cpu_memory(TINY, replace(ONE, gpus=n, fused_logits=False)) for n in (1, 2))
    logits = 100 * 1000 * 8 * 2
    assert one > 16 * TINY.parameters + 4 * TINY.parameters + logits + 7 * GIB - 1
    assert two - one > 4 * TINY.parameters + logits + GIB - 1
