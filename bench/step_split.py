"""Where the steps of a run went: ``python -m bench.step_split RUN``. Tokens/s, share of each part, peak memory."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

# verl's timers, in the order of a step.
PARTS = {
    "gen": "rollouts",
    "old_log_prob": "old log-probabilities",
    "ref": "reference log-probabilities",
    "adv": "advantages",
    "update_actor": "update",
    "update_weights": "weights to rollouts",
    "save_checkpoint": "checkpoint",
}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Metrics of a stage, one row per step; empty where the stage did not run."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def split(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of a table: one column per RL step, seconds and share of each part."""
    steps = [float(row["timing_s/step"]) for row in rows]
    lines = ["RL step" + " " * 25 + "".join(f"{row['step']:>18}" for row in rows)]
    parts = {name: [float(row.get(f"timing_s/{key}", 0.0)) for row in rows] for key, name in PARTS.items()}
    parts["everything else"] = [step - sum(part[i] for part in parts.values()) for i, step in enumerate(steps)]
    parts["whole step"] = steps
    for name, seconds in parts.items():
        cells = [f"{value:.1f} s ({value / step:.0%})" for value, step in zip(seconds, steps, strict=True)]
        lines.append(f"{name:<32}" + "".join(f"{cell:>18}" for cell in cells))
    for key, name in (
        ("perf/total_num_tokens", "tokens trained on"),
        ("perf/throughput", "tokens/s per process"),
        ("actor/perf/max_memory_allocated_gb", "peak memory of the trainer, GB"),
    ):
        cells = [f"{row[key]:,.1f}" if key in row else "-" for row in rows]
        lines.append(f"{name:<32}" + "".join(f"{cell:>18}" for cell in cells))
    return lines


def report(run: Path) -> list[str]:
    """Everything about a run, line by line.

    Raises:
        FileNotFoundError: The folder holds no metrics.
    """
    sft, rl = read_rows(run / "sft" / "metrics.jsonl"), read_rows(run / "rl" / "metrics.jsonl")
    if not sft and not rl:
        raise FileNotFoundError(f"{run} holds no metrics of SFT or RL steps; give the run.dir of venus_rl.train")
    lines = []
    if sft:
        tokens = sum(float(row["train/global_tokens"]) for row in sft)
        memory = max(float(row.get("perf/max_memory_allocated_gb", 0.0)) for row in sft)
        finished = run / "sft" / "finished.json"
        seconds = float(json.loads(finished.read_text(encoding="utf-8"))["seconds"]) if finished.exists() else None
        speed = f", {tokens / seconds:,.0f} tokens/s over its {seconds:.0f} s, start included" if seconds else ""
        lines.append(f"SFT: {len(sft)} steps, {tokens:,.0f} tokens{speed}; peak memory {memory:.1f} GB")
    return lines + (split(rl) if rl else [])


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.step_split", description=__doc__)
    parser.add_argument("run", type=Path, help="run folder of venus_rl.train")
    try:
        lines = report(parser.parse_args(argv).run)
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
