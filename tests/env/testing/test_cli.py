import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from venus_env.testing.cli import add_check_parser

MODULE = """
import venus_env
from tests.env.protocol.tools import Lookup
from tests.env.testing.test_belief import Counting
from tests.env.testing.test_corpus import Small, WorstFirst
from tests.env.testing.test_env import Small as SmallEnv
from tests.env.testing.test_judge import Exact
from tests.env.testing.test_policy import Plain
from venus_env.policies import OraclePolicy
class Unnamed(Lookup):
    name = "two words"
number = 3
"""
PASSAGE = {"id": "1", "url": "https://x/lund", "title": "Lund", "text": "Lund is a city in Sweden."}
TASK = {"id": "1", "question": "In which country is Lund?", "answers": ["Sweden"]}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "mine_to_check.py").write_text(MODULE)
    evidence = [{"url": "https://x/lund", "title": "Lund"}]
    (tmp_path / "tasks.jsonl").write_text(json.dumps({**TASK, "evidence": evidence}))
    (tmp_path / "wrong.jsonl").write_text(json.dumps({**TASK, "answers": []}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("mine_to_check", None)


def check(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    add_check_parser(parser.add_subparsers())
    args = parser.parse_args(["check", *arguments])
    status: int = args.run(args)
    return status


@pytest.mark.parametrize(
    ("arguments", "status", "shown"),
    [
        (("tool", "mine_to_check:Lookup", "--example", '{"query": "lund"}'), 0, "  ✓ concurrency"),
        (("tool", "mine_to_check:Unnamed"), 1, "  ✗ name\n      expected a name of letters"),
        (("judge", "mine_to_check:Exact"), 0, "judge Exact"),
        (("judge", "mine_to_check:Exact", "--question", "q", "--answer", "a", "--wrong", "b"), 0, "  ✓ wrong answer"),
        (("judge", "mine_to_check:Lookup"), 1, "async def grade"),
        (("belief", "mine_to_check:Counting"), 0, "11 checks: 11 passed"),
        (("belief", "lexical"), 0, "belief LexicalBelief"),
        (("corpus", "mine_to_check:Small", "--query", "Lund"), 0, "corpus Small"),
        (("corpus", "mine_to_check:WorstFirst", "--query", "Elbe river city"), 1, "best hit first"),
        (("policy", "mine_to_check:Plain", "--nondeterministic"), 0, "  - interleaving\n      played, not compared"),
        (("policy", "mine_to_check:OraclePolicy"), 0, "policy OraclePolicy"),
        (("env", "mine_to_check:SmallEnv"), 0, "env Small"),
        (
            ("tasks", "tasks.jsonl"),
            0,
            "  - evidence pages\n      no corpus to look for the evidence in; give one (corpus=…, --corpus)",
        ),
        (("tasks", "tasks.jsonl", "--corpus", "mine_to_check:Small"), 0, "1 pages of 1 tasks"),
        (("tasks", "wrong.jsonl"), 1, "row 1: column 'answers'"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else None,
)
def test_reports(arguments: Sequence[str], status: int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(*arguments) == status
    assert shown in capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("tool", "mine_to_check:Unnamed", "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["checks"][0]["name"] == "name"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tool", "no_such_module:x"), "there is no module 'no_such_module'"),
        (("policy", "mine_to_check:nothing"), "has no attribute 'nothing'"),
        (("judge", "mine_to_check"), "expected module:attribute"),
        (("judge", "mine_to_check:Exact", "--answer", "a"), "give all of --question"),
        (("env", "NoSuchEnv-v0"), "NoSuchEnv"),
        (("env", "no_such_module:NoSuchEnv-v0"), "no_such_module"),
        (("env", "mine_to_check:number"), "is a int, no gymnasium.Env"),
        (("belief", "lexical", "--corpus", "no/such/folder"), "no/such/folder"),
        (("belief", "lexcial"), "lexcial"),
        (("corpus", "no/such/folder"), "no/such/folder"),
        (("tasks", "nothing.jsonl"), "there is no such file"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else None,
)
def test_what_names_nothing_is_one_line(
    arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(*arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert output.err.count("\n") == 1


def test_an_example_must_be_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        check("tool", "mine_to_check:Lookup", "--example", "lund")
    assert "expected an object such as" in capsys.readouterr().err


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        check("--help")
    assert "python -m venus_env check tool my_tools:Calculator" in capsys.readouterr().out
