from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.rl.data.test_pipeline import row, write
from venus_rl.data.cli import main


def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.jsonl", row(0), row(1, answer="Rhine"), {"no": 1})
    command = ["clean", str(path), "--out", str(tmp_path / "out"), "--quiet", "correctness=exact", "seed=3"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "3 rows read, 1 kept, 2 rejected; 1 written with copies" in out
    assert "correctness: wrong 1" in out
    assert main(command) == 0
    assert "(made before)" in capsys.readouterr().out


def test_nothing_left_is_a_failure_that_says_where_to_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.jsonl", {"no": 1})
    assert main(["clean", str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 1
    assert "rejected.parquet says why" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.jsonl"], "nothing.jsonl: no such file"),
        (["seed=1"], "there is no input"),
        (["{file}", "sed=1"], "unknown key 'sed'; did you mean 'seed'"),
        (["{file}", "multipliers=[1]"], "one entry more than thresholds"),
        (["{file}", "thresholds=[9,3]"], "thresholds must ascend"),
        (["{file}", "correctness=llm"], "needs judge.url and judge.model"),
        (["{file}", "prompt_file=nowhere.txt"], "nowhere.txt"),
        (
            ["{file}", "correctness=llm", "judge.url=http://x", "judge.model=m", "judge.key_variable=NO_SUCH_KEY"],
            "judge.key_variable=NO_SUCH_KEY",
        ),
        (["{file}", "correctness=llm", "judge.url=x", "judge.model=m"], "must start with http"),
    ],
)
def test_wrong_input_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    path = write(tmp_path / "a.jsonl", row(0))
    given = [argument.format(file=path) for argument in arguments]
    assert main(["clean", *given, "--out", str(tmp_path / "out"), "--quiet"]) == 2
    assert message in capsys.readouterr().err


def test_settings_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "clean.yaml").write_text("thresholds: []\nmultipliers: [3]\n")
    path = write(tmp_path / "a.jsonl", row(0))
    assert main(["clean", str(path), "--out", str(tmp_path), "--quiet", "--config", str(tmp_path / "clean.yaml")]) == 0
    (report,) = tmp_path.glob("clean-*/report.json")
    assert json.loads(report.read_text())["rows"]["written"] == 3


def test_help_lists_keys_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["clean", "--help"])
    shown = capsys.readouterr().out
    assert "judge.max_requests=null" in shown
    assert "examples:" in shown
