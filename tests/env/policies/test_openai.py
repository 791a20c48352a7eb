from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from venus_env.policies.base import EpisodePolicies, Policy
from venus_env.policies.errors import ContextFull, PolicyError
from venus_env.policies.openai import OpenAIPolicy
from venus_env.protocol.turns import Message

MESSAGES: list[Message] = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Which city?"}]
Reply = tuple[int, Any, dict[str, str]]


class Endpoint:
    """A real HTTP server on the loopback interface that plays back what a test wants."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.reply: Callable[[int, Any], Reply] = lambda number, body: completion("hi")
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append((self.path, dict(self.headers), body))
                status, payload, headers = endpoint.reply(len(endpoint.requests), body)
                data = payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()
                with suppress(BrokenPipeError, ConnectionResetError):  # the client may have run out of patience
                    self.send_response(status)
                    for name, value in {"Content-Length": str(len(data)), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def spent(prompt: int, completion: int, cached: int | None = None) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **details}


def completion(content: str | None, **extra: Any) -> Reply:
    return 200, {"choices": [{"message": {"role": "assistant", "content": content, **extra}}]}, {}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


async def test_request_and_turn(endpoint: Endpoint) -> None:
    policy = OpenAIPolicy(
        endpoint.url + "/", "m", api_key="secret", temperature=0.5, max_turn_tokens=77, seed=4, extra={"top_k": 20}
    )
    assert isinstance(policy, Policy)
    assert isinstance(policy, EpisodePolicies)
    assert await policy.act(MESSAGES) == "hi"
    ((path, headers, body),) = endpoint.requests
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer secret"
    assert body["messages"] == MESSAGES
    assert (body["model"], body["temperature"], body["max_tokens"], body["top_k"]) == ("m", 0.5, 77, 20)
    assert body["stop"] == ["<tool_response>"]
    await policy.aclose()


async def test_seeds_follow_policy_episode_and_turn(endpoint: Endpoint) -> None:
    longer: list[Message] = [*MESSAGES, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    for policy_seed in (1, 1, 2):
        policy = OpenAIPolicy(endpoint.url, "m", seed=policy_seed)
        for episode_seed in (0, 1):
            episode = policy.new_episode(seed=episode_seed)
            await episode.act(MESSAGES)
            await episode.act(longer)
        await policy.aclose()
    seeds = [body["seed"] for _, _, body in endpoint.requests]
    assert seeds[:4] == seeds[4:8]
    assert len(set(seeds)) == 8
    policy = OpenAIPolicy(endpoint.url, "m")
    await policy.act(MESSAGES)
    assert "seed" not in endpoint.requests[-1][2]
    await policy.aclose()


async def test_split_reasoning_is_put_back(endpoint: Endpoint) -> None:
    policy = OpenAIPolicy(endpoint.url, "m")
    endpoint.reply = lambda number, body: completion("<answer>x</answer>", reasoning_content="\nso it is\n")
    assert await policy.act(MESSAGES) == "<think>\nso it is\n</think>\n<answer>x</answer>"
    endpoint.reply = lambda number, body: completion(None)
    assert await policy.act(MESSAGES) == ""
    await policy.aclose()


async def test_usage_is_summed_per_episode_and_over_all(endpoint: Endpoint) -> None:
    replies: list[Reply] = [
        (200, completion("a")[1] | {"usage": spent(100, 7)}, {}),
        (503, "busy", {}),
        (200, completion("b")[1] | {"usage": spent(120, 8, cached=64)}, {}),
        (200, {"choices": [{"message": {"content": "cut"}, "finish_reason": "length"}], "usage": None}, {}),
    ]
    endpoint.reply = lambda number, body: replies[number - 1]
    policy = OpenAIPolicy(endpoint.url, "m", backoff_s=0.001)
    first, second = policy.new_episode(seed=1), policy.new_episode(seed=2)
    assert [await first.act(MESSAGES), await first.act(MESSAGES), await second.act(MESSAGES)] == ["a", "b", "cut"]
    assert first.usage == {
        "requests": 3,
        "retries": 1,
        "truncated_turns": 0,
        "prompt_tokens": 220,
        "completion_tokens": 15,
        "cached_tokens": 64,
    }
    assert dict(second.usage) == {"requests": 1, "retries": 0, "truncated_turns": 1}  # it reported no tokens
    assert policy.usage == first.usage + second.usage
    await policy.aclose()


async def test_what_a_failed_turn_cost_is_counted(endpoint: Endpoint) -> None:
    endpoint.reply = lambda number, body: (500, "out of memory", {})
    policy = OpenAIPolicy(endpoint.url, "m", attempts=3, backoff_s=0.001)
    episode = policy.new_episode()
    with pytest.raises(PolicyError):
        await episode.act(MESSAGES)
    assert (episode.usage["requests"], episode.usage["retries"]) == (3, 2)
    await policy.aclose()


@pytest.mark.parametrize(("ahead_s", "least", "most"), [(30, 20.0, 30.0), (-60, 0.01, 0.02), (9999, 60.0, 60.0)])
async def test_retry_after_may_be_a_date(
    endpoint: Endpoint, ahead_s: int, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr("venus_env.endpoint.asyncio.sleep", note)
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead_s), usegmt=True)
    replies: list[Reply] = [(503, "busy", {"Retry-After": date}), completion("at last")]
    endpoint.reply = lambda number, body: replies[number - 1]
    policy = OpenAIPolicy(endpoint.url, "m", backoff_s=0.01)
    assert await policy.act(MESSAGES) == "at last"
    (wait,) = [wait for wait in waits if wait > 0]
    assert least <= wait <= most
    await policy.aclose()


async def test_a_broken_connection_is_retried(endpoint: Endpoint) -> None:
    replies: list[Reply] = [(200, "cut", {"Content-Length": "500"}), completion("whole")]
    endpoint.reply = lambda number, body: replies[number - 1]
    policy = OpenAIPolicy(endpoint.url, "m", backoff_s=0.001)
    assert await policy.act(MESSAGES) == "whole"
    await policy.aclose()


async def test_rate_limits_and_server_errors_are_retried(endpoint: Endpoint) -> None:
    replies: list[Reply] = [(429, "slow down", {"Retry-After": "0.05"}), (503, "busy", {}), completion("at last")]
    endpoint.reply = lambda number, body: replies[number - 1]
    policy = OpenAIPolicy(endpoint.url, "m", backoff_s=0.01)
    started = time.monotonic()
    assert await policy.act(MESSAGES) == "at last"
    assert time.monotonic() - started >= 0.05
    assert len(endpoint.requests) == 3
    await policy.aclose()


async def test_gives_up_naming_the_last_trouble(endpoint: Endpoint) -> None:
    endpoint.reply = lambda number, body: (500, "out of memory", {})
    policy = OpenAIPolicy(endpoint.url, "m", api_key="secret", attempts=3, backoff_s=0.001)
    with pytest.raises(PolicyError, match="failed 3 times, last with HTTP 500: out of memory") as caught:
        await policy.act(MESSAGES)
    assert "secret" not in str(caught.value)
    assert len(endpoint.requests) == 3
    await policy.aclose()


async def test_refusals_and_wrong_forms_are_not_retried(endpoint: Endpoint) -> None:
    policy = OpenAIPolicy(endpoint.url, "m", backoff_s=0.001)
    endpoint.reply = lambda number, body: (400, "context too long", {})
    with pytest.raises(PolicyError, match="refused the request for model 'm': HTTP 400: context too long"):
        await policy.act(MESSAGES)
    endpoint.reply = lambda number, body: (200, "<html>hello", {})
    with pytest.raises(PolicyError, match="no chat completion"):
        await policy.act(MESSAGES)
    assert len(endpoint.requests) == 2
    await policy.aclose()


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
        '{"error": {"code": "context_length_exceeded"}}',
        "the request exceeds the available context size",
    ],
)
async def test_a_full_window_is_the_policys_own_limit(endpoint: Endpoint, text: str) -> None:
    policy = OpenAIPolicy(endpoint.url, "m", backoff_s=0.001)
    endpoint.reply = lambda number, body: (400, text, {})
    turns: list[Message] = [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    with pytest.raises(ContextFull, match="too long for model 'm'"):
        await policy.act([*MESSAGES, *turns])
    with pytest.raises(PolicyError, match="refused the request") as caught:  # a setting that never fits
        await policy.act(MESSAGES)
    assert not isinstance(caught.value, ContextFull)
    await policy.aclose()


async def test_timeouts_and_refused_connections(endpoint: Endpoint) -> None:
    def slow(number: int, body: Any) -> Reply:
        if number == 1:
            time.sleep(0.6)
        return completion("second")

    endpoint.reply = slow
    policy = OpenAIPolicy(endpoint.url, "m", timeout_s=0.25, backoff_s=0.001)
    assert await policy.act(MESSAGES) == "second"
    await policy.aclose()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        nobody = OpenAIPolicy(f"http://127.0.0.1:{unused.getsockname()[1]}/v1", "m", attempts=2, backoff_s=0.001)
        with pytest.raises(PolicyError, match="failed 2 times, last with ConnectError"):
            await nobody.act(MESSAGES)
        await nobody.aclose()


def test_works_from_one_event_loop_after_another(endpoint: Endpoint) -> None:
    policy = OpenAIPolicy(endpoint.url, "m")
    assert [asyncio.run(policy.act(MESSAGES)) for _ in range(2)] == ["hi", "hi"]


async def test_one_client_serves_many_episodes_within_its_bound(endpoint: Endpoint) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def reply(number: int, body: Any) -> Reply:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return completion(body["messages"][1]["content"])

    endpoint.reply = reply
    policy = OpenAIPolicy(endpoint.url, "m", max_connections=4)
    questions = [str(i) for i in range(30)]
    episodes = [policy.new_episode(seed=seed) for seed in range(30)]
    asked = [
        episode.act([MESSAGES[0], {"role": "user", "content": question}])
        for episode, question in zip(episodes, questions, strict=True)
    ]
    assert await asyncio.gather(*asked) == questions
    assert most == 4
    assert [episode.usage["requests"] for episode in episodes] == [1] * 30
    assert policy.usage["requests"] == 30
    await policy.aclose()


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="must start with http"):
        OpenAIPolicy("localhost:8000", "m")
    with pytest.raises(ValueError, match="attempts"):
        OpenAIPolicy("http://localhost", "m", attempts=0)
