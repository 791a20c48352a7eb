"""What dies, fails or fills up while a run trains: no hang, a named error, nothing saved is lost, a resume works.

Real processes are killed. Every wait below is bounded; a wait that runs out is a failed test.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.rl.commands import SETTINGS, Done, jsonl, start, train, weights
from tests.rl.test_resume import RL, Start, curve
from tests.rl.test_resume import begin as begin  # fixtures
from tests.rl.test_resume import straight as straight
from tests.rl.test_resume import tasks as tasks
from venus_rl.checkpoints import complete_steps

pytest.importorskip("verl")
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]

BEGINS_S = 600.0  # until a command has done something that a test waits for
DIES_S = 180.0  # from a failure to the end of the command


def command(begin: Start, folder: Path, *overrides: str) -> subprocess.Popen[str]:
    return start(folder, *RL, f"model.path={begin.model}", f"env.tasks={begin.tasks}", "rl.steps=4", *overrides)


def wait_for(process: subprocess.Popen[str], happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BEGINS_S
    while not happened():
        assert process.poll() is None, process.communicate()[1][-4000:]
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.1)


def saved(folder: Path, stage: str, step: int) -> Callable[[], bool]:
    return lambda: step in complete_steps(folder / stage / "checkpoints")


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return ""


def kill(process: subprocess.Popen[str], actor: str) -> None:
    """Kill -9 the Ray actor whose process has ``actor`` in its name."""
    (victim,) = [one for one in family(process) if f"ray::{actor}" in title(one)]
    victim.kill()


def failed(process: subprocess.Popen[str]) -> str:
    """What a command that fails says, within its time."""
    _, err = process.communicate(timeout=DIES_S)
    assert process.returncode == 1, err[-2000:]
    assert "The same command goes on from the last checkpoint." in err
    return err


def gone(processes: list[psutil.Process], patience: float = 30.0) -> None:
    _, alive = psutil.wait_procs(processes, timeout=patience)
    assert [one for one in alive if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.parametrize(
    ("actor", "error"),
    [
        ("TransformersServer", "WorkerDied"),
        ("AgentLoopWorker", "WorkerDied"),
        ("WorkerDict", "Error"),
        ("Runner", "Error"),
    ],
)
def test_an_actor_that_dies_ends_the_run_and_a_resume_gives_the_same_curve(
    begin: Start, straight: Path, tmp_path: Path, actor: str, error: str
) -> None:
    folder = tmp_path / "run"
    process = command(begin, folder)
    wait_for(process, saved(folder, "rl", 2))
    kill(process, actor)
    assert error in failed(process)
    assert complete_steps(folder / "rl" / "checkpoints")[-1] >= 2
    begin.train(folder, "rl.steps=4")
    assert_same(folder, straight)


def assert_same(folder: Path, straight: Path) -> None:
    expected, found = curve(straight), curve(folder)
    assert [row["step"] for row in found] == [1, 2, 3, 4]
    for one, other in zip(expected, found, strict=True):
        assert other == pytest.approx(one, rel=1e-3, abs=1e-5)
    assert sorted((folder / "rl" / "trajectories").glob("step-*.jsonl")) == [
        folder / "rl" / "trajectories" / f"step-{step:05d}.jsonl" for step in (1, 2, 3, 4)
    ]


def test_a_killed_driver_leaves_nothing_behind_in_rl(begin: Start, straight: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = command(begin, folder)
    wait_for(process, saved(folder, "rl", 1))
    left = family(process)
    process.kill()
    process.communicate()
    begin.train(folder, "rl.steps=4")  # at once: it waits until the other's processes have ended
    gone(left)
    assert_same(folder, straight)


@pytest.mark.parametrize(
    ("stage", "moment"),
    [
        ("data", "data"),
        ("sft", "sft/checkpoints/global_step_16/complete.json"),
        ("eval", "eval"),
    ],
)
def test_a_killed_driver_leaves_nothing_behind(run: Done, tmp_path: Path, stage: str, moment: str) -> None:
    folder = tmp_path / "run"
    overrides = [f"stage={stage}"] if stage != "eval" else ["stage=eval", f"model.path={run.folder}/model"]
    if stage == "eval":
        overrides += ["model.init=null", "sft.enabled=false", "rl.steps=0", "eval.stages=[initial]"]
    process = start(folder, *overrides)
    wait_for(process, (folder / moment).exists)
    left = family(process)
    process.kill()
    process.communicate()
    done = train(folder, *overrides)
    gone(left)
    if stage == "sft":
        expected, found = (weights(where / "sft" / "model") for where in (run.folder, done.folder))
        assert all((found[name] - expected[name]).abs().max() < 1e-4 for name in found)
    if stage == "eval":
        expected, found = (jsonl(where / "eval/initial-trajectories.jsonl") for where in (run.folder, folder))
        assert [row["messages"] for row in found] == [row["messages"] for row in expected]


def on_a_small_disk(folder: Path, stage: str, room: int, *overrides: str) -> Path:
    """Run a command whose checkpoints go to a file system of ``room`` bytes; returns what has been saved there."""
    (folder / stage).mkdir(parents=True)
    small, copy = folder.parent / "small", folder.parent / "copy"
    small.mkdir()
    checkpoints = folder / stage / "checkpoints"
    checkpoints.symlink_to(small)
    inner = (
        f'mount -t tmpfs -o size={room} tmpfs {small} || exit 77; "$@"; status=$?; cp -r {small} {copy}; exit $status'
    )
    shell = ["unshare", "-rm", "sh", "-c", inner, "sh"]
    process = subprocess.run(
        [*shell, sys.executable, "-m", "venus_rl.train", f"run.dir={folder}", *SETTINGS, *overrides],
        capture_output=True,
        text=True,
        timeout=BEGINS_S + DIES_S,
        cwd=folder.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    if process.returncode == 77:
        pytest.skip("this machine lets nobody mount a file system of his own")
    assert process.returncode == 1, process.stderr[-3000:]
    assert "no checkpoint could be saved in" in process.stderr
    checkpoints.unlink()
    checkpoints.symlink_to(copy)
    return copy


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_full_disk_in_rl(begin: Start, straight: Path, tmp_path: Path) -> None:
    folder, one = tmp_path / "run", size(straight / "rl/checkpoints/global_step_4")
    rl = [*RL, f"model.path={begin.model}", f"env.tasks={begin.tasks}", "rl.steps=4"]
    assert complete_steps(on_a_small_disk(folder, "rl", int(2.5 * one), *rl)) == [1, 2]
    begin.train(folder, "rl.steps=4")
    assert_same(folder, straight)


def test_a_full_disk_in_sft(run: Done, tmp_path: Path) -> None:
    folder, one = tmp_path / "run", size(run.folder / "sft/checkpoints/global_step_64")
    assert complete_steps(on_a_small_disk(folder, "sft", int(2.5 * one), "stage=sft")) == [16, 32]
    train(folder, "stage=sft")
    expected, found = (weights(where / "sft" / "model") for where in (run.folder, folder))
    assert all((found[name] - expected[name]).abs().max() < 1e-4 for name in found)


# A fault in every process of the run: Python imports sitecustomize at its start.
FAULT = """
import os, time
fault = os.environ.get("VENUS_TEST_FAULT")
if fault:
    from venus_env.tools.search import SearchTool
    async def broken(self, arguments):
        if fault == "raise":
            raise OSError("the search engine is gone")
        if fault == "hang":
            import asyncio
            await asyncio.sleep(3600)
        time.sleep(3600)
    SearchTool.__call__ = broken
"""


@pytest.mark.parametrize(
    ("fault", "overrides", "error"),
    [
        ("raise", (), "TooManyExcluded"),
        ("hang", ("env.tool_timeout_s=1",), "TooManyExcluded"),
        ("block", ("rl.step_timeout_s=60",), "StepTimeout"),
    ],
)
def test_a_tool_that_fails_in_every_episode(
    begin: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, overrides: tuple[str, ...], error: str
) -> None:
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "sitecustomize.py").write_text(FAULT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "faults"), prepend=os.pathsep)
    monkeypatch.setenv("VENUS_TEST_FAULT", fault)
    process = command(begin, tmp_path / "run", "rl.max_excluded=0.01", *overrides)
    _, err = process.communicate(timeout=BEGINS_S)
    assert process.returncode == 1
    assert error in err


def test_an_interrupt_ends_everything(begin: Start, tmp_path: Path) -> None:
    process = command(begin, tmp_path / "run")
    wait_for(process, (tmp_path / "run" / "rl" / "metrics.jsonl").exists)
    left = family(process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=DIES_S)
    assert process.returncode == 130
    assert "goes on from the last checkpoint" in err
    gone(left)
