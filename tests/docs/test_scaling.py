"""The tables of docs/scaling.md are what the formulas give today."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from venus_rl import sizing
from venus_rl.config import load_config
from venus_rl.device import device_of
from venus_rl.estimate import Request, plan_of, workload
from venus_rl.model.shape import SHAPES
from venus_rl.sizing import GIB, HARDWARE, Plan

ROOT = Path(__file__).resolve().parents[2]
SHAPE, GPU, REQUEST = SHAPES["qwen3-4b"], HARDWARE["a100-80gb"], Request()
CONFIG = load_config(ROOT / "configs" / "dr-venus-4b.yaml", ["run.device=cuda"])
DOC = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")


def plan(nodes: int) -> Plan:
    config = CONFIG.model_copy(update={"gpu": CONFIG.gpu.model_copy(update={"nodes": nodes})})
    device = replace(device_of(config), engine="vllm", tensor_parallel=config.gpu.tensor_parallel)
    return plan_of(config, device)


def table(rows: dict[str, list[str]]) -> list[str]:
    return [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]


def memory_rows() -> list[str]:
    plans = [plan(1), replace(plan(1), fused_logits=False), plan(2), replace(plan(1), sequence_parallel=1)]
    parts = [sizing.training_memory(SHAPE, one) for one in plans]
    rows = {name: [f"{part[name] / GIB:.1f}" for part in parts] for name in parts[0]}
    rows["**in all**"] = [f"**{sum(part.values()) / GIB:.1f}**" for part in parts]
    return table(rows)


def time_rows() -> list[str]:
    works = [workload(CONFIG, REQUEST, fill) for fill in (REQUEST.fill, 1.0)]
    columns = [sizing.step_seconds(SHAPE, plan(nodes), GPU, work) for work in works for nodes in (1, 2)]
    rows = {name: [f"{column[name]:,.0f}" for column in columns] for name in columns[0]}
    rows["**in all**"] = [f"**{sum(column.values()):,.0f}**" for column in columns]
    return table(rows)


def rollout_rows() -> list[str]:
    rows = {}
    for tensor in (1, 2, 4, 8):
        one = replace(plan(1), tensor_parallel=tensor)
        room = sizing.rollout_memory(SHAPE, one, GPU)["keys and values"]
        held = [
            sizing.sequences_in_memory(SHAPE, one, GPU, tokens) * 8 // tensor for tokens in (261_000, 97_875, 48_937)
        ]
        rows[str(tensor)] = [f"{room / GIB:.1f}", *map(str, held)]
    return table(rows)


@pytest.mark.parametrize("rows", [memory_rows, time_rows, rollout_rows], ids=lambda rows: rows.__name__)
def test_table(rows: object) -> None:
    assert callable(rows)
    assert [row for row in rows() if row not in DOC] == []
