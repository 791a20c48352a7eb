from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from venus_env.policies.base import EpisodePolicies, Policy
from venus_env.policies.openai import OpenAIPolicy, PolicyError
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


def completion(content: str | None, **extra: Any) -> Reply:
    return 200, {"choices": [{"message": {"role": "assistant", "content": content, **extra}}]}, {}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


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


async def test_many_at_once(endpoint: Endpoint) -> None:
    endpoint.reply = lambda number, body: completion(body["messages"][1]["content"])
    policy = OpenAIPolicy(endpoint.url, "m", max_connections=4)
    questions = [str(i) for i in range(30)]
    asked = (policy.act([MESSAGES[0], {"role": "user", "content": question}]) for question in questions)
    assert await asyncio.gather(*asked) == questions
    await policy.aclose()


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="must start with http"):
        OpenAIPolicy("localhost:8000", "m")
    with pytest.raises(ValueError, match="attempts"):
        OpenAIPolicy("http://localhost", "m", attempts=0)
