from __future__ import annotations

from pathlib import Path

import pytest

from tests.env.commands.conftest import Run
from venus_env.cli import main
from venus_env.commands.show import render
from venus_env.evaluation.trajectory_file import read_trajectories
from venus_env.protocol.trajectory import Trajectory


def test_an_episode_is_shown_with_its_rewards(rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollout("oracle")
    path = tmp_path / "x.jsonl"
    episodes = list(read_trajectories(path))
    capsys.readouterr()
    assert main(["show", str(path), "--index", "2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"task {episodes[2].task['id']}, seed {episodes[2].seed}\n\n[question]\n")
    assert out.count("[reward]") == out.count("[policy]") == len(episodes[2].turns)
    assert "more characters)" in out
    assert "(outcome +1.000)" in out
    assert f"[end] answered, score 1.0, accepted: {episodes[2].task['answers'][0]}" in out
    main(["show", str(path), "--task-id", str(episodes[3].task["id"]), "--full"])
    out = capsys.readouterr().out
    assert "[prompt]" in out
    assert "more characters)" not in out
    assert render(episodes[3], full=True) in out


def test_all_episodes_of_a_task(rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollout("random", "--samples", "3")
    path = tmp_path / "x.jsonl"
    task_id = str(next(read_trajectories(path)).task["id"])
    capsys.readouterr()
    assert main(["show", str(path), "--task-id", task_id]) == 0
    assert capsys.readouterr().out.count(f"task {task_id}, seed ") == 3
    assert main(["show", str(path), "--task-id", task_id, "--html", str(tmp_path / "x.html")]) == 2
    assert "has 3: give --index" in capsys.readouterr().err


def test_an_episode_that_never_began_is_shown() -> None:
    lost = Trajectory(task={"id": "t"}, messages=[], turns=[], end="aborted", error="the session cannot be made")
    assert "[error] the session cannot be made\n[end] aborted, score None" in render(lost)


def test_a_page_is_written(rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollout("oracle", "--episodes", "1")
    page = tmp_path / "pages" / "x.html"
    assert main(["show", str(tmp_path / "x.jsonl"), "--html", str(page)]) == 0
    assert "<html" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--index", "6"], "--index 6: "),
        (["--task-id", "nope"], "--task-id nope: not in "),
    ],
)
def test_what_is_not_there_is_named(
    rollout: Run, arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollout("oracle")
    capsys.readouterr()
    assert main(["show", str(tmp_path / "x.jsonl"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert main(["show", str(tmp_path / "gone.jsonl")]) == 2
