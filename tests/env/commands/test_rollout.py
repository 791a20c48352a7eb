from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.env.commands.conftest import Run
from venus_env.evaluation.card import read_card
from venus_env.evaluation.trajectory_file import read_trajectories
from venus_env.policies.openai import OpenAIPolicy
from venus_env.protocol.prompt import render_answer
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message


class Flaky:
    """Answers; its server is down for every second question, until it is repaired."""

    broken = True
    asked: list[str]

    def act(self, messages: Sequence[Message]) -> str:
        Flaky.asked.append(messages[1]["content"])
        if Flaky.broken and len(messages[1]["content"]) % 2:
            raise ConnectionError("server down")
        return render_answer("", "Paris")


@pytest.fixture(autouse=True)
def _fresh_policy() -> None:
    Flaky.broken, Flaky.asked = True, []


FLAKY = f"{__name__}:Flaky"


def recorded(folder: Path, name: str = "x.jsonl") -> list[Trajectory]:
    return list(read_trajectories(folder / name))


def identities(trajectories: Sequence[Trajectory]) -> set[tuple[Any, Any]]:
    return {(each.task["id"], each.seed) for each in trajectories}


def test_episodes_header_and_card_are_written(rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rollout("oracle", "--samples", "2", "--max-turns", "9", "--env", "top_k=5", "rewards.outcome=em") == 0
    episodes = recorded(tmp_path)
    assert [each.score for each in episodes] == [1.0] * 12
    assert len({each.task["id"] for each in episodes}) == 6
    assert any("information_gain" in turn.reward_terms for turn in episodes[0].turns)
    out = capsys.readouterr().out
    assert "12, of which 12 graded  (answered 12)" in out
    assert "score           1.000 ±0.000  (6 questions)" in out
    assert str(tmp_path / "x.jsonl") in out
    header = json.loads((tmp_path / "x.jsonl.json").read_text())
    assert header["schema"] == "venus.rollout/1"
    assert (header["env"]["top_k"], header["env"]["max_turns"], header["rewards"]["outcome"]) == (5, 9, "em")
    assert (header["policy"], header["split"], header["belief"]) == ({"name": "oracle"}, "dev", "lexical")
    card = read_card(tmp_path / "x.jsonl.card.json")
    assert (card.scores.episodes, card.corpus_hash) == (12, header["corpus_hash"])


def test_the_same_command_plays_what_is_missing(
    rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollout("random", "--samples", "2")
    path = tmp_path / "x.jsonl"
    whole = recorded(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:100])  # a crash while the sixth was being written
    assert rollout("random", "--samples", "2") == 0
    assert path.read_bytes().splitlines(keepends=True)[:5] == lines[:5]
    again = recorded(tmp_path)
    assert sorted(again, key=str) == sorted(whole, key=str)
    assert "5 episodes are there already" in capsys.readouterr().err
    assert rollout("random", "--samples", "2") == 0
    assert "[00:00" not in capsys.readouterr().err  # no progress bar where nothing is left to play
    # More samples and more tasks add to what is there.
    assert rollout("random", "--samples", "3", "--episodes", "8") == 0
    more = recorded(tmp_path)
    assert more[:12] == again
    assert len(identities(more)) == len(more) == 24


def test_failed_episodes_are_played_again_on_request(
    rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rollout(FLAKY) == 0
    first = recorded(tmp_path)
    failed = [each for each in first if each.end == "aborted"]
    assert 0 < len(failed) < 6
    Flaky.broken, Flaky.asked = False, []
    rollout(FLAKY)
    assert Flaky.asked == []
    assert (
        f"{len(failed)} of which the infrastructure ended (--retry-failed plays those again)" in capsys.readouterr().err
    )
    with (tmp_path / "x.jsonl").open("a") as file:
        file.write('{"schema": "venus')  # a crash
    rollout(FLAKY, "--retry-failed")
    assert len(Flaky.asked) == len(failed)
    again = recorded(tmp_path)
    assert {each.end for each in again} == {"answered"}
    assert identities(again) == identities(first)
    kept = [each for each in first if each.end != "aborted"]
    assert again[: len(kept)] == kept


def test_nothing_graded_is_status_1(rollout: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert rollout(f"{__name__}:Down") == 1
    assert "6, of which 0 graded  (aborted 6)" in capsys.readouterr().out


class Down:
    def act(self, messages: Sequence[Message]) -> str:
        raise ConnectionError("server down")


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        (["--seed", "1"], "seed was 0, now 1"),
        (["--env", "top_k=5"], "env.top_k was 10, now 5"),
        (["--env", "rewards.outcome=em"], 'rewards.outcome was "f1", now "em"'),
        (["--belief", "none"], 'belief was "lexical", now null'),
        (["--policy", "oracle"], 'policy.name was "random", now "oracle"'),
        (["--split", "test"], 'split was "dev", now "test"'),
    ],
)
def test_other_settings_are_refused(
    rollout: Run, changed: list[str], difference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollout("random", "--episodes", "1")
    before = (tmp_path / "x.jsonl").read_bytes()
    capsys.readouterr()
    assert rollout("random", *changed) == 2
    error = capsys.readouterr().err
    assert difference in error
    assert error.count("\n") == 1
    assert (tmp_path / "x.jsonl").read_bytes() == before


def test_an_edited_policy_is_refused(rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "edited_policy.py"
    source = "from venus_env.policies.random import RandomPolicy\nplay = RandomPolicy(seed=0)\n"
    module.write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        assert (rollout("edited_policy:play"), rollout("edited_policy:play")) == (0, 0)
        module.write_text(source + "# better\n")
        capsys.readouterr()
        assert rollout("edited_policy:play") == 2
    assert "policy.source_hash was " in capsys.readouterr().err


def test_changed_tasks_are_refused_and_moved_ones_are_not(
    rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": f"q{number}", "question": f"Where is {number}?", "answers": ["x"]} for number in range(3)]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:2]))

    def run(tasks: str) -> int:
        return rollout("random", "--tasks", str(tmp_path / tasks), "--split", "all", "--episodes", "2")

    assert (run("a.jsonl"), run("b.jsonl")) == (0, 0)
    assert run("c.jsonl") == 2
    assert "tasks_hash was" in capsys.readouterr().err


def test_a_file_without_header_and_a_damaged_header_are_refused(
    rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollout("random", "--episodes", "1")
    header = tmp_path / "x.jsonl.json"
    header.write_text("{}")
    assert rollout("random") == 2
    assert "is no header of a trajectory file" in capsys.readouterr().err
    header.unlink()
    assert rollout("random") == 2
    assert "exists, but not x.jsonl.json" in capsys.readouterr().err
    (tmp_path / "x.jsonl").unlink()
    assert rollout("random", "--episodes", "1") == 0


def test_a_recording_is_replayed(rollout: Run, tmp_path: Path) -> None:
    rollout("random", "--samples", "2")
    assert rollout("replay", "--recording", str(tmp_path / "x.jsonl"), "--samples", "2", out="again.jsonl") == 0
    assert sorted(recorded(tmp_path, "again.jsonl"), key=str) == sorted(recorded(tmp_path), key=str)


def test_a_judge_grades(rollout: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollout("random", "--judge", f"{__name__}:HalfRight")
    assert {each.score for each in recorded(tmp_path)} == {0.5}
    assert read_card(tmp_path / "x.jsonl.card.json").judge == f"{__name__}:HalfRight"
    assert rollout("random") == 2
    assert f'judge was "{__name__}:HalfRight", now null' in capsys.readouterr().err


class HalfRight:
    async def grade(self, question: str, answers: Sequence[str], prediction: str) -> float:
        return 0.5


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_a_person_plays_and_leaves(
    rollout: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    handler: Any,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("search Paris\nanswer Paris\n"))
    before = signal.signal(signal.SIGINT, handler)
    try:
        assert rollout("human") == 130
    finally:
        signal.signal(signal.SIGINT, before)
    captured = capsys.readouterr()
    assert "[question]" in captured.out
    assert "https://venus.wiki/" in captured.out
    assert "the same command goes on from there" in captured.err
    assert "Traceback" not in captured.err
    assert [each.end for each in recorded(tmp_path)] == ["answered"]


def test_an_endpoint_plays_and_its_key_stays_secret(
    rollout: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requests: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        choice = {"message": {"content": render_answer("", "Paris")}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})

    original = OpenAIPolicy.__init__
    monkeypatch.setattr(
        OpenAIPolicy, "__init__", lambda *args, **kw: original(*args, **kw, transport=httpx.MockTransport(reply))
    )
    monkeypatch.setenv("MY_KEY", "s3cret")
    endpoint = ["--model", "m", "--base-url", "http://there/v1", "--api-key-env", "MY_KEY", "--temperature", "0.5"]
    assert rollout("openai", *endpoint, "--env", "max_turn_tokens=99") == 0
    assert len(requests) == 6
    assert {request.headers["Authorization"] for request in requests} == {"Bearer s3cret"}
    body = json.loads(requests[0].content)
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0.5, 99)
    assert all(each.usage["policy"]["prompt_tokens"] == 5 for each in recorded(tmp_path))
    assert "completion_tokens 12, prompt_tokens 30, requests 6" in capsys.readouterr().out
    assert all(b"s3cret" not in file.read_bytes() for file in tmp_path.iterdir())
    # Another address is no other policy, another temperature is.
    assert rollout("openai", *endpoint, "--env", "max_turn_tokens=99", "--base-url", "http://elsewhere/v1") == 0
    assert rollout("openai", *endpoint, "--env", "max_turn_tokens=99", "--temperature", "1") == 2
    assert "policy.temperature was 0.5, now 1.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["random", "--tasks", "nowhere.jsonl"], "no task file at nowhere.jsonl"),
        (["random", "--corpus", "nowhere"], "no such corpus"),
        (["random", "--split", "nope"], "has no task of split 'nope'"),
        (["random", "--episodes", "100000"], "--episodes 100000: the split has only"),
        (["random", "--belief", "psychic"], "belief 'psychic' is unknown"),
        (["random", "--env", "topk=3"], "the nearest one is 'top_k'"),
        (["random", "--out", "x.csv"], "must end in .jsonl"),
        (["radnom"], "--policy radnom: give one of oracle, random"),
        (["no.such.module:Policy"], "there is no module 'no'"),
        (["random", "--judge", "json:dumps"], "--judge 'json:dumps': "),
        (["replay"], "--policy replay needs --recording"),
        (["replay", "--recording", "nowhere.jsonl"], "no trajectory file at nowhere.jsonl"),
        (["hf"], "--policy hf needs --model"),
        (["hf", "--model", "./nowhere"], "--model ./nowhere: there is no such folder"),
        (["openai", "--model", "m"], "--policy openai needs --base-url"),
        (["openai", "--model", "m", "--base-url", "localhost:8000"], "give it with its scheme"),
        (["openai", "--model", "m", "--base-url", "http://me:pw@host/v1"], "use --api-key-env"),
        (["openai", "--model", "m", "--base-url", "http://h", "--api-key-env", "NOT_SET_AT_ALL"], "is not set"),
    ],
)
def test_bad_input_is_one_line(
    rollout: Run,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rollout(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


SLOW = """
import asyncio
from venus_env.protocol.prompt import render_answer
class Slow:
    async def act(self, messages):
        if len(messages[1]["content"]) % 2:
            await asyncio.sleep(3600)
        return render_answer("", "x")
"""


def test_ctrl_c_keeps_what_has_ended(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = ["rollout", "--policy", "slow:Slow", "--split", "dev", "--episodes", "6", "--out", "x.jsonl"]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    process = subprocess.Popen(
        [sys.executable, "-m", "venus_env", *command], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment
    )
    path = tmp_path / "x.jsonl"
    quick = 0
    deadline = time.monotonic() + 60
    while quick == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
        quick = path.read_bytes().count(b"\n") if path.exists() else 0
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "the episodes so far are in x.jsonl" in error
    assert "Traceback" not in error
    assert len(recorded(tmp_path)) >= quick > 0
