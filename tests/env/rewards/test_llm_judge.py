from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.env.policies.test_openai import Endpoint, completion
from venus_env.rewards.judge import Judge
from venus_env.rewards.llm_judge import JudgeError, LLMJudge, read_verdict
from venus_env.rewards.verdict_cache import VerdictCache
from venus_env.testing import check_judge

QUESTION, ANSWERS = "Which river flows through Dresden?", ("Elbe", "Labe")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    endpoint.reply = lambda number, body: completion("It is the same river.\ncorrect: yes")
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


def judge(endpoint: Endpoint, **options: Any) -> LLMJudge:
    return LLMJudge(endpoint.url, "m", **{"backoff_s": 0.0, "attempts": 1, "timeout_s": 5.0, **options})


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("correct: yes", 1.0),
        ("Because.\n\n**Correct:** **No**.\n", 0.0),
        ("<think>correct: no\nhm</think>\nCORRECT: YES", 1.0),
        ("correct: yes\ncorrect: yes", 1.0),
    ],
)
def test_verdicts(reply: str, verdict: float) -> None:
    assert read_verdict(reply) == verdict


@pytest.mark.parametrize(
    "reply",
    ["", "yes", "It is not correct: yes or no?", "correct: maybe", "correct: yes\ncorrect: no", "correct: yes or no"],
)
def test_a_reply_without_one_verdict_is_none(reply: str) -> None:
    with pytest.raises(JudgeError, match=r"correct|verdicts"):
        read_verdict(reply)


async def test_what_is_asked(endpoint: Endpoint) -> None:
    asked = judge(endpoint, api_key="secret")
    assert isinstance(asked, Judge)
    assert await asked.grade(QUESTION, ANSWERS, 'the river "Elbe" \ud800') == 1.0
    ((_, headers, body),) = endpoint.requests
    assert headers["Authorization"] == "Bearer secret"
    assert (body["temperature"], "stop" in body) == (0.0, False)
    text = body["messages"][1]["content"]
    assert QUESTION in text
    assert '["Elbe", "Labe"]' in text
    assert r"the river \"Elbe\"" in text
    await asked.aclose()


async def test_nobody_is_asked_what_is_plain(endpoint: Endpoint) -> None:
    asked = judge(endpoint)
    assert await asked.grade(QUESTION, ANSWERS, " labe. ") == 1.0
    assert await asked.grade(QUESTION, ANSWERS, " ") == 0.0
    assert endpoint.requests == []
    await asked.aclose()


async def test_a_verdict_is_asked_for_once(endpoint: Endpoint, tmp_path: Path) -> None:
    for _ in range(2):
        asked = judge(endpoint, cache=tmp_path / "sub/judge.sqlite")
        assert await asked.grade(QUESTION, ANSWERS, "the river Elbe") == 1.0
        await asked.aclose()
    assert len(endpoint.requests) == 1
    assert asked.usage["cached"] == 1
    other = judge(endpoint, cache=tmp_path / "sub/judge.sqlite")
    await other.grade(QUESTION, ("Elbe",), "the river Elbe")  # another question to the judge
    await other.aclose()
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((500, "broken", {}), "HTTP 500"),
        ((400, "no such model", {}), "refused"),
        ((200, "<html>", {}), "no chat completion"),
        (completion("I would rather not say."), "no line 'correct: yes'"),
        (completion(None), "no line"),
    ],
)
async def test_failure_is_no_verdict_and_is_not_kept(
    endpoint: Endpoint, tmp_path: Path, reply: Any, message: str
) -> None:
    good = endpoint.reply
    asked = judge(endpoint, cache=tmp_path / "judge.sqlite")
    endpoint.reply = lambda number, body: reply
    with pytest.raises(JudgeError, match=message):
        await asked.grade(QUESTION, ANSWERS, "the river Elbe")
    endpoint.reply = good
    assert await asked.grade(QUESTION, ANSWERS, "the river Elbe") == 1.0
    await asked.aclose()


async def test_a_server_that_stalls_is_left(endpoint: Endpoint) -> None:
    def stall(number: int, body: Any) -> Any:
        time.sleep(0.6)
        return completion("correct: yes")

    endpoint.reply = stall
    asked = judge(endpoint, timeout_s=0.1)
    with pytest.raises(JudgeError, match=r"no answer within 0\.1 s"):
        await asked.grade(QUESTION, ANSWERS, "the river Elbe")
    await asked.aclose()


async def test_errors_are_tried_again(endpoint: Endpoint) -> None:
    endpoint.reply = lambda number, body: (503, "busy", {}) if number < 3 else completion("correct: no")
    asked = judge(endpoint, attempts=3)
    assert await asked.grade(QUESTION, ANSWERS, "the Rhine") == 0.0
    assert (asked.usage["requests"], asked.usage["retries"]) == (3, 2)
    await asked.aclose()


async def test_budget_and_concurrency(endpoint: Endpoint) -> None:
    running: list[int] = []
    most = 0

    def reply(number: int, body: Any) -> Any:
        nonlocal most
        running.append(number)
        most = max(most, len(running))
        time.sleep(0.02)
        running.pop()
        return completion("correct: yes")

    endpoint.reply = reply
    asked = judge(endpoint, concurrency=3, max_requests=7)
    made = await asyncio.gather(
        *(asked.grade(QUESTION, ANSWERS, f"river {number}") for number in range(12)), return_exceptions=True
    )
    assert made.count(1.0) == len(endpoint.requests) == 7
    assert sum("budget of 7 requests" in str(error) for error in made) == 5
    assert most <= 3
    await asked.aclose()


def test_it_keeps_the_contract_of_a_judge(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.reply = lambda number, body: completion("correct: no")
    asked = judge(endpoint, cache=tmp_path / "judge.sqlite")
    check_judge(asked).raise_if_failed()


def test_a_file_that_is_no_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no database, and long enough to be taken for one " * 30)
    with pytest.raises(OSError, match="x cannot hold a judge's verdicts"):
        VerdictCache(tmp_path / "x")
