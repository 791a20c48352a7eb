from __future__ import annotations

import pytest

from venus_rl import device
from venus_rl.config import Config
from venus_rl.device import device_of, pinned

GPUS = {"nodes": 2, "per_node": 8, "tensor_parallel": 4, "sequence_parallel": 8}


def config(kind: str, **groups: object) -> Config:
    return Config.model_validate({"run": {"device": kind, "processes": 3}, "gpu": GPUS, **groups})


def test_on_the_cpu_the_gpu_keys_have_no_effect() -> None:
    got = device_of(config("cpu"))
    assert (got.processes, got.nodes, got.sequence_parallel, got.tensor_parallel, got.replicas) == (3, 1, 1, 1, 3)
    assert (got.dtype, got.attention, got.count) == ("float32", "sdpa", "run.processes=3")
    assert got == device_of(Config.model_validate({"run": {"device": "cpu", "processes": 3}}))


def test_gpus_are_counted_over_all_machines() -> None:
    got = device_of(config("cuda"))
    assert (got.processes, got.per_node, got.sequence_parallel, got.sft_batches) == (16, 8, 8, 1)
    assert (got.dtype, got.count) == ("bfloat16", "gpu.nodes × gpu.per_node = 16")


def test_what_is_given_is_not_chosen() -> None:
    got = device_of(config("cuda", model={"dtype": "float32", "attention": "eager"}))
    assert (got.dtype, got.attention) == ("float32", "eager")


def test_agent_loops_do_not_outnumber_cores_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.os, "cpu_count", lambda: 2)
    assert device_of(config("cpu", rollout={"workers": 8})).workers == 2
    assert device_of(config("cuda", rollout={"workers": 8})).workers == 8


@pytest.mark.parametrize("found", ["cpu", "cuda"])
def test_auto_is_what_is_there_and_stays_so(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "detect", lambda: found)
    settled = pinned(config("auto"))
    assert (settled.run.device, settled.rollout.engine) == (found, "transformers")
    monkeypatch.setattr(device, "detect", lambda: "another")
    assert device_of(settled).kind == found


@pytest.mark.parametrize(
    ("kind", "there", "engine"),
    [("cuda", True, "vllm"), ("cuda", False, "transformers"), ("cpu", True, "transformers")],
)
def test_vllm_is_the_engine_of_gpus_where_it_is_installed(
    kind: str, there: bool, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: object() if name == "vllm" and there else None)
    got = device_of(config(kind))
    assert (got.engine, got.tensor_parallel) == (engine, 4 if engine == "vllm" else 1)


def test_sequence_parallel_workers_see_parts_only() -> None:
    assert device_of(config("cpu")).whole_sequences
    assert not device_of(config("cuda")).whole_sequences
    assert device_of(config("cuda", gpu={**GPUS, "sequence_parallel": 1})).whole_sequences
