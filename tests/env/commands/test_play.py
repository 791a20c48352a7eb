import asyncio
import io
import json
from collections.abc import Sequence

import pytest

from venus_env.cli import main
from venus_env.protocol.prompt import render_answer
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message


def test_play_shows_an_episode(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "--seed", "3", "--split", "dev"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("[question]\n  ")
    assert "[policy]\n  <think>" in out
    assert "[end] answered, score 1.0, accepted: " in out
    assert "1 episodes: score 1.000" in out


def test_json_is_one_trajectory_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "--episodes", "3", "--json", "--prompt", "compact"]) == 0
    lines = capsys.readouterr().out.splitlines()
    trajectories = [Trajectory.model_validate_json(line) for line in lines]
    assert [trajectory.score for trajectory in trajectories] == [1.0] * 3
    assert len({trajectory.task["id"] for trajectory in trajectories}) == 3
    assert json.loads(lines[0])["schema"] == "venus.trajectory/1"
    main(["play", "--episodes", "3", "--json", "--prompt", "compact"])
    assert capsys.readouterr().out.splitlines() == lines


def test_random_policy_plays_to_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "--policy", "random", "--episodes", "5", "--max-turns", "4", "--json"]) == 0
    trajectories = [Trajectory.model_validate_json(line) for line in capsys.readouterr().out.splitlines()]
    assert all(trajectory.end != "running" for trajectory in trajectories)


def test_a_person_can_play(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["", "search", "search Paris", "visit https://venus.wiki/Paris", "<nonsense", "answer Paris is a city"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    assert main(["play", "--policy", "human"]) == 0
    out = capsys.readouterr().out
    assert out.count("Type one line per turn") == 3  # at the start and after each line that says nothing
    assert "https://venus.wiki/" in out
    assert "Error: there is no <think></think> block" in out
    assert "[end] answered" in out


class Patient:
    """Waits a moment, then answers."""

    async def act(self, messages: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        return render_answer("", "Paris")


@pytest.mark.parametrize("policy", [f"{__name__}:Patient", "venus_env.policies.random:RandomPolicy"])
def test_a_policy_of_your_own_plays(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "--policy", policy, "--max-turns", "4", "--json"]) == 0
    trajectory = Trajectory.model_validate_json(capsys.readouterr().out)
    assert trajectory.end != "running"
    assert (trajectory.messages[2]["content"] == render_answer("", "Paris")) == policy.endswith("Patient")


def test_input_may_end(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("search Paris\n"))
    assert main(["play", "--policy", "human"]) == 0
    assert "left unfinished" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "no/such/corpus"], "no such corpus"),
        (["--tasks", "no-such-file.jsonl"], "no-such-file.jsonl"),
        (["--split", "nope"], "nope"),
        (["--policy", "openai"], "--policy openai: give oracle, random, human, or module:attribute"),
        (["--policy", "json:dumps"], "--policy 'json:dumps'"),
        (["--task-id", "nope"], "there is no task 'nope'"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
