"""The synchronous heart of batched generation: admit requests, take steps, hand out results.

One thread drives it. Work is shared where tokens are: equal prompts of one group are read once, and a conversation's
next turn continues from the keys and values of its last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from venus_env.policies.kv_rows import Ids, KVRows, PrefixStore, shared_length
from venus_env.policies.sampling import draw_tokens

if TYPE_CHECKING:
    import torch

_PREFILL_TOKENS = 8192  # tokens per prefill pass: enough to saturate a CPU, small enough for the attention mask
_PREFILL_CHUNK = 512  # tokens of one sequence per prefill pass

StopReason = Literal["stop", "length", "aborted"]


@dataclass(frozen=True, slots=True)
class Generation:
    """What one request produced.

    Attributes:
        ids: Sampled tokens, the stop token included.
        logprobs: Log-probability of each under the temperature-scaled distribution (temperature 1 when greedy), before
            any top-p cut: what a trainer recomputes. None unless asked for.
        stop_reason: ``stop`` if an end token was sampled, ``length`` if the budget ran out, ``aborted`` if
            :meth:`BatchGenerator.abort_all` cut it short.
    """

    ids: list[int]
    logprobs: list[float] | None
    stop_reason: StopReason


@dataclass(slots=True)
class GenerationStats:
    """Counters since the generator was made."""

    requests: int = 0
    generated_tokens: int = 0
    prefilled_tokens: int = 0
    reused_tokens: int = 0
    steps: int = 0


@dataclass(slots=True)
class Request:
    """One caller's request and its progress."""

    ids: Ids  # prompt, then room for what is sampled
    prompt_length: int
    max_tokens: int
    temperature: float
    top_p: float
    rng: np.random.Generator
    logprobs: list[float] | None
    future: Future[Generation]
    length: int = field(init=False)  # known tokens
    prompt_key: bytes = field(init=False)  # equal for equal prompts
    abandoned: bool = False

    def __post_init__(self) -> None:
        self.length = self.prompt_length
        self.prompt_key = self.ids[: self.prompt_length].tobytes()

    def resolve(self, outcome: StopReason | Exception) -> None:
        """Hand the result or the error to the caller, unless the caller has gone or has it already."""
        if self.future.done() or not self.future.set_running_or_notify_cancel():
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            sampled = self.ids[self.prompt_length : self.length].tolist()
            self.future.set_result(Generation(sampled, self.logprobs, outcome))


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a prompt will be read: ``known`` tokens copied from a saved sequence or a running row, the rest computed."""

    known: int
    source: list[torch.Tensor] | int
    request: Request

    def new_tokens(self) -> int:
        return self.request.prompt_length - self.known


class Engine:
    """Rows in flight over one model.

    Args:
        model: A causal language model of ``transformers`` with full attention.
        eos_ids: Tokens that end a generation.
        pad_id: Token for padding; never seen by attention.
        max_batch: Most rows at a time.
        prefix_bytes: Memory for keys and values of finished sequences; 0 turns reuse off.
    """

    def __init__(self, model: Any, eos_ids: Sequence[int], pad_id: int, max_batch: int, prefix_bytes: int) -> None:
        self.model = model
        self.stats = GenerationStats()
        self._eos = frozenset(int(token) for token in eos_ids)
        self._pad = pad_id
        self._max_batch = max_batch
        self._prefix_bytes = prefix_bytes
        self._cache = KVRows(max_batch)
        self._store = PrefixStore(prefix_bytes)
        self._weights: tuple[int, ...] = ()
        self.rows: list[Request] = []  # position in this list = row of the cache

    @property
    def free(self) -> int:
        """How many more requests can be admitted."""
        return self._max_batch - len(self.rows)

    def clear_prefixes(self) -> None:
        """Forget the keys and values of finished sequences."""
        self._store.clear()

    def fail(self, error: Exception) -> None:
        """Give the error to everyone in flight and start afresh."""
        for request in self.rows:
            request.resolve(error)
        self.rows.clear()
        self._cache = KVRows(self._max_batch)
        self._store.clear()

    def drop_abandoned(self) -> None:
        """Let go of requests whose callers no longer want them."""
        for row in range(len(self.rows) - 1, -1, -1):
            if self.rows[row].abandoned:
                self.rows[row].resolve("aborted")
                self._remove(row)

    def _remove(self, row: int) -> None:
        """Fill the gap with the last row, so that the running rows stay one block."""
        last = len(self.rows) - 1
        if row != last:
            self._cache.copy(last, row, self.rows[last].length)
            self.rows[row] = self.rows[last]
        self.rows.pop()

    def admit(self, arrivals: list[Request]) -> None:
        """Read the prompts of new requests and sample their first token."""
        import torch

        self._check_weights()
        leaders: dict[bytes, Request] = {}  # the first request of each distinct prompt reads it for all
        followers: list[Request] = []
        for request in arrivals:
            if request.abandoned:
                request.resolve("aborted")
            elif leaders.setdefault(request.prompt_key, request) is not request:
                followers.append(request)
        if not leaders:
            return
        first = len(self.rows)
        columns = max(request.length for request in (*self.rows, *leaders.values()))
        self._cache.reserve(first + len(leaders) + len(followers), columns)
        plans = sorted((_Plan(*self._source(request), request) for request in leaders.values()), key=_Plan.new_tokens)
        logits = [row for part in _parts(plans) for row in self._prefill(part)]
        row_of = {request.prompt_key: row for row, request in enumerate(self.rows[first:], first)}
        for request in followers:
            leader = row_of[request.prompt_key]
            self._cache.copy(leader, len(self.rows), request.prompt_length)
            self.rows.append(request)
            logits.append(logits[leader - first])
            self.stats.reused_tokens += request.prompt_length
        self._sample(first, torch.stack(logits))

    def _source(self, request: Request) -> tuple[int, list[torch.Tensor] | int]:
        """Where the longest known prefix of a prompt lies: its length, and a saved sequence or a running row."""
        if not self._prefix_bytes:
            return 0, []
        prompt = request.ids[: request.prompt_length]
        found: tuple[int, list[torch.Tensor] | int] = self._store.find(prompt)
        for row, other in enumerate(self.rows):
            # The newest token of a running row has no keys yet.
            length = shared_length(other.ids[: other.length - 1], prompt)
            if length > found[0]:
                found = length, row
        return found

    def _prefill(self, plans: Sequence[_Plan]) -> torch.Tensor:
        """Read prompts into the next rows; returns the logits after the last token of each."""
        import torch

        start = len(self.rows)
        for plan in plans:
            if isinstance(plan.source, int):
                self._cache.copy(plan.source, len(self.rows), plan.known)
            elif plan.known:
                self._cache.put(len(self.rows), plan.source, plan.known)
            self.rows.append(plan.request)
            self.stats.reused_tokens += plan.known
            self.stats.prefilled_tokens += plan.new_tokens()
        longest = max(plan.new_tokens() for plan in plans)
        # Padded on the left, so that the last column is the last token of every row.
        ids = np.full((len(plans), longest), self._pad, dtype=np.int64)
        positions = np.full((len(plans), longest), -1, dtype=np.int64)
        for i, plan in enumerate(plans):
            new, end = plan.new_tokens(), plan.request.prompt_length
            ids[i, longest - new :] = plan.request.ids[plan.known : end]
            positions[i, longest - new :] = np.arange(plan.known, end)
        for left in range(0, longest, _PREFILL_CHUNK):
            chunk = slice(left, left + _PREFILL_CHUNK)
            logits = self._forward(start, torch.from_numpy(ids[:, chunk]), torch.from_numpy(positions[:, chunk]))
        return logits

    def step(self) -> None:
        """Sample one token for every running row."""
        import torch

        if not self.rows:
            return
        self.stats.steps += 1
        last = [request.length - 1 for request in self.rows]
        ids = torch.tensor([[request.ids[at]] for request, at in zip(self.rows, last, strict=True)])
        self._sample(0, self._forward(0, ids, torch.tensor(last)[:, None]))

    def _forward(self, start: int, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Run the model on tokens (rows, tokens) at ``positions`` (-1 = padding); logits of the last column."""
        import torch

        device, dtype = self.model.device, self.model.dtype
        width = int(positions.max()) + 1
        self._cache.reserve(start + len(ids), width)
        columns = torch.arange(width)
        # A finite minimum instead of -inf: padding sees nothing at all, and softmax over nothing would be NaN.
        mask = torch.zeros((*positions.shape, width), dtype=dtype)
        mask.masked_fill_(columns > positions[..., None], torch.finfo(dtype).min)
        self._cache.aim(start, positions.where(positions >= 0, self._cache.scratch).to(device), width)
        output = self.model(
            input_ids=ids.to(device),
            position_ids=positions.clamp(min=0).to(device),
            attention_mask=mask[:, None].to(device),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits.float()

    def _sample(self, first: int, logits: torch.Tensor) -> None:
        """Append a token to the rows ``first..`` and let go of those that are finished."""
        rows = self.rows[first:]
        tokens, logprobs = draw_tokens(
            logits,
            [request.temperature for request in rows],
            [request.top_p for request in rows],
            [request.rng.random() for request in rows],
        )
        for request, token, logprob in zip(rows, tokens, logprobs, strict=True):
            request.ids[request.length] = token
            request.length += 1
            if request.logprobs is not None:
                request.logprobs.append(logprob)
        self.stats.generated_tokens += len(rows)
        for row in range(len(self.rows) - 1, first - 1, -1):
            self._finish_if_done(row)

    def _finish_if_done(self, row: int) -> None:
        request = self.rows[row]
        stopped = int(request.ids[request.length - 1]) in self._eos
        if not stopped and request.length - request.prompt_length < request.max_tokens:
            return
        if self._prefix_bytes:
            known = request.length - 1  # the last token was sampled but never read
            self._store.add(request.ids[:known].copy(), self._cache.take(row, known))
        self._remove(row)
        self.stats.requests += 1
        request.resolve("stop" if stopped else "length")

    def _check_weights(self) -> None:
        """Drop stored prefixes if a parameter was replaced or written to since the last admission."""
        weights = tuple(
            value
            for parameter in self.model.parameters()
            for value in (parameter.data_ptr(), 0 if parameter.is_inference() else parameter._version)
        )
        if weights != self._weights:
            self._store.clear()
            self._weights = weights


def _parts(plans: Sequence[_Plan]) -> Iterator[list[_Plan]]:
    """Cut plans (by ascending size) into passes of about ``_PREFILL_TOKENS`` tokens, so that little is padding."""
    part: list[_Plan] = []
    for plan in plans:
        if part and (len(part) + 1) * min(plan.new_tokens(), _PREFILL_CHUNK) > _PREFILL_TOKENS:
            yield part
            part = []
        part.append(plan)
    yield part
