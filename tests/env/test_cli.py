import subprocess
import sys

import pytest

from venus_env.cli import main

COMMANDS = ["play", "rollout", "rescore", "show", "corpus", "check"]


@pytest.mark.parametrize("arguments", [["--help"], *([command, "--help"] for command in COMMANDS)])
def test_help_has_examples(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    assert "examples:" in capsys.readouterr().out


def test_wrong_arguments_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["play", "--episodes", "0"])
    assert stop.value.code == 2
    assert "positive whole number" in capsys.readouterr().err


def test_corpus_commands_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus", "search", "embedded", "Paris", "--k", "1"]) == 0
    assert "https://venus.wiki/" in capsys.readouterr().out


def test_a_reader_may_stop_reading() -> None:
    command = f"{sys.executable} -m venus_env play --episodes 20 --json | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith('{"schema": "venus.trajectory/1"')
    assert done.stderr == ""
