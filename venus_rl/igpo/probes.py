r"""Answer probes: the log-probability of the answer at every turn boundary of a rollout, in one pass (method 4.1).

After the tokens that a boundary cuts off, a pseudo answer is appended (``prefix answer suffix``, say
``…enough information…\n</think>\n<answer>\n`` before and ``\n</answer>`` after it), and ``S`` is the mean
log-probability of the answer's tokens there. The naive way runs one forward per boundary over an ever longer context.
Here all probes follow the context in a single sequence: an attention mask lets each see the context up to its own
boundary and itself, and position ids make it believe that it stands right there. Short rollouts take one masked
forward; for long ones, where a square mask would not fit, the context is read once into a key-value cache and all
probes follow in one further forward. Both give the naive result to float tolerance, which is the oracle in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from venus_env.beliefs.pseudo_answer import PseudoAnswer


@dataclass(frozen=True, slots=True)
class Probe:
    """A pseudo answer as tokens.

    Attributes:
        ids: Prefix and answer, up to the answer's last token.
        start: Index of the answer's first token; everything from there on is scored.
    """

    ids: tuple[int, ...]
    start: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < len(self.ids):
            raise ValueError(f"a probe needs at least one answer token: start {self.start}, {len(self.ids)} tokens")

    @classmethod
    def of(cls, wrapper: PseudoAnswer, tokenizer: Any, answer: str) -> Probe:
        """Tokenise ``answer`` in its wrapper."""
        ids, start = wrapper.tokens(tokenizer, answer)
        return cls(tuple(ids), start)


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What to score for one rollout.

    Attributes:
        ids: Tokens of the rollout; those after the last boundary are not read.
        boundaries: Context lengths at which every probe is scored, each at least 1.
        probes: One pseudo answer per accepted answer.
    """

    ids: Sequence[int]
    boundaries: Sequence[int]
    probes: Sequence[Probe]


@dataclass(frozen=True, slots=True)
class ProbeBatch:
    """One masked sequence: the context, then a block per (probe, boundary).

    A block holds the probe without its last token, which is only ever predicted.

    Attributes:
        context: Number of context tokens.
        input_ids: ``[n]``.
        position_ids: ``[n]``; a block continues from its boundary.
        visible: ``[n - context, n]`` booleans: what each block token attends to. The context itself is causal.
        rows: Where logits are needed, ``[t]``, probe by probe and boundary by boundary.
        targets: The answer token to be predicted at each of those rows, ``[t]``.
        lengths: Number of answer tokens per probe.
        boundaries: Number of boundaries.
    """

    context: int
    input_ids: NDArray[np.int64]
    position_ids: NDArray[np.int64]
    visible: NDArray[np.bool_]
    rows: NDArray[np.int64]
    targets: NDArray[np.int64]
    lengths: tuple[int, ...]
    boundaries: int

    def mean_scores(self, logprobs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Average the log-probabilities at ``rows`` to one score per (probe, boundary)."""
        cuts = np.cumsum([length * self.boundaries for length in self.lengths])[:-1]
        parts = np.split(logprobs, cuts)
        return np.stack(
            [part.reshape(self.boundaries, length).mean(1) for part, length in zip(parts, self.lengths, strict=True)]
        )


def build_probes(request: ProbeRequest) -> ProbeBatch:
    """Lay out one rollout's context and probes as a single masked sequence.

    Raises:
        ValueError: There is nothing to score, or a boundary lies outside of the rollout.
    """
    if not request.boundaries or not request.probes:
        raise ValueError("a probe request needs at least one boundary and one probe")
    for boundary in request.boundaries:
        if not 1 <= boundary <= len(request.ids):
            raise ValueError(f"boundary {boundary} lies outside of the rollout's {len(request.ids)} tokens")
    context = max(request.boundaries)
    total = context + len(request.boundaries) * sum(len(probe.ids) - 1 for probe in request.probes)
    input_ids = np.empty(total, dtype=np.int64)
    position_ids = np.empty(total, dtype=np.int64)
    visible = np.zeros((total - context, total), dtype=np.bool_)
    input_ids[:context] = request.ids[:context]
    position_ids[:context] = np.arange(context)

    rows: list[int] = []
    targets: list[int] = []
    at = context
    for probe in request.probes:
        size = len(probe.ids) - 1
        for boundary in request.boundaries:
            block = slice(at, at + size)
            input_ids[block] = probe.ids[:-1]
            position_ids[block] = boundary + np.arange(size)
            visible[at - context : at - context + size, :boundary] = True
            visible[at - context : at - context + size, block] = np.tri(size, dtype=np.bool_)
            # The token before probe token j is j - 1 of the block, or the last context token for j = 0.
            rows += [at + j - 1 if j > 0 else boundary - 1 for j in range(probe.start, len(probe.ids))]
            targets += probe.ids[probe.start :]
            at += size
    lengths = tuple(len(probe.ids) - probe.start for probe in request.probes)
    return ProbeBatch(
        context, input_ids, position_ids, visible, np.array(rows), np.array(targets), lengths, len(request.boundaries)
    )


def score_boundaries(
    model: Any,
    requests: Sequence[ProbeRequest],
    *,
    temperature: float = 1.0,
    max_attention: int = 16_000_000,
) -> list[NDArray[np.float64]]:
    """Score every probe at every boundary of every rollout.

    Rollouts of similar length share a forward. The mask is dense, so this is for models that attend with ``sdpa`` or
    ``eager``; flash attention takes no such mask.

    Args:
        model: A transformers causal language model; run as it is (set ``eval()`` for no dropout), without gradients.
        requests: What to score.
        temperature: Logits are divided by it, as during sampling.
        max_attention: Largest number of mask elements (rows x length²) in one forward; bounds memory. A rollout whose
            own square exceeds it is read through a key-value cache.

    Returns:
        For each request an array ``[probes, boundaries]`` of mean log-probabilities per answer token.

    Raises:
        ValueError: The model's attention cannot take a dense mask.
    """
    implementation = getattr(getattr(model, "config", None), "_attn_implementation", "sdpa")
    if implementation not in ("sdpa", "eager"):
        raise ValueError(
            f"one-pass probes need a dense attention mask, which attn_implementation={implementation!r} does not take; "
            "load the model with 'sdpa' or 'eager'"
        )
    built = [build_probes(request) for request in requests]
    scores: list[NDArray[np.float64]] = [np.empty(0)] * len(built)
    for indices in _chunks([len(batch.input_ids) for batch in built], max_attention):
        chunk = [built[index] for index in indices]
        if len(chunk[0].input_ids) ** 2 > max_attention:
            found = [_cached_forward(model, batch, temperature, max_attention) for batch in chunk]
        else:
            found = _masked_forward(model, chunk, temperature)
        for index, batch, logprobs in zip(indices, chunk, found, strict=True):
            scores[index] = batch.mean_scores(logprobs)
    return scores


def best_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of several accepted answers the best one counts, at each boundary anew."""
    best: NDArray[np.float64] = scores.max(axis=0)
    return best


def _chunks(lengths: Sequence[int], max_attention: int) -> Iterator[list[int]]:
    """Group indices by similar length, so that rows x longest² stays within the limit (one row always goes)."""
    chunk: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if chunk and (len(chunk) + 1) * lengths[index] ** 2 > max_attention:
            yield chunk
            chunk = []
        chunk.append(index)
    if chunk:
        yield chunk


@torch.no_grad()
def _masked_forward(model: Any, batches: Sequence[ProbeBatch], temperature: float) -> list[NDArray[np.float64]]:
    """Log-probabilities of the targets of each batch, contexts and probes in one forward."""
    width = max(len(batch.input_ids) for batch in batches)
    input_ids = torch.zeros((len(batches), width), dtype=torch.long)
    position_ids = torch.zeros((len(batches), width), dtype=torch.long)
    visible = torch.eye(width, dtype=torch.bool).repeat(len(batches), 1, 1)  # padding sees itself: no row is empty
    for row, batch in enumerate(batches):
        size, context = len(batch.input_ids), batch.context
        input_ids[row, :size] = torch.from_numpy(batch.input_ids)
        position_ids[row, :size] = torch.from_numpy(batch.position_ids)
        visible[row, :context, :context] = torch.ones(context, context, dtype=torch.bool).tril()
        visible[row, context:size, :size] = torch.from_numpy(batch.visible)
    # Only the rows that predict an answer token go through the vocabulary projection.
    needed = np.unique(np.concatenate([batch.rows for batch in batches]))
    logits = _logits(model, input_ids, position_ids, needed, visible=visible, use_cache=False)
    return [
        _target_logprobs(logits[row], needed, batch.rows, batch.targets, temperature)
        for row, batch in enumerate(batches)
    ]


@torch.no_grad()
def _cached_forward(model: Any, batch: ProbeBatch, temperature: float, max_attention: int) -> NDArray[np.float64]:
    """The same for one long rollout: its context in chunks through a key-value cache, then all probes at once."""
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    total, context = len(batch.input_ids), batch.context
    step = max(1, max_attention // total)
    edges = [*range(0, context, step), context]
    parts: list[tuple[int, int, torch.Tensor | None]] = [(start, end, None) for start, end in pairwise(edges)]
    if total > context:
        parts.append((context, total, torch.from_numpy(batch.visible).unsqueeze(0)))
    result = np.empty(len(batch.rows))
    for start, end, visible in parts:
        here = (batch.rows >= start) & (batch.rows < end)
        # A chunk without targets still has to project something: its last row, which is dropped.
        needed = np.unique(batch.rows[here]) if here.any() else np.array([end - 1])
        part = slice(start, end)
        input_ids = torch.from_numpy(batch.input_ids[part]).unsqueeze(0)
        position_ids = torch.from_numpy(batch.position_ids[part]).unsqueeze(0)
        logits = _logits(
            model, input_ids, position_ids, needed - start, visible=visible, use_cache=True, past_key_values=cache
        )
        if here.any():
            result[here] = _target_logprobs(logits[0], needed, batch.rows[here], batch.targets[here], temperature)
    return result


def _logits(
    model: Any,
    input_ids: torch.Tensor,
    position_ids: torch.Tensor,
    needed: NDArray[np.int64],
    *,
    visible: torch.Tensor | None,
    **kwargs: Any,
) -> torch.Tensor:
    """Run the model; ``visible`` ``[rows, queries, keys]`` becomes the additive mask that both attentions take."""
    parameter = next(model.parameters())
    if visible is not None:
        hidden = torch.finfo(parameter.dtype).min
        mask = torch.zeros(visible.shape, dtype=parameter.dtype).masked_fill_(~visible, hidden)
        kwargs["attention_mask"] = mask.unsqueeze(1).to(parameter.device)
    output = model(
        input_ids=input_ids.to(parameter.device),
        position_ids=position_ids.to(parameter.device),
        logits_to_keep=torch.from_numpy(needed).to(parameter.device),
        **kwargs,
    )
    logits: torch.Tensor = output.logits
    return logits


def _target_logprobs(
    logits: torch.Tensor,
    needed: NDArray[np.int64],
    rows: NDArray[np.int64],
    targets: NDArray[np.int64],
    temperature: float,
) -> NDArray[np.float64]:
    """Log-probability of each target at its row; ``logits`` holds the rows ``needed`` (sorted)."""
    kept = torch.from_numpy(np.searchsorted(needed, rows)).to(logits.device)
    logprobs = torch.log_softmax(logits[kept].float() / temperature, dim=-1)
    chosen = logprobs.gather(1, torch.from_numpy(targets).to(logits.device).unsqueeze(1))
    result: NDArray[np.float64] = chosen.squeeze(1).double().cpu().numpy()
    return result
