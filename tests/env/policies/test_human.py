from __future__ import annotations

import io

import pytest

from venus_env.policies.human import HumanPolicy
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.turns import Message

OPENING: list[Message] = [{"role": "system", "content": "s"}, {"role": "user", "content": "Which city?"}]


def write(lines: str, monkeypatch: pytest.MonkeyPatch, show: bool = False) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines + "\n"))
    return HumanPolicy(show).act(OPENING)


def test_short_commands_stand_for_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    visit = {"url": ["http://x"], "goal": "its mayor"}
    assert write("search Rome city", monkeypatch) == render_call("", "search", {"query": ["Rome city"]})
    assert write("visit http://x  its mayor", monkeypatch) == render_call("", "visit", visit)
    assert write("visit http://x", monkeypatch) == render_call("", "visit", visit | {"goal": "Which city?"})
    assert write("answer  Rome ", monkeypatch) == render_answer("", "Rome")
    assert write("<anything", monkeypatch) == "<anything"


def test_asks_until_it_understands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Rome" in write("\nsearch\nfly away\nanswer Rome", monkeypatch)
    out = capsys.readouterr().out
    assert out.count("Type one line per turn") == 4
    assert "Which city?" not in out  # the driver shows the conversation
    write("answer Rome", monkeypatch, show=True)
    assert "Which city?" in capsys.readouterr().out


def test_the_end_of_the_input_is_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(EOFError):
        HumanPolicy().act(OPENING)
