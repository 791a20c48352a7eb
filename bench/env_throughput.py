"""How fast the environment is, and whether that is fast enough: ``python -m bench.env_throughput``; see README.md."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from bench import measure
from bench.measure import Row
from venus_env.evaluation.card import write_text_atomic

BELIEFS = (None, "lexical")
PACKAGES = ("venus-research", "gymnasium", "numpy", "pydantic", "tokenizers", "transformers", "bm25s", "faiss-cpu")
EXAMPLES = """\
examples:
  python -m bench.env_throughput --out bench/results/env_throughput.json
  python -m bench.env_throughput --quick --only growth tokenisation
"""


class Scale(NamedTuple):
    """How much is measured."""

    episodes: tuple[int, ...]
    overhead_steps: int
    growth_episodes: int
    turns: int
    slow_episodes: int
    slow_turns: int
    memory_episodes: int
    retrieval_episodes: tuple[int, ...]
    retrieval_rounds: int


FULL = Scale((1, 16, 64, 256), 200, 60, 200, 64, 6, 64, (1, 64), 10)
QUICK = Scale((1, 64), 10, 4, 20, 8, 2, 2, (1, 4), 1)


class Bar(NamedTuple):
    """A figure that has to reach a limit."""

    name: str
    measured: float
    limit: float
    at_least: bool = False

    def record(self) -> Row:
        passed = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        rule = ">=" if self.at_least else "<="
        return {"name": self.name, "measured": self.measured, "rule": rule, "limit": self.limit, "passed": passed}


def plan(scale: Scale, seed: int) -> Iterator[tuple[str, str, Callable[[], Row]]]:
    """All measurements: section, label and the call that makes the row."""
    steps, turns, rounds = scale.overhead_steps, scale.turns, scale.retrieval_rounds
    for belief in BELIEFS:
        yield "overhead", f"single, belief {belief}", partial(measure.single_overhead, belief, steps, seed)
        for n in scale.episodes:
            yield "overhead", f"{n} episodes, belief {belief}", partial(measure.step_overhead, belief, n, steps, seed)
    for belief in BELIEFS:
        yield "growth", f"belief {belief}", partial(measure.growth, belief, scale.growth_episodes, turns, seed)
    yield "tokenisation", f"{turns} turns", partial(measure.tokenisation, turns)
    yield "slow_tools", "", partial(measure.slow_tools, scale.slow_episodes, scale.slow_turns, seed)
    for belief in BELIEFS:
        yield "memory", f"belief {belief}", partial(measure.memory, belief, scale.memory_episodes, turns)
    for n in scale.retrieval_episodes:
        yield "retrieval", f"{n} episodes", partial(measure.retrieval, n, rounds, seed)


def bars(sections: dict[str, list[Row]]) -> list[Row]:
    """The bars that the measured sections allow to judge."""
    found = [
        Bar(f"p95 per episode-step at 64 episodes, belief {row['belief']} (ms)", row["p95_ms"], 1.0)
        for row in sections.get("overhead", [])
        if row["episodes"] == 64
    ]
    for row in sections.get("growth", []):
        found.append(Bar(f"turn {row['turns']} / turn 2, belief {row['belief']}", row["ratio"], 1.3))
    for row in sections.get("tokenisation", []):
        found.append(Bar("append-only tokenisation against full renders", row["speedup"], 50.0, at_least=True))
    for row in sections.get("slow_tools", []):
        found.append(Bar("slow tools: all episodes / the slowest alone", row["ratio"], 1.2))
    return [bar.record() for bar in found]


def machine() -> Row:
    """What it ran on, without names that identify the machine."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def table(rows: list[Row]) -> str:
    """Rows of one section as aligned text."""
    shown = [{name: _cell(value) for name, value in row.items()} for row in rows]
    widths = {name: max(len(name), *(len(row[name]) for row in shown)) for name in shown[0]}
    lines = [dict(zip(widths, widths, strict=True)), *shown]
    return "\n".join("  ".join(line[name].rjust(width) for name, width in widths.items()) for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def main(argv: list[str] | None = None) -> None:
    """Measure, print, write."""
    sections: dict[str, list[Row]] = {}
    every = list(dict.fromkeys(section for section, _, _ in plan(FULL, 0)))
    parser = argparse.ArgumentParser(
        prog="python -m bench.env_throughput",
        description="Measure the environment's own cost per step, its growth, and what hides slow tools.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument(
        "--quick", action="store_true", help="few repeats: shows that the benchmark works, not how fast"
    )
    parser.add_argument("--only", nargs="+", choices=every, default=every, help="sections to run")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything random (default: 0)")
    arguments = parser.parse_args(argv)

    scale = QUICK if arguments.quick else FULL
    chosen = [entry for entry in plan(scale, arguments.seed) if entry[0] in arguments.only]
    progress = tqdm(chosen, unit="row")
    for section, label, run in progress:
        progress.set_description(f"{section} {label}".strip())
        sections.setdefault(section, []).append(run())
    verdicts = bars(sections)
    for name, rows in {**sections, "bars": verdicts}.items():
        if rows:
            print(f"\n{name}\n{table(rows)}")
    if arguments.quick:
        print("\nA quick run is too short to judge the environment by its bars.")
    if arguments.out is not None:
        result = {
            "schema": "venus.bench/1",
            "machine": machine(),
            "quick": arguments.quick,
            "seed": arguments.seed,
            **sections,
            "bars": verdicts,
        }
        write_text_atomic(arguments.out, json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
