from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.env.commands.conftest import Run
from venus_env.cli import main
from venus_env.evaluation.trajectory_file import read_trajectories


def rescore(folder: Path, *arguments: str, source: str = "x.jsonl", out: str = "y.jsonl") -> int:
    return main(["rescore", str(folder / source), "--out", str(folder / out), "--force", *arguments])


def test_the_settings_of_the_recording_are_the_defaults(rollout: Run, tmp_path: Path) -> None:
    rollout("random", "--env", "rewards.outcome=em", "rewards.gain_kind=prob_diff")
    assert rescore(tmp_path) == 0
    assert (tmp_path / "y.jsonl").read_bytes() == (tmp_path / "x.jsonl").read_bytes()
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "x.jsonl").read_bytes()))
    assert rescore(tmp_path, source=packed.name) == 0
    assert (tmp_path / "y.jsonl").read_bytes() == (tmp_path / "x.jsonl").read_bytes()
    rollout("random", "--belief", "none", out="blind.jsonl")
    assert rescore(tmp_path, source="blind.jsonl") == 0
    assert (tmp_path / "y.jsonl").read_bytes() == (tmp_path / "blind.jsonl").read_bytes()


def test_other_rewards(rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollout("oracle")
    capsys.readouterr()
    assert rescore(tmp_path, "--rewards", "information_gain=false", "outcome=em") == 0
    assert all(each.metrics["return"] == 1.0 for each in read_trajectories(tmp_path / "y.jsonl"))
    old = sum(each.metrics["return"] for each in read_trajectories(tmp_path / "x.jsonl")) / 6
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["graded", "6", "6"] in lines
    assert ["score", "1.0000", "1.0000"] in lines
    assert ["return", f"{old:.4f}", "1.0000"] in lines
    assert any("belief: none" in " ".join(line) for line in lines)


def test_a_belief_of_your_own(rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "tests.env.commands.conftest:NewestWords"
    rollout("oracle")
    rollout("oracle", "--belief", name, out="own.jsonl")
    assert (tmp_path / "own.jsonl").read_bytes() != (tmp_path / "x.jsonl").read_bytes()
    assert json.loads((tmp_path / "own.jsonl.json").read_text())["belief"] == name
    assert rescore(tmp_path, "--belief", name) == 0
    assert f"belief: {name}" in capsys.readouterr().out
    assert list(read_trajectories(tmp_path / "y.jsonl")) == list(read_trajectories(tmp_path / "own.jsonl"))
    assert rescore(tmp_path, source="own.jsonl") == 0  # the belief of the recording is the default
    assert list(read_trajectories(tmp_path / "y.jsonl")) == list(read_trajectories(tmp_path / "own.jsonl"))


def test_a_file_is_overwritten_on_request_only(
    rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollout("random", "--episodes", "1")
    target = tmp_path / "y.jsonl"
    target.write_text("precious\n")
    command = ["rescore", str(tmp_path / "x.jsonl"), "--out", str(target)]
    assert main(command) == 2
    assert "y.jsonl exists already: name another file, or overwrite it with --force" in capsys.readouterr().err
    assert target.read_text() == "precious\n"
    assert main([*command, "--force"]) == 0
    assert target.read_text() != "precious\n"


class Strict:
    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> float:
        return 0.25


def test_a_judge_and_its_absence(rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollout("oracle", "--judge", f"{__name__}:Strict")
    assert rescore(tmp_path) == 0
    assert f"{__name__}:Strict graded the recording" in capsys.readouterr().err
    assert {each.score for each in read_trajectories(tmp_path / "y.jsonl")} == {1.0}
    assert rescore(tmp_path, "--judge", f"{__name__}:Strict") == 0
    assert (tmp_path / "y.jsonl").read_bytes() == (tmp_path / "x.jsonl").read_bytes()


def test_bad_input_is_one_line_and_leaves_the_output_alone(
    rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollout("random")
    rescore(tmp_path)
    before = (tmp_path / "y.jsonl").read_bytes()
    lines = (tmp_path / "x.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "torn.jsonl").write_bytes(lines[0] + lines[1][:50])
    bare = json.loads(lines[0])
    del bare["task"]["answers"]
    (tmp_path / "bare.jsonl").write_text(json.dumps(bare) + "\n")
    capsys.readouterr()
    for source, arguments, message in [
        ("torn.jsonl", [], "torn.jsonl, line 2: the file breaks off"),
        ("bare.jsonl", [], "has no accepted answers"),
        ("gone.jsonl", [], "no trajectory file at"),
        ("y.jsonl", [], "is the input itself"),
        (
            "x.jsonl",
            ["--rewards", "outcom=em"],
            "--rewards outcom=em: there is no setting 'outcom'; the nearest one is",
        ),
        ("x.jsonl", ["--belief", "psychic"], "belief 'psychic' is unknown"),
        ("x.jsonl", ["--judge", "json:dumps"], "--judge 'json:dumps'"),
        ("x.jsonl", ["--corpus", "nowhere"], "no such corpus"),
    ]:
        assert rescore(tmp_path, *arguments, source=source) == 2
        error = capsys.readouterr().err
        assert message in error
        assert "Traceback" not in error
        assert (tmp_path / "y.jsonl").read_bytes() == before


def test_a_corpus_that_has_changed_is_refused(rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollout("random")
    header = tmp_path / "x.jsonl.json"
    changed = json.loads(header.read_text()) | {"corpus_hash": "0" * 64}
    header.write_text(json.dumps(changed))
    assert rescore(tmp_path) == 2
    assert "is not the corpus of the recording any more" in capsys.readouterr().err
    assert rescore(tmp_path, "--corpus", "embedded") == 0
