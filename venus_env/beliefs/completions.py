"""How probable the tokens of a prompt are, asked of an OpenAI-compatible completions endpoint."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import httpx

from venus_env.beliefs.errors import BeliefError
from venus_env.endpoint import EXCERPT, Endpoint, EndpointError

Method = Literal["echo", "prompt_logprobs", "forced"]
T = TypeVar("T")


class Completions:
    """Log-probabilities from one server.

    Args:
        endpoint: The server.
        method: How they are asked for; see :class:`venus_env.beliefs.server.ServerBelief`.
        api_key_env: Environment variable that holds the key.
        extra: Further fields of the request body.
    """

    def __init__(self, endpoint: Endpoint, method: Method, api_key_env: str, extra: Mapping[str, Any]) -> None:
        self.url = f"{endpoint.base_url}/completions"
        self._endpoint = endpoint
        self._method = method
        self._api_key_env = api_key_env
        self._extra = dict(extra)

    async def served_model(self, name: str | None) -> tuple[str, str]:
        """Name of a model of the server, and what it was loaded from.

        Args:
            name: Its name; None for the only one there is.

        Raises:
            BeliefError: The server cannot be reached, or has no such model, or several where none is named.
        """
        response = await self._request("GET", "/models")
        try:
            models = {str(model["id"]): str(model.get("root") or model["id"]) for model in response.json()["data"]}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise self._strange(response, "list of models", error) from error
        if name is None and len(models) == 1:
            (name,) = models
        if name not in models:
            names = ", ".join(map(repr, models)) or "none"
            wanted = "several models or none" if name is None else f"no model {name!r}"
            raise BeliefError(f"{self._endpoint.base_url} serves {wanted} (it has {names}); name one: server:URL#MODEL")
        return name, models[name]

    async def of_ids(self, model: str, prompt: Sequence[int], first: int) -> list[float]:
        """Log-probabilities of the tokens of ``prompt`` from index ``first`` on.

        Raises:
            BeliefError: The server did not give them.
        """
        if self._method == "forced":
            found = await self._forced(model, prompt, first)
        elif self._method == "echo":
            found = (await self._echo(model, prompt))["token_logprobs"][first:]
        else:
            found = await self._prompt_logprobs(model, prompt, first)
        return self._checked(found)

    async def of_text(self, model: str, before: str, scored: str, after: str) -> list[float]:
        """Log-probabilities of the tokens that hold a part of ``scored``, in a prompt that the server tokenises.

        Raises:
            BeliefError: The server did not give them, or its text offsets do not lead to them.
        """
        found = await self._echo(model, before + scored + after)
        try:
            spans = [(at, at + len(text)) for at, text in zip(found["text_offset"], found["tokens"], strict=True)]
            # Counted from the end: offsets drift where a character further up spans several tokens.
            end = spans[-1][1] - len(after)
            begin = end - len(scored)
            inside = [index for index, (start, past) in enumerate(spans) if past > begin and start < end]
            text = "".join(found["tokens"][inside[0] :])[begin - spans[inside[0]][0] :]
        except (LookupError, TypeError, ValueError):
            text = None
        if text != scored + after:
            raise BeliefError(
                f"the text offsets of {self.url} do not lead to the answer {scored!r}: pass the model's tokenizer"
            )
        return self._checked([found["token_logprobs"][index] for index in inside])

    def _checked(self, found: Sequence[Any]) -> list[float]:
        for value in found:
            if not isinstance(value, float | int) or not math.isfinite(value) or value > 1e-3:
                raise BeliefError(f"{self.url} gave {value!r} as a log-probability")
        return [float(value) for value in found]

    async def _echo(self, model: str, prompt: Sequence[int] | str) -> dict[str, list[Any]]:
        """Tokens of the prompt: their ``tokens``, ``token_logprobs`` and ``text_offset``, as far as there are any."""
        # Many servers refuse to generate nothing, so there is a token to cut off again.
        response = await self._complete(model, prompt, {"echo": True, "logprobs": 1, "max_tokens": 1})
        logprobs, counted = _logprobs(response), _prompt_tokens(response)
        size = counted if isinstance(prompt, str) else len(prompt)
        if size is None:
            raise BeliefError(
                f"{self.url} gave no usage.prompt_tokens, so its tokens of the prompt cannot be told from what it "
                "generated: pass the model's tokenizer"
            )
        if len(logprobs.get("token_logprobs", ())) < size:
            raise BeliefError(
                f"{self.url} gave no log-probabilities of the prompt for 'echo' with 'logprobs'; start a server that "
                "does (vLLM, SGLang), or choose method='prompt_logprobs' or 'forced' (vLLM)"
            )
        if counted not in (None, size):
            raise BeliefError(f"{self.url} read {counted} tokens where {size} were sent: it adds tokens of its own")
        return {name: values[:size] for name, values in logprobs.items()}

    async def _prompt_logprobs(self, model: str, prompt: Sequence[int], first: int) -> list[Any]:
        response = await self._complete(model, prompt, {"prompt_logprobs": 0, "max_tokens": 1})
        found = response.json()["choices"][0].get("prompt_logprobs")
        if not isinstance(found, list) or len(found) != len(prompt):
            raise BeliefError(f"{self.url} gave no 'prompt_logprobs', which is a field of vLLM; choose method='echo'")
        try:
            return [row[str(token)]["logprob"] for row, token in zip(found[first:], prompt[first:], strict=True)]
        except (LookupError, TypeError) as error:
            raise self._strange(response, "list of prompt_logprobs", error) from error

    async def _forced(self, model: str, prompt: Sequence[int], first: int) -> list[Any]:
        """One request per token: the server may generate nothing else, and says how probable it was."""

        async def one(at: int) -> Any:
            fields = {"allowed_token_ids": [prompt[at]], "logprobs": 0, "max_tokens": 1}
            response = await self._complete(model, prompt[:at], {**fields, "return_tokens_as_token_ids": True})
            logprobs = _logprobs(response)
            if logprobs.get("tokens") != [f"token_id:{prompt[at]}"] or len(logprobs.get("token_logprobs", ())) != 1:
                raise BeliefError(
                    f"{self.url} did not generate the one token in 'allowed_token_ids', which is a field of vLLM; "
                    "choose method='echo'"
                )
            return logprobs["token_logprobs"][0]

        found = await together(one(at) for at in range(first, len(prompt)))
        if all(value == 0.0 for value in found):
            raise BeliefError(
                f"{self.url} takes log-probabilities after ruling out the other tokens: start vLLM with "
                "--logprobs-mode raw_logprobs, or choose method='echo'"
            )
        return found

    async def _complete(self, model: str, prompt: Sequence[int] | str, fields: Mapping[str, Any]) -> httpx.Response:
        """Ask for a completion; the response is one, as far as its first choice goes."""
        prompt = prompt if isinstance(prompt, str) else list(prompt)
        body = {"model": model, "prompt": prompt, "temperature": 0.0, **fields, **self._extra}
        response = await self._request("POST", "/completions", body)
        try:
            response.json()["choices"][0].keys()
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise self._strange(response, "completion", error) from error
        return response

    async def _request(self, method: str, path: str, body: Any = None) -> httpx.Response:
        key = os.environ.get(self._api_key_env)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            response = await self._endpoint.request(method, path, headers=headers, body=body)
        except EndpointError as error:
            raise BeliefError(str(error)) from error
        if response.status_code != 200:
            raise BeliefError(
                f"{self._endpoint.base_url}{path} refused the request: HTTP {response.status_code}: "
                f"{response.text[:EXCERPT]}"
            )
        return response

    def _strange(self, response: httpx.Response, what: str, error: Exception) -> BeliefError:
        return BeliefError(
            f"{self._endpoint.base_url} answered in a form that is no {what} ({error!r}): {response.text[:EXCERPT]}"
        )


async def together(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Results of all, in order; the first failure cancels the rest."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _logprobs(response: httpx.Response) -> dict[str, list[Any]]:
    """The lists in the ``logprobs`` of a completion, none if it has no such field."""
    logprobs = response.json()["choices"][0].get("logprobs")
    fields = logprobs.items() if isinstance(logprobs, Mapping) else ()
    return {name: values for name, values in fields if isinstance(values, list)}


def _prompt_tokens(response: httpx.Response) -> int | None:
    usage = response.json().get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) else None
