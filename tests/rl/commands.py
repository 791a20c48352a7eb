"""The command line of venus_rl.train in a process of its own, and what to look at afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROMPTS, GROUP, SFT_STEPS = 4, 4, 64
# Just enough for a policy that sometimes searches and visits.
SETTINGS = [
    "run.threads=1",
    *("model.init.layers=2", "model.init.heads=2", "model.init.feed_forward=64"),
    *("model.init.vocab_size=1024", "model.init.positions=2048"),
    *("data.oracle=512", "data.hops=[1]", "data.recover=0"),
    *(f"sft.steps={SFT_STEPS}", "sft.batch_size=8", "sft.lr=4e-3", "sft.save_every=16", "sft.keep=3"),
    *("rl.steps=2", f"rl.prompts={PROMPTS}", f"rl.group={GROUP}", "rl.hops=[1]", "rl.kl=0.001"),
    # Whatever the policy does, its penalties move it; and each call that it gets right is scored.
    *("rl.normalisation=separate_penalty", "rl.assignment=every_turn", "rollout.temperature=0.5"),
    "eval.questions=8",
]


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    folder: Path
    out: str
    err: str
    seconds: float


def start(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "venus_rl.train", f"run.dir={folder}", *SETTINGS, *overrides]
    pipe = subprocess.PIPE
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd=folder.parent, env=environment, start_new_session=True
    )


def train(folder: Path, *overrides: str) -> Done:
    begun = time.monotonic()
    process = start(folder, *overrides)
    try:
        out, err = process.communicate()
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        raise
    assert process.returncode == 0, err[-4000:]
    return Done(folder, out, err, time.monotonic() - begun)


def jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}


def largest_change(before: dict[str, Any], after: dict[str, Any]) -> float:
    shared = before.keys() & after.keys()
    assert len(shared) >= len(after) - 1  # the tied output matrix may be stored or not
    return max(float((after[name] - before[name]).abs().max()) for name in shared)


def stamps(folder: Path) -> dict[str, int]:
    """When each file of the stages was last written."""
    paths = [path for path in folder.glob("*/**/*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in paths}
