"""Runs a stage in a process of its own: log to a file, progress on the terminal, no orphan left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

# Outlives a driver that is killed without a chance to clean up, and ends what it has left. The lock of the run folder,
# which this process inherits, is free once it has.
_GUARD = """
import os, signal, sys, time
if sys.stdin.read() != "done":
    for number, patience in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 2.0)):
        try:
            os.killpg(int(sys.argv[1]), number)
        except ProcessLookupError:
            break
        time.sleep(patience)
"""


class StageFailed(RuntimeError):
    """A stage process ended with an error; the message holds the end of its log."""


def stage_environment(threads: int, kind: str = "cpu") -> dict[str, str]:
    """Environment of a verl process: verl's own switches, none of ours.

    Args:
        threads: torch threads per process.
        kind: ``cpu`` or ``cuda``.
    """
    return {
        **os.environ,
        "VERL_PLATFORM": "cpu" if kind == "cpu" else "nvidia",
        "VERL_USE_EXTERNAL_MODULES": "venus_rl.verl_plugin",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(threads),
        "RAY_worker_niceness": "0",  # Ray's default of 15 starves workers beside any other load
        "RAY_raylet_start_wait_time_s": "180",  # a busy machine takes longer than the default of 30 s
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
    }


def run_stage(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    metrics: Path,
    done: int = 0,
    total: int,
    label: str,
    show: Mapping[str, str],
    lock: int | None = None,
) -> None:
    """Run ``command`` to its end, following its metrics file.

    Args:
        command: Program and arguments.
        log: File that collects its output (appended).
        environment: Its environment.
        metrics: JSONL file that it writes one line per step to.
        done: Steps that an earlier attempt has done.
        total: Expected steps, for the progress bar.
        label: Name on the progress bar.
        show: Metric name → short name of what the bar shows.
        lock: File descriptor of the run folder's lock; it stays held until nothing of the stage is left, even when this
            process is killed.

    Raises:
        StageFailed: The process failed.
        KeyboardInterrupt: Passed on after the process group has ended; SIGTERM counts as one.
    """
    stale = _changed(metrics)
    bar = tqdm(total=total, initial=done, desc=label, unit="step", file=sys.stderr)
    with log.open("ab") as output, _terminable(), bar:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=dict(environment), start_new_session=True
        )
        with _guarded(process.pid, lock):
            try:
                while process.poll() is None:
                    time.sleep(0.5)
                    if _changed(metrics) != stale:
                        _follow(metrics, bar, show)
            except BaseException:
                _end_group(process)
                raise
        if _changed(metrics) != stale:
            _follow(metrics, bar, show)
    if process.returncode != 0:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-25:]
        raise StageFailed(
            f"{label} failed (exit status {process.returncode}); the end of {log}:\n  " + "\n  ".join(tail)
        )


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM (a job scheduler's, a container's) end the stage as Ctrl-C does, instead of orphaning it."""

    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only there Python allows handlers
        yield
        return
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def _guarded(group: int, lock: int | None) -> Iterator[None]:
    """End the process group if this process is killed before the block is left."""
    command = [sys.executable, "-I", "-S", "-c", _GUARD, str(group)]
    held = () if lock is None else (lock,)
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=held, start_new_session=True)
    try:
        yield
    finally:
        guard.communicate(b"done")


def _changed(path: Path) -> int | None:
    """When a file was last written; None if there is none."""
    return path.stat().st_mtime_ns if path.exists() else None


def _follow(metrics: Path, bar: Any, show: Mapping[str, str]) -> None:
    if not metrics.exists():
        return
    lines = metrics.read_text(encoding="utf-8", errors="replace").splitlines()
    try:
        row = json.loads(lines[-1]) if lines else {}
    except json.JSONDecodeError:
        return  # a line is being written
    values = {**row, **row.get("data", {})}  # verl's file logger nests its metrics
    if "step" in values:
        bar.set_postfix({short: f"{values[name]:.3g}" for name, short in show.items() if name in values}, refresh=False)
        bar.update(int(values["step"]) - bar.n)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number, patience in ((signal.SIGTERM, 20.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
