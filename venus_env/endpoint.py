"""Requests to an OpenAI-compatible server, repeated where that may help; policies and beliefs share them."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

logger = logging.getLogger(__name__)

EXCERPT = 300
"""Characters of a server's error text worth showing."""

_LONGEST_WAIT_S = 60.0
_TRY_AGAIN = frozenset({408, 425, 429})  # besides all server errors


class EndpointError(Exception):
    """The server gave no answer in the allowed attempts; the message names the last trouble."""


class Endpoint:
    """A server's base address, with one pool of connections per event loop.

    Rate limits (429), server errors (5xx), time-outs and broken connections are tried again with growing pauses.

    Args:
        base_url: Address up to and including the version, e.g. ``http://localhost:8000/v1``.
        timeout_s: Time that the server may take for one attempt.
        attempts: How often a request is tried in all.
        backoff_s: First pause between attempts; it doubles each time. A server's ``Retry-After`` goes first.
        max_connections: Most requests at a time.
        transport: Transport of ``httpx``, to go through a proxy or in-process server.
        seed: Seed of the pauses' jitter.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float,
        attempts: int,
        backoff_s: float,
        max_connections: int,
        transport: httpx.AsyncBaseTransport | None = None,
        seed: int = 0,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must start with http:// or https://, got {base_url!r}")
        if attempts < 1:
            raise ValueError(f"attempts must be at least 1, got {attempts}")
        self.base_url = base_url.rstrip("/")
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._backoff_s = backoff_s
        self._max_connections = max_connections
        self._transport = transport
        self._client: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None
        self._jitter = random.Random(seed)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: Any = None,
        on_attempt: Callable[[int], None] | None = None,
    ) -> httpx.Response:
        """Send a request until there is a response: 200, or a refusal that would be the same again.

        Args:
            method: ``"GET"`` or ``"POST"``.
            path: Below the base address, with its slash.
            headers: Sent with every attempt.
            body: JSON value.
            on_attempt: Called with the number of each attempt, from 1.

        Raises:
            EndpointError: There was none in the allowed attempts.
        """
        url = self.base_url + path
        for attempt in range(1, self._attempts + 1):
            if on_attempt is not None:
                on_attempt(attempt)
            wait_s = self._backoff_s * 2 ** (attempt - 1) * (1 + self._jitter.random() / 4)
            try:
                response = await self._open_client().request(method, url, json=body, headers=headers)
            except httpx.TimeoutException:
                trouble = f"no answer within {self._timeout_s:g} s"
            except (httpx.TransportError, httpx.DecodingError) as error:
                trouble = f"{type(error).__name__}: {error}"
            else:
                if response.status_code not in _TRY_AGAIN and response.status_code < 500:
                    return response
                trouble = f"HTTP {response.status_code}: {response.text[:EXCERPT]}"
                wait_s = _retry_after(response) or wait_s
            if attempt < self._attempts:
                logger.warning("attempt %d of %d at %s: %s", attempt, self._attempts, url, trouble)
                await asyncio.sleep(min(wait_s, _LONGEST_WAIT_S))
        raise EndpointError(f"{url} failed {self._attempts} times, last with {trouble}")

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            _, client = self._client
            self._client = None
            await client.aclose()

    def _open_client(self) -> httpx.AsyncClient:
        """The connections of the running event loop; those of another loop cannot be used here."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            limits = httpx.Limits(max_connections=self._max_connections)
            # Waiting for a free connection is our own queue, not the server's slowness.
            timeout = httpx.Timeout(self._timeout_s, pool=None)
            # Proxies come by argument (transport), not from the environment.
            client = httpx.AsyncClient(limits=limits, timeout=timeout, transport=self._transport, trust_env=False)
            self._client = (loop, client)
        return self._client[1]


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds that the server asks to wait, given as a number or as a date; None if it does not ask."""
    value = response.headers.get("Retry-After", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
