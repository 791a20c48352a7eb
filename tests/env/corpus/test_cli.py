from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from venus_env.cli import main


def run(*arguments: str) -> int:
    return main(["corpus", *arguments])


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


def test_the_library_is_chosen_and_shown(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "index")
    assert run("build", str(write(rows)), "--out", out, "--lexical", "tantivy") == 0
    assert run("info", out) == 0
    assert "lexical       tantivy " in capsys.readouterr().out
    assert run("verify", out) == 0
    assert run("search", out, "silk weavers", "--k", "1") == 0
    assert "1. Lyon" in capsys.readouterr().out


def test_errors_are_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("build", str(tmp_path / "absent.jsonl"), "--out", str(tmp_path / "index")) == 2
    error = capsys.readouterr().err
    assert error.startswith("CorpusError: ")
    assert error.count("\n") == 1
    assert run("search", str(tmp_path / "absent"), "x") == 2
    with pytest.raises(SystemExit):
        run("recall", "--corpus", "x", "--tasks", "y", "--k", "2,zero")
    assert "positive numbers joined by commas" in capsys.readouterr().err


def test_what_is_left_out_is_counted_and_shown_again(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "index")
    rows[3]["text"] = rows[0]["text"].upper()
    source = write([*rows, {"id": "bad"}])
    assert run("build", str(source), "--out", out) == 2
    assert "pages.jsonl, line 6: 'url' must be a non-blank string" in capsys.readouterr().err
    options = ("--on-error", "skip", "--duplicates", "drop", "--workers", "2")
    assert run("build", str(source), "--out", out, *options) == 0
    built = capsys.readouterr().out
    assert "4 passages on 4 pages" in built
    for command in ((), ("info", out)):
        if command:
            assert run(*command) == 0
            built = capsys.readouterr().out
        assert "1 bad rows or files left out: " in built
        assert "1 duplicates dropped: " in built
    assert "pages.jsonl (passages)" in built
    assert run("verify", out) == 0
    assert "sound; 4 passages on 4 pages" in capsys.readouterr().out
    assert run("build", str(source), "--out", out, "--url-base", "ftp://x") == 2
    assert capsys.readouterr().err.startswith("BuildOptions: url_base: ")


def test_coverage_table_json_and_reachable_tasks(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [
        {"id": "1", "question": "Where was Curie born?", "answers": ["Warsaw"], "supporting_titles": ["Marie Curie"]},
        {"id": "2", "question": "Who ruled Rome?", "answers": ["Nero"], "supporting_titles": ["Rome"]},
        {"id": "3", "question": "Who?", "answers": ["Nero"]},
    ]
    paths = [str(tmp_path / name) for name in ("coverage.json", "kept.jsonl", "index")]
    assert run("build", str(write(rows)), "--out", paths[2]) == 0
    common = ("coverage", "--corpus", paths[2], "--tasks", str(write(tasks, "tasks.jsonl")))
    capsys.readouterr()
    assert run(*common, "--json", paths[0], "--write-tasks", paths[1]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[-6].split() == ["all", "3", "1", "1", "1"]
    record = json.loads(Path(paths[0]).read_text())
    assert record["questions"][1]["reasons"] == ["not in the corpus: Rome"]
    from venus_env.tasks.loaders import load_tasks

    assert [task.id for task in load_tasks(paths[1])] == ["1"]
    assert run(*common, "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == record


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
