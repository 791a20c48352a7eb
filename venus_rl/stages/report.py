"""The end of a run: one table, one result card, one picture, and the lines to go on with."""

from __future__ import annotations

import json
import platform
import resource
import sys
from pathlib import Path
from typing import Any

from venus_env.evaluation.card import ResultCard, installed_versions, read_card, write_text_atomic
from venus_env.evaluation.metrics import Estimate
from venus_env.setting import Setting
from venus_rl.run_folder import RunFolder

_STAGES = ("initial", "sft", "rl")


def run(folder: RunFolder, setting: Setting, seconds: float) -> dict[str, Any]:
    """Write ``result.json`` and ``curve.png``, print the table, and return the result."""
    cards = {name: read_card(path) for name in _STAGES if (path := folder.root / "eval" / f"{name}.json").exists()}
    result = {
        "schema": "venus.result/1",
        "versions": installed_versions(),
        "machine": {"platform": platform.platform(), "processor": platform.processor() or platform.machine()},
        "seed": folder.config.run.seed,
        "corpus_hash": setting.corpus.content_hash,
        "seconds": {"last_command": round(seconds, 1)} | _stage_seconds(folder),
        "peak_memory_gb": {"this_process": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)},
        "config": folder.config.model_dump(mode="json"),
        "evaluations": {name: card.model_dump(mode="json", by_alias=True) for name, card in cards.items()},
    }
    write_text_atomic(folder.root / "result.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    plot(folder, cards)
    sys.stdout.write(table(cards) + "\n" + _next_lines(folder))
    sys.stdout.flush()
    return result


def table(cards: dict[str, ResultCard]) -> str:
    """Render the scores of all checkpoints, one column each."""
    rows: list[tuple[str, list[str]]] = [("", list(cards))]
    hops = sorted({h for card in cards.values() for h in card.scores.exact_match_by_hops})
    scores = [card.scores for card in cards.values()]
    rows.append(("success (exact match)", [_estimate(s.exact_match) for s in scores]))
    for number in hops:
        cells = [s.exact_match_by_hops.get(number) for s in scores]
        rows.append(
            (f"  {number} hop{'s' if number > 1 else ''}", [_estimate(cell) if cell else "-" for cell in cells])
        )
    rows += [
        ("word F1", [_estimate(s.f1) for s in scores]),
        ("turns", [_number(s.turns) for s in scores]),
        ("tool calls", [_number(s.tool_calls.get("all")) for s in scores]),
        ("  visits", [_number(s.tool_calls.get("visit", 0.0)) for s in scores]),
        ("format errors", [_number(s.format_error_rate) for s in scores]),
        ("information-gain coverage", [_number(s.gain_coverage) for s in scores]),
        ("not graded", [str(s.episodes - s.graded) for s in scores]),
    ]
    for name in sorted({name for card in cards.values() for name in card.baselines}):
        cells = [card.baselines.get(name) for card in cards.values()]
        rows.append((f"for comparison: {name.replace('_', ' ')}", [_estimate(cell) if cell else "-" for cell in cells]))
    first = next(iter(cards.values()), None)
    title = (
        f"{first.scores.exact_match.questions} questions, split {first.notes.get('split')}"
        if first
        else "no evaluation"
    )
    width = max(len(label) for label, _ in rows) + 2
    lines = [label.ljust(width) + "".join(cell.rjust(16) for cell in cells) for label, cells in rows]
    return "\n".join(["", title, *lines, ""])


def plot(folder: RunFolder, cards: dict[str, ResultCard]) -> None:
    """Draw ``curve.png``: SFT loss, RL score per step, held-out success of each checkpoint."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    sft, rl = _metrics(folder.root / "sft" / "metrics.jsonl"), _metrics(folder.root / "rl" / "metrics.jsonl")
    left.plot([row["step"] for row in sft], [row["train/loss"] for row in sft], linewidth=1)
    left.set(title="SFT: training loss", xlabel="step", ylabel="nats per token")
    for name, label in (("episode/score", "success"), ("turn/format_error", "format errors")):
        middle.plot([row["step"] for row in rl], [row.get(name) for row in rl], marker=".", label=label)
    middle.set(title=f"RL ({folder.config.rl.algorithm}): training rollouts", xlabel="step", ylim=(-0.02, 1.02))
    middle.legend(loc="best")
    hops = sorted({number for card in cards.values() for number in card.scores.exact_match_by_hops})
    for offset, (name, card) in enumerate(cards.items()):
        estimates = [card.scores.exact_match, *(card.scores.exact_match_by_hops.get(number) for number in hops)]
        positions = [index + 0.27 * (offset - (len(cards) - 1) / 2) for index in range(len(estimates))]
        heights = [e.mean or 0.0 if e else 0.0 for e in estimates]
        errors = [e.standard_error or 0.0 if e else 0.0 for e in estimates]
        right.bar(positions, heights, 0.25, yerr=errors, capsize=2, label=name)
    right.set_xticks(range(len(hops) + 1), ["all", *(f"{number} hop{'s' if number != 1 else ''}" for number in hops)])
    right.set(title="held-out success (±1 standard error)", ylim=(0, 1))
    if cards:
        right.legend(loc="best")
    temporary = folder.root / "curve.tmp.png"
    figure.savefig(temporary, dpi=110)
    temporary.replace(folder.root / "curve.png")


def _next_lines(folder: RunFolder) -> str:
    root, config = folder.root, folder.config
    policies = [path for name in ("rl", "sft") if (path := root / name / "model").is_dir()]
    load = f"load it:    AutoModelForCausalLM.from_pretrained({str(policies[0])!r})\n" if policies else ""
    return (
        f"run folder: {root}  (result.json, curve.png, config.yaml, eval/, sft/, rl/)\n"
        f"more RL:    python -m venus_rl.train --config {root / 'config.yaml'} rl.steps={2 * max(config.rl.steps, 1)}\n"
        f"compare:    python -m venus_rl.train --config {root / 'config.yaml'} run.dir={root}-grpo rl.algorithm=grpo\n"
    ) + load


def _stage_seconds(folder: RunFolder) -> dict[str, float]:
    markers = {name: folder.root / name / "finished.json" for name in ("sft", "rl")}
    return {name: json.loads(path.read_text())["seconds"] for name, path in markers.items() if path.exists()}


def _metrics(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _estimate(estimate: Estimate) -> str:
    if estimate.mean is None:
        return "-"
    return f"{estimate.mean:.3f}" + (f" ±{estimate.standard_error:.3f}" if estimate.standard_error is not None else "")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
