"""A policy behind an OpenAI-compatible chat endpoint (vLLM, SGLang, llama.cpp, hosted models)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from venus_env.endpoint import EXCERPT, Endpoint, EndpointError
from venus_env.policies.errors import ContextFull, PolicyError
from venus_env.protocol.turns import Message
from venus_env.seeding import derive_seed
from venus_env.tasks.task import Task

# What vLLM, SGLang, llama.cpp and hosted models say; there is no common error code.
_TOO_LONG = re.compile(r"context[_ ](length|size|window)|longer than the model", re.IGNORECASE)


class OpenAIPolicy:
    """Writes turns by ``POST {base_url}/chat/completions``.

    Rate limits (429), server errors (5xx), time-outs and broken connections are tried again with growing pauses;
    anything else raises :class:`PolicyError` at once. One client, hence one pool of connections, serves all episodes.

    Attributes:
        usage: What all episodes have spent; keys as in :class:`OpenAIEpisodePolicy`.

    Args:
        base_url: Address up to and including the version, e.g. ``http://localhost:8000/v1``.
        model: Model name as the server knows it.
        api_key: Sent as a bearer token; None sends none.
        temperature: Sampling temperature.
        top_p: Nucleus size.
        max_turn_tokens: Most tokens of one turn.
        seed: Together with an episode's seed and the turn it fixes the ``seed`` of a request, for servers that honour
            one; None sends none.
        stop: Texts at which the server stops. The defaults keep a model from inventing tool replies.
        extra: Further fields of the request body, e.g. ``{"top_k": 20}``.
        timeout_s: Time that the server may take for one attempt.
        attempts: How often a request is tried in all.
        backoff_s: First pause between attempts; it doubles each time. A server's ``Retry-After`` goes first.
        max_connections: Most requests at a time.
        transport: Transport of ``httpx``, to go through a proxy or in-process server.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        temperature: float = 1.0,
        top_p: float = 0.95,
        max_turn_tokens: int = 8192,
        seed: int | None = None,
        stop: Sequence[str] = ("<tool_response>",),
        extra: Mapping[str, Any] | None = None,
        timeout_s: float = 600.0,
        attempts: int = 5,
        backoff_s: float = 1.0,
        max_connections: int = 64,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._endpoint = Endpoint(
            base_url,
            timeout_s=timeout_s,
            attempts=attempts,
            backoff_s=backoff_s,
            max_connections=max_connections,
            transport=transport,
            seed=0 if seed is None else seed,
        )
        self.url = f"{self._endpoint.base_url}/chat/completions"
        self.model = model
        self.seed = seed
        self.usage: Counter[str] = Counter()
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._body: dict[str, Any] = {
            "model": model,
            "temperature": temperature,
            "top_p": top_p,
            "max_tokens": max_turn_tokens,
            **({"stop": list(stop)} if stop else {}),
            **(extra or {}),
        }

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> OpenAIEpisodePolicy:
        """Start an episode's own policy.

        Args:
            task: Not looked at: a policy learns the question from its messages.
            seed: Seed of the episode.
        """
        return OpenAIEpisodePolicy(self, seed)

    async def act(self, messages: Sequence[Message]) -> str:
        """Write the next turn of a conversation, with the policy's own seed."""
        return await self.new_episode(seed=0).act(messages)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    async def complete(self, messages: Sequence[Message], seed: int | None, usage: Counter[str]) -> str:
        """Ask the server for one assistant message.

        Args:
            messages: The conversation so far.
            seed: Seed of the request; None sends none.
            usage: Counts of the episode, added to whether the request succeeds or not.

        Raises:
            ContextFull: The conversation, which has turns already, has become too long for the model.
            PolicyError: The server refused, or did not give an answer in the allowed attempts.
        """
        body = {**self._body, "messages": [dict(message) for message in messages]}
        if seed is not None:
            body["seed"] = seed
        try:
            response = await self._endpoint.request(
                "POST",
                "/chat/completions",
                headers=self._headers,
                body=body,
                on_attempt=lambda attempt: self._count(usage, requests=1, retries=int(attempt > 1)),
            )
        except EndpointError as error:
            raise PolicyError(str(error)) from error
        if response.status_code == 200:
            return self._turn(response, usage)
        trouble = f"HTTP {response.status_code}: {response.text[:EXCERPT]}"
        # Refused at once, it is max_turn_tokens or the prompt that does not fit: a wrong setting.
        if len(messages) > 2 and _TOO_LONG.search(response.text):
            raise ContextFull(f"the conversation is too long for model {self.model!r}: {trouble}")
        raise PolicyError(f"{self.url} refused the request for model {self.model!r}: {trouble}")

    def _turn(self, response: httpx.Response, usage: Counter[str]) -> str:
        """Text of the first choice; reasoning that the server split off goes back into ``<think>``."""
        try:
            payload = response.json()
            choice = payload["choices"][0]
            message = choice["message"]
            content = message.get("content") or ""
            reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise PolicyError(
                f"{self.url} answered in a form that is no chat completion ({error!r}): {response.text[:EXCERPT]}"
            ) from error
        self._count(usage, truncated_turns=int(choice.get("finish_reason") == "length"), **_tokens(payload))
        if reasoning and "<think>" not in content:
            return f"<think>\n{str(reasoning).strip()}\n</think>\n{content}"
        return str(content)

    def _count(self, usage: Counter[str], **spent: int) -> None:
        for counts in (self.usage, usage):
            counts.update(spent)


class OpenAIEpisodePolicy:
    """One episode of an :class:`OpenAIPolicy`: the seeds of its requests, and what it spends.

    Attributes:
        usage: ``requests`` sent, ``retries`` among them, ``truncated_turns`` that the server cut at the token limit.
            Where the server reports them also ``prompt_tokens``, ``completion_tokens`` and ``cached_tokens``, which
            is the part of the prompt tokens that came from the server's cache.
    """

    def __init__(self, policy: OpenAIPolicy, seed: int | None) -> None:
        self.usage: Counter[str] = Counter()
        self._policy = policy
        self._seed = seed

    async def act(self, messages: Sequence[Message]) -> str:
        """Write the next turn.

        Raises:
            PolicyError: The server gave none.
        """
        seed = None
        if self._policy.seed is not None:
            turn = sum(message["role"] == "assistant" for message in messages)
            seed = derive_seed(self._policy.seed, self._seed or 0, turn)
        return await self._policy.complete(messages, seed, self.usage)


def _tokens(payload: Mapping[str, Any]) -> dict[str, int]:
    """Token counts of a response, as far as the server gives them."""
    usage = payload.get("usage")
    if not isinstance(usage, Mapping):
        return {}
    counts = {name: usage.get(name) for name in ("prompt_tokens", "completion_tokens")}
    details = usage.get("prompt_tokens_details")
    if isinstance(details, Mapping):
        counts["cached_tokens"] = details.get("cached_tokens")
    return {name: count for name, count in counts.items() if isinstance(count, int)}
