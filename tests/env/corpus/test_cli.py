from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from venus_env.corpus.cli import add_corpus_parser


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    add_corpus_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["corpus", *arguments])
    status: int = args.run(args)
    return status


def test_build_then_search(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "index")
    assert run("build", str(write(rows)), "--out", out, "--json") == 0
    assert json.loads(capsys.readouterr().out)["pages"] == 4
    assert run("search", out, "silk weavers", "--k", "1") == 0
    assert "1. Lyon" in capsys.readouterr().out
    assert run("search", out, "silk weavers", "--k", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["id"] == "lyon-2"


def test_errors_are_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("build", str(tmp_path / "absent.jsonl"), "--out", str(tmp_path / "index")) == 2
    error = capsys.readouterr().err
    assert error.startswith("CorpusError: ")
    assert error.count("\n") == 1
    assert run("search", str(tmp_path / "absent"), "x") == 2
    with pytest.raises(SystemExit):
        run("recall", "--corpus", "x", "--tasks", "y", "--k", "2,zero")
    assert "positive numbers joined by commas" in capsys.readouterr().err


def test_recall_on_real_questions(wiki7k: Path, wiki7k_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("venus_env.tasks.loaders")
    arguments = ("--corpus", str(wiki7k_index), "--tasks", str(wiki7k / "questions.jsonl"), "--k", "2,5,10")
    assert run("recall", *arguments, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["questions"], result["skipped"]) == (50, 28)
    assert result["at"]["10"] >= 0.86
    assert result["at"]["5"] >= 0.70
    assert result["at"]["2"] >= 0.52
    assert run("recall", *arguments) == 0
    assert "recall@10" in capsys.readouterr().out
