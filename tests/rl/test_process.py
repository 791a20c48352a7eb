"""Stage processes are real ones here: small Python programs."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from venus_rl.process import StageFailed, _follow, run_stage, stage_environment

# A stage that starts a child of its own, notes both, and would run for a minute.
LONG = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
time.sleep(60)
"""


def start(code: str, folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
    run_stage(
        [sys.executable, "-c", code, *arguments],
        log=folder / "log.txt",
        environment=environment or dict(os.environ),
        metrics=folder / "metrics.jsonl",
        total=2,
        label="stage",
        show={"loss": "loss"},
    )


def gone(pid: int, patience: float = 5.0) -> bool:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def pids(note: Path, patience: float = 10.0) -> list[int]:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if note.exists() and len(found := note.read_text().split()) == 2:
            return [int(pid) for pid in found]
        time.sleep(0.05)
    raise AssertionError("the stage did not start")


def test_output_is_appended_to_the_log(tmp_path: Path) -> None:
    for text in ("one", "two"):
        start(f"import sys; print('{text}', flush=True); print('err', file=sys.stderr)", tmp_path)
    assert (tmp_path / "log.txt").read_text() == "one\nerr\ntwo\nerr\n"


def test_a_failure_shows_the_end_of_the_log_and_its_place(tmp_path: Path) -> None:
    code = "import sys\nfor n in range(40): print('line', n)\nsys.exit('out of memory')"
    with pytest.raises(StageFailed) as failure:
        start(code, tmp_path)
    text = str(failure.value)
    assert f"stage failed (exit status 1); the end of {tmp_path / 'log.txt'}" in text
    assert "out of memory" in text
    assert "line 39" in text
    assert "line 9\n" not in text


def test_a_killed_stage_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="exit status -9"):
        start("import os; os.kill(os.getpid(), 9)", tmp_path)


def test_the_stage_sees_the_given_environment(tmp_path: Path) -> None:
    start(
        "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['VERL_PLATFORM'])",
        tmp_path,
        environment=stage_environment(3),
    )
    assert (tmp_path / "log.txt").read_text().split() == ["3", "cpu"]


def test_stage_environment_adds_to_that_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_TEST_VARIABLE", "kept")
    environment = stage_environment(2)
    assert environment["VENUS_TEST_VARIABLE"] == "kept"
    assert environment["VERL_USE_EXTERNAL_MODULES"] == "venus_rl.verl_plugin"
    assert environment["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_orphan(number: signal.Signals, tmp_path: Path) -> None:
    note = tmp_path / "pids"

    def interrupt() -> None:
        pids(note)
        os.kill(os.getpid(), number)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        start(LONG, tmp_path, str(note))
    thread.join()
    assert all(gone(pid) for pid in pids(note))
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_stage_runs_outside_of_the_main_thread_too(tmp_path: Path) -> None:
    thread = threading.Thread(target=start, args=("print('here')", tmp_path))
    thread.start()
    thread.join()
    assert (tmp_path / "log.txt").read_text() == "here\n"


def test_a_stage_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from venus_rl import process

    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True);"
        "time.sleep(60)"
    )
    with (tmp_path / "out").open("wb") as out:
        stubborn = subprocess.Popen([sys.executable, "-c", code], stdout=out, start_new_session=True)
    while not (tmp_path / "out").read_text():
        time.sleep(0.05)
    wait = stubborn.wait
    monkeypatch.setattr(stubborn, "wait", lambda patience: wait(min(patience, 1.0)))
    process._end_group(stubborn)
    assert wait(5) == -signal.SIGKILL


class Bar(io.StringIO):
    n = 0

    def update(self, steps: int) -> None:
        self.n += steps

    def set_postfix(self, values: dict[str, str], refresh: bool) -> None:
        self.shown = values


def follow(path: Path, bar: Any, text: str | None = None) -> Any:
    if text is not None:
        path.write_text(text)
    _follow(path, bar, {"train/loss": "loss", "absent": "x"})
    return bar


def test_the_bar_follows_the_metrics_file(tmp_path: Path) -> None:
    path, bar = tmp_path / "metrics.jsonl", Bar()
    assert follow(path, bar).n == 0  # no file yet
    assert follow(path, bar, "").n == 0
    assert follow(path, bar, '{"step": 1, "train/loss": 0.51234}\n').n == 1
    assert bar.shown == {"loss": "0.512"}
    assert follow(path, bar, '{"step": 3, "data": {"train/loss": 2}}\n').n == 3  # as verl's file logger writes it
    assert bar.shown == {"loss": "2"}
    assert follow(path, bar, '{"step": 3, "data": {}}\n{"step": 4, "da').n == 3  # a line is being written


def test_a_resumed_stage_moves_the_bar_to_its_step(tmp_path: Path) -> None:
    assert follow(tmp_path / "m", Bar(), '{"step": 7}\n').n == 7


def test_rows_of_an_earlier_attempt_do_not_move_the_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"step": 5}\n')  # its step 5 was lost: the last checkpoint is that of step 4
    seen: list[int] = []
    monkeypatch.setattr("venus_rl.process._follow", lambda _path, bar, _show: seen.append(bar.n))
    run_stage(
        [sys.executable, "-c", "import time; time.sleep(0.8)"],
        log=tmp_path / "log.txt",
        environment=dict(os.environ),
        metrics=metrics,
        done=4,
        total=8,
        label="stage",
        show={},
    )
    assert seen == []
    assert "4/8" in capsys.readouterr().err


def test_a_driver_that_is_killed_leaves_no_orphan_and_no_lock(tmp_path: Path) -> None:
    import fcntl

    note, lock = tmp_path / "pids", tmp_path / "lock"
    driver = f"""
import fcntl, sys
from pathlib import Path
from tests.rl.test_process import LONG, run_stage
lock = open({str(lock)!r}, "a")
fcntl.flock(lock, fcntl.LOCK_EX)
folder = Path({str(tmp_path)!r})
run_stage([sys.executable, "-c", LONG, {str(note)!r}], log=folder / "log.txt", environment={{}}, metrics=folder / "m",
          total=1, label="stage", show={{}}, lock=lock.fileno())
"""
    process = subprocess.Popen([sys.executable, "-c", driver], stderr=subprocess.PIPE)
    left = pids(note, 30.0)
    process.kill()
    process.wait(10)
    with lock.open("a") as file:
        with pytest.raises(BlockingIOError):  # held until what is left has ended
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert all(gone(pid, 10.0) for pid in left)
        end = time.monotonic() + 10
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < end
                time.sleep(0.1)
