"""A belief held by a model behind an OpenAI-compatible completions endpoint (vLLM, SGLang, …); needs no torch.

The server is sent the conversation, the wrapper and the answer as a prompt, and is asked how probable the tokens of the
prompt are. Two ways to say what the tokens are:

* With the model's tokenizer (the default), the prompt is sent as ids: those that
  :class:`venus_env.beliefs.hf.HFBelief` would use, so that both give the same scores.
* With a :class:`venus_env.tokens.ChatLayout` in its place, the prompt is sent as text, and the server's own tokens are
  matched to the answer by their text offsets. No tokenizer is needed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from venus_env.beliefs.base import read_messages, require_answers, require_boundaries
from venus_env.beliefs.completions import Completions, Method, together
from venus_env.beliefs.errors import BeliefError
from venus_env.beliefs.pseudo_answer import PseudoAnswer
from venus_env.endpoint import Endpoint
from venus_env.models import load_tokenizer
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.tokens import ChatLayout, Conversation, Renderer

CHATML = ChatLayout(
    before_system="<|im_start|>system\n",
    system_to_user="<|im_end|>\n<|im_start|>user\n",
    user_to_turn="<|im_end|>\n<|im_start|>assistant\n",
    end_of_turn="<|im_end|>",
    turn_to_user="\n<|im_start|>user\n",
)
"""Layout of models whose chat template is plain ChatML and opens no thought."""


@dataclass(frozen=True, slots=True)
class _Target:
    """What is known of the served model: its name, and its renderer unless the server tokenises."""

    model: str
    renderer: Renderer | None
    wrapper: PseudoAnswer


class ServerBelief:
    """Scores answers by ``POST {base_url}/completions``.

    Requests are tried again as those of :class:`venus_env.policies.openai.OpenAIPolicy` are. What still fails raises
    :class:`BeliefError`, which ends an episode as ``judge_failure``.

    Args:
        base_url: Address up to and including the version, e.g. ``http://localhost:8000/v1``.
        model: Model name as the server knows it; asked from the server when None, which must then serve one only.
        tokenizer: The model's tokenizer, its folder or its name; when None, what the server says the model was loaded
            from.
        layout: Chat layout of the model, such as ``CHATML``: prompts are sent as text and tokenised by the server.
            Needs method ``echo``, and excludes ``tokenizer``.
        wrapper: Text around the answer; fitted to the chat layout when None.
        method: How log-probabilities are asked for. ``echo`` is the completions API's own way (``echo`` with
            ``logprobs``). ``prompt_logprobs`` is vLLM's field of that name. Both make the server read the whole prompt
            each time. ``forced`` sends one request per answer token, in which only that token is allowed
            (``allowed_token_ids``, vLLM with its default ``logprobs_mode``): the server then reads what its prefix
            cache does not hold, which makes it the cheapest for long episodes.
        api_key_env: Environment variable whose value is sent as a bearer token, if it is set. It is read when a request
            is sent and kept nowhere.
        extra: Further fields of the request body, e.g. ``{"add_special_tokens": False}``.
        timeout_s: Time that the server may take for one attempt.
        attempts: How often a request is tried in all.
        backoff_s: First pause between attempts; it doubles each time. A server's ``Retry-After`` goes first.
        max_connections: Most requests at a time.
        transport: Transport of ``httpx``, to go through a proxy or in-process server.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        tokenizer: Any = None,
        layout: ChatLayout | None = None,
        wrapper: PseudoAnswer | None = None,
        method: Method = "echo",
        api_key_env: str = "OPENAI_API_KEY",
        extra: Mapping[str, Any] | None = None,
        timeout_s: float = 600.0,
        attempts: int = 5,
        backoff_s: float = 1.0,
        max_connections: int = 16,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if method not in ("echo", "prompt_logprobs", "forced"):
            raise ValueError(f"method must be 'echo', 'prompt_logprobs' or 'forced', got {method!r}")
        if layout is not None and (tokenizer is not None or method != "echo"):
            raise ValueError("with layout= the server tokenises: leave out tokenizer= and use method='echo'")
        if urlsplit(base_url).username is not None:
            raise ValueError("base_url holds a user name or password, which would be recorded: use api_key_env=")
        self._endpoint = Endpoint(
            base_url,
            timeout_s=timeout_s,
            attempts=attempts,
            backoff_s=backoff_s,
            max_connections=max_connections,
            transport=transport,
        )
        self._completions = Completions(self._endpoint, method, api_key_env, extra or {})
        self.model = model
        self.method = method
        self._tokenizer = tokenizer
        self._layout = layout
        self._wrapper = wrapper
        self._max_connections = max_connections
        self._target: _Target | None = None
        self._connecting: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def __repr__(self) -> str:
        return f"ServerBelief({self._endpoint.base_url!r}, {self.model!r}, method={self.method!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_target": None, "_connecting": None}

    def open(self, question: str, answers: Sequence[str]) -> ServerBeliefState:
        """Start an episode's belief; the question is read from the opening messages."""
        return ServerBeliefState(self, require_answers(answers))

    async def score(
        self, trajectory: Trajectory, boundaries: Sequence[int], answers: Sequence[str]
    ) -> list[list[float]]:
        """Score a finished episode at each boundary (numbers of leading messages), ``max_connections`` at a time.

        Raises:
            ValueError: The boundaries are out of order or range, or not where the policy would write its next turn.
            BeliefError: The server did not give the scores.
        """
        answers = require_answers(answers)
        require_boundaries(boundaries, len(trajectory.messages))
        target = await self.connect()
        context = self.context(target)
        lengths: dict[int, int] = {}
        done = 0
        for boundary in boundaries:
            context.add(trajectory.messages[done:boundary])
            lengths[boundary], done = len(context.content), boundary
        room = asyncio.Semaphore(self._max_connections)  # no more prompts in memory than are on their way

        async def one(boundary: int, answer: str) -> float:
            async with room:
                return await self.score_answer(target, context.content[: lengths[boundary]], answer)

        found = await together(one(boundary, answer) for boundary in lengths for answer in answers)
        rows = {boundary: found[at * len(answers) :][: len(answers)] for at, boundary in enumerate(lengths)}
        return [list(rows[boundary]) for boundary in boundaries]

    async def connect(self) -> _Target:
        """Find out which model is served and load its tokenizer, once.

        Raises:
            BeliefError: The server cannot be reached, serves several models, or its tokenizer cannot be loaded.
        """
        if self._target is None:
            loop = asyncio.get_running_loop()
            if self._connecting is None or self._connecting[0] is not loop:
                self._connecting = (loop, asyncio.Lock())
            async with self._connecting[1]:
                if self._target is None:
                    self._target = await self._find_target()
        return self._target

    def reach(self) -> None:
        """Connect now rather than in the first episode, from code outside of any event loop.

        Raises:
            BeliefError: As :meth:`connect`.
        """

        async def once() -> None:
            try:
                await self.connect()
            finally:
                await self.aclose()

        asyncio.run(once())

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    def context(self, target: _Target) -> _TokenContext | _TextContext:
        """An episode's context, empty so far, in the form in which it is sent."""
        if target.renderer is not None:
            return _TokenContext(target.renderer)
        assert self._layout is not None  # one of both, see _find_target
        return _TextContext(self._layout)

    async def score_answer(self, target: _Target, context: Sequence[int] | str, answer: str) -> float:
        """Mean log-probability of the tokens of ``answer`` after ``context``.

        Raises:
            BeliefError: The server did not give it.
        """
        wrapper = target.wrapper
        if isinstance(context, str):
            before, after = context + wrapper.prefix, wrapper.suffix
            found = await self._completions.of_text(target.model, before, answer, after)
        else:
            assert target.renderer is not None
            probe, start = wrapper.tokens(target.renderer.tokenizer, answer)
            found = await self._completions.of_ids(target.model, [*context, *probe], len(context) + start)
        return sum(found) / len(found)

    async def _find_target(self) -> _Target:
        model = source = self.model
        if model is None or (self._layout is None and self._tokenizer is None):
            model, source = await self._completions.served_model(model)
        if self._layout is not None:
            return _Target(model, None, self._wrapper or PseudoAnswer.after(self._layout.opened))
        tokenizer: Any = source if self._tokenizer is None else self._tokenizer
        if isinstance(tokenizer, str | Path):
            try:
                tokenizer = await asyncio.to_thread(load_tokenizer, tokenizer)
            except (ImportError, OSError, ValueError) as error:
                raise BeliefError(
                    f"the tokenizer {str(tokenizer)!r} of the model {model!r} at {self._endpoint.base_url} cannot be "
                    f"loaded ({type(error).__name__}); pass tokenizer=FOLDER_OR_NAME, or layout= to let the server "
                    "tokenise"
                ) from error
        renderer = Renderer(tokenizer)
        return _Target(model, renderer, self._wrapper or PseudoAnswer.after(renderer.layout.opened))


class ServerBeliefState:
    """The belief about one episode.

    Args:
        belief: The server behind it.
        answers: Accepted answers.
    """

    def __init__(self, belief: ServerBelief, answers: Sequence[str]) -> None:
        self._belief = belief
        self._answers = answers
        self._context: _TokenContext | _TextContext | None = None

    async def update(self, new_messages: Sequence[Message]) -> list[float]:
        """Read the new messages; mean log-probability per answer token, for each accepted answer.

        Raises:
            ValueError: The conversation does not end where the policy would write its next turn.
            BeliefError: The server did not give the scores.
        """
        target = await self._belief.connect()
        if self._context is None:
            self._context = self._belief.context(target)
        self._context.add(new_messages)
        content = self._context.content
        return await together(self._belief.score_answer(target, content, answer) for answer in self._answers)


class _TokenContext:
    """A conversation as token ids."""

    def __init__(self, renderer: Renderer) -> None:
        self._conversation = Conversation(renderer)

    @property
    def content(self) -> list[int]:
        return self._conversation.ids

    def add(self, messages: Sequence[Message]) -> None:
        read_messages(self._conversation, messages)


class _TextContext:
    """A conversation as text."""

    def __init__(self, layout: ChatLayout) -> None:
        self._layout = layout
        self.content = ""

    def add(self, messages: Sequence[Message]) -> None:
        layout = self._layout
        for message in messages:
            text = message["content"]
            if message["role"] == "system":
                self.content += layout.before_system + text
            elif message["role"] == "assistant":
                # As in Renderer.encode_turn: what the generation prompt has opened is not opened twice.
                opened = layout.opened and text.startswith("<think>")
                self.content += (text.removeprefix("<think>").lstrip("\n") if opened else text) + layout.end_of_turn
            else:
                opening = self.content.endswith(layout.end_of_turn)
                self.content += (layout.turn_to_user if opening else layout.system_to_user) + text
                self.content += layout.user_to_turn
        if messages and messages[-1]["role"] == "assistant":
            raise ValueError("the last message is the policy's own: a belief is asked before a turn, not after it")
