"""From reward events to token advantages, beside per-sample loops: ``python -m bench.advantage``; see README.md."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.advantage_loop import loop_advantages
from bench.env_throughput import Bar, machine, table
from venus_env.commands.arguments import positive
from venus_env.evaluation.card import write_text_atomic
from venus_rl.igpo.advantage import AdvantageConfig, compute_advantages
from venus_rl.igpo.events import scatter_to_tokens
from venus_rl.igpo.turn_rewards import RewardEvent, TurnRewards

ROLLOUTS, GROUP, TOKENS = 128, 8, 262_144
EVENTS = (10, 50, 200)
"""Scored turns per rollout: a run with few visits, with many, and with every one of 200 turns scored."""
EXAMPLES = """\
examples:
  python -m bench.advantage --out bench/results/advantage.json
  python -m bench.advantage --rollouts 16 --tokens 8192 --repeats 2
"""


def batch(rollouts: int, tokens: int, events: int, seed: int) -> list[TurnRewards]:
    """Rollouts with ``events`` gains at random tokens and a right or wrong answer at the last one."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(rollouts):
        positions = np.sort(rng.choice(tokens - 1, events, replace=False)).tolist()
        gains = [
            RewardEvent(position, float(rng.normal(0.05, 0.3)), "information_gain", turn)
            for turn, position in enumerate(positions)
        ]
        outcome = RewardEvent(tokens - 1, float(rng.random() < 0.3), "outcome", events)
        made.append(TurnRewards((*gains, outcome), events))
    return made


def row(rollouts: int, tokens: int, events: int, repeats: int, seed: int) -> dict[str, Any]:
    """Time both ways on one batch and compare their results.

    The bar is held against the best of the repeats: other work on the machine only ever adds. The ratio is one of
    processor time, so that it does not depend on what else runs at either moment.
    """
    made = batch(rollouts, tokens, events, seed)
    groups = [index // GROUP for index in range(rollouts)]
    # The loop knows neither the relative floor nor the clamp.
    config = AdvantageConfig(relative_std_floor=0.0, clamp=None)
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        ours = scatter_to_tokens(made, compute_advantages(made, groups, config).values, tokens)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)

    rewards = torch.zeros(rollouts, tokens)
    for index, rollout in enumerate(made):
        for event in rollout.events:
            rewards[index, event.position] = event.value
    mask = torch.ones(rollouts, tokens, dtype=torch.int64)
    wall, cpu = time.perf_counter(), time.process_time()
    theirs = loop_advantages(rewards, mask, groups, "scaled_separate", config.gamma)
    loop_wall, loop_cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "rollouts": rollouts,
        "tokens": tokens,
        "events": events,
        "first_s": walls[0],
        "median_s": float(np.median(walls)),
        "best_s": min(walls),
        "cpu_s": float(np.median(cpus)),
        "loop_s": loop_wall,
        "loop_cpu_s": loop_cpu,
        "cpu_ratio": loop_cpu / float(np.median(cpus)),
        "largest_difference": float(np.abs(ours - theirs.numpy()).max()),
    }


def main(argv: list[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.advantage",
        description="Time the way from reward events to token advantages, beside per-sample loops.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--rollouts", type=positive, default=ROLLOUTS, help=f"rows of the batch (default: {ROLLOUTS})")
    parser.add_argument("--tokens", type=positive, default=TOKENS, help=f"tokens per row (default: {TOKENS})")
    parser.add_argument("--repeats", type=positive, default=15, help="timed calls (default: 15)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the batch (default: 0)")
    arguments = parser.parse_args(argv)
    if arguments.tokens <= max(EVENTS):
        parser.error(f"--tokens {arguments.tokens}: rollouts of {max(EVENTS)} scored turns need more than that")
    rows = [row(arguments.rollouts, arguments.tokens, n, arguments.repeats, arguments.seed) for n in EVENTS]
    limits = [
        *(Bar(f"{r['events']} events: best of {arguments.repeats} (s)", r["best_s"], 0.5).record() for r in rows),
        *(Bar(f"{r['events']} events: difference", r["largest_difference"], 1e-3).record() for r in rows),
    ]
    print(f"{table(rows)}\n\n{table(limits)}")
    if arguments.out is not None:
        result = {"schema": "venus.bench/1", "machine": machine(), "seed": arguments.seed, "advantage": rows}
        write_text_atomic(arguments.out, json.dumps(result | {"bars": limits}, indent=2) + "\n")


if __name__ == "__main__":
    main()
