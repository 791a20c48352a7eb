r"""Answer probes: the log-probability of the answer at every turn boundary of an episode, in one pass (method 4.1).

After the tokens that a boundary cuts off, a pseudo answer is appended (``prefix answer suffix``, say
``…enough information…\n</think>\n<answer>\n`` before and ``\n</answer>`` after it), and ``S`` is the mean
log-probability of the answer's tokens there. The naive way runs one forward per boundary over an ever longer context.
Here the pseudo answers of all boundaries follow the context in a single sequence: position ids make each believe that
it stands right at its boundary, and attention lets it see the context up to there and itself.

The attention is computed in parts, so that no square mask ever exists and nothing is kept in a key-value cache: the
context attends causally, as in any forward; then groups of neighbouring boundaries attend to the context up to the
group's last boundary, under a mask of a few rows. One pass therefore costs what a forward of context and probes costs,
in time and in memory, at any length.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from venus_env.beliefs.pseudo_answer import PseudoAnswer
from venus_env.models import attending_by

_ATTENTION = "venus_probes"
_GROUP_ROWS = 256
"""Probe tokens that share a mask. More of them look further past their own boundary, fewer copy the keys more often."""
_VOCABULARY_ROWS = 64
"""Rows of logits that are widened to fp32 at a time."""
_LAYERS = {"full_attention", "sliding_attention"}
_switch_lock = threading.Lock()


class OnePassUnsupportedError(ValueError):
    """The model's attention cannot be taken apart; score it one boundary after the other."""


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
    """What to score for one episode.

    Attributes:
        ids: Tokens of the episode; those after the last boundary are not read.
        boundaries: Context lengths at which every probe is scored, each at least 1, in any order; one that is repeated
            is computed once.
        probes: One pseudo answer per accepted answer.
    """

    ids: Sequence[int]
    boundaries: Sequence[int]
    probes: Sequence[Probe]

    def __post_init__(self) -> None:
        if not self.boundaries or not self.probes:
            raise ValueError("a probe request needs at least one boundary and one probe")
        for boundary in self.boundaries:
            if not 1 <= boundary <= len(self.ids):
                raise ValueError(f"boundary {boundary} lies outside of the episode's {len(self.ids)} tokens")

    @property
    def tokens_read(self) -> int:
        """Tokens that one pass reads: the context, and the probes at each boundary."""
        return max(self.boundaries) + len(set(self.boundaries)) * len(ProbeTree.of(self.probes).tokens)


@dataclass(frozen=True, slots=True)
class ProbeTree:
    """All probes of a request as one tree of tokens, the same at each boundary: what they have in common is read once.

    A probe's last token is only ever predicted, so it is no node.

    Attributes:
        tokens: ``[m]``, parents before children.
        depths: ``[m]``, distance from the boundary.
        visible: ``[m, m]`` booleans: a token sees its ancestors and itself.
        rows: ``[t]``, the node that predicts each answer token, probe by probe; -1 for the context's last token.
        targets: ``[t]``, those answer tokens.
        lengths: Number of answer tokens per probe; they sum to t.
    """

    tokens: NDArray[np.int64]
    depths: NDArray[np.int64]
    visible: NDArray[np.bool_]
    rows: NDArray[np.int64]
    targets: NDArray[np.int64]
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, probes: Sequence[Probe]) -> ProbeTree:
        """Merge the common beginnings of probes."""
        nodes: dict[tuple[int, ...], int] = {}
        for probe in probes:
            for end in range(1, len(probe.ids)):
                nodes.setdefault(probe.ids[:end], len(nodes))
        visible = np.eye(len(nodes), dtype=np.bool_)
        for path, node in nodes.items():
            if len(path) > 1:
                visible[node] |= visible[nodes[path[:-1]]]
        scored = [(probe.ids[:end], probe.ids[end]) for probe in probes for end in range(probe.start, len(probe.ids))]
        return cls(
            tokens=np.array([path[-1] for path in nodes], dtype=np.int64),
            depths=np.array([len(path) - 1 for path in nodes], dtype=np.int64),
            visible=visible,
            rows=np.array([nodes.get(path, -1) for path, _ in scored], dtype=np.int64),
            targets=np.array([token for _, token in scored], dtype=np.int64),
            lengths=tuple(len(probe.ids) - probe.start for probe in probes),
        )


class ProbeLayout:
    """Where the probes of a sequence stand, for the attention.

    No dataclass on purpose: FSDP2 copies dataclasses on their way into a layer, and the copies would do the counting.

    Attributes:
        context: Number of context tokens; the trees follow, one per boundary.
        boundaries: Context lengths, ascending and distinct, ``[b]``.
        visible: Of the tree, ``[m, m]``.
        attended: Number of layers that have attended by this layout.
    """

    def __init__(self, context: int, boundaries: torch.Tensor, visible: torch.Tensor) -> None:
        self.context = context
        self.boundaries = boundaries
        self.visible = visible
        self.attended = 0

    def groups(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Neighbouring boundaries as rows of the sequence, and which keys these see.

        The keys are the context up to the group's last boundary, then the rows themselves.
        """
        size = len(self.visible)
        if size == 0:  # every probe is a single token, predicted by the context
            return
        together = max(1, _GROUP_ROWS // size)
        for first in range(0, len(self.boundaries), together):
            ends = self.boundaries[first : first + together]
            context = torch.arange(int(ends[-1]), device=ends.device) < ends.repeat_interleave(size)[:, None]
            same = torch.eye(len(ends), dtype=torch.bool, device=ends.device)
            own = same.repeat_interleave(size, 0).repeat_interleave(size, 1) & self.visible.repeat(len(ends), len(ends))
            start = self.context + first * size
            yield slice(start, start + len(own)), torch.cat([context, own], dim=1)


@torch.no_grad()
def score_boundaries(model: Any, request: ProbeRequest, *, temperature: float = 1.0) -> NDArray[np.float64]:
    """Score every probe at every boundary of an episode.

    Calls take turns, since the model's configuration names another attention meanwhile. Whoever else runs the model at
    that time gets the results of ``sdpa``.

    Args:
        model: A causal language model of ``transformers`` with full attention in every layer; run as it is (set
            ``eval()`` for no dropout), without gradients. Its own attention implementation does not matter.
        request: What to score.
        temperature: Logits are divided by it, as during sampling.

    Returns:
        Mean log-probabilities per answer token, ``[probes, boundaries]``.

    Raises:
        OnePassUnsupportedError: Not every layer of the model computes its attention through ``transformers``' attention
            interface, or one sees a part of the context only.
    """
    config = model.config.get_text_config()
    if not model._supports_attention_backend:
        raise OnePassUnsupportedError("the model's code does not use transformers' attention interface")
    if unknown := set(getattr(config, "layer_types", None) or ()) - _LAYERS:
        raise OnePassUnsupportedError(f"the model has layers other than attention: {', '.join(sorted(unknown))}")
    tree = ProbeTree.of(request.probes)
    boundaries, inverse = np.unique(np.asarray(request.boundaries), return_inverse=True)
    context, size = int(boundaries[-1]), len(tree.tokens)
    input_ids = np.concatenate([np.asarray(request.ids[:context]), np.tile(tree.tokens, len(boundaries))])
    position_ids = np.concatenate([np.arange(context), (boundaries[:, None] + tree.depths).ravel()])
    trees = context + size * np.arange(len(boundaries))
    rows = np.where(tree.rows < 0, boundaries[:, None] - 1, trees[:, None] + tree.rows)  # [boundaries, answer tokens]
    # Only the rows that predict an answer token go through the vocabulary projection.
    needed, place = np.unique(rows, return_inverse=True)

    device = next(model.parameters()).device
    layout = ProbeLayout(context, torch.from_numpy(boundaries).to(device), torch.from_numpy(tree.visible).to(device))
    with _switch_lock, attending_by(config, _ATTENTION, _attend):
        logits = model(
            input_ids=torch.from_numpy(input_ids).to(device).unsqueeze(0),
            position_ids=torch.from_numpy(position_ids).to(device).unsqueeze(0),
            # Four dimensions: taken as a mask that is already made, so that the model makes none of its own.
            attention_mask=torch.zeros((1, 1, 1, 1), device=device),
            logits_to_keep=torch.from_numpy(needed).to(device),
            use_cache=False,
            probe_layout=layout,
        ).logits[0]
    if layout.attended != config.num_hidden_layers:
        raise OnePassUnsupportedError(
            f"{layout.attended} of the model's {config.num_hidden_layers} layers took the attention of the probes; "
            "something else has set the attention of this model meanwhile: give the belief a model of its own"
        )
    logprobs = _logprobs(logits, place.ravel(), np.tile(tree.targets, len(boundaries)), temperature)
    parts = np.split(logprobs.reshape(rows.shape), np.cumsum(tree.lengths)[:-1], axis=1)
    return np.stack([part.mean(axis=1)[inverse] for part in parts])


def best_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of several accepted answers the best one counts, at each boundary anew."""
    best: NDArray[np.float64] = scores.max(axis=0)
    return best


def _logprobs(
    logits: torch.Tensor, rows: NDArray[np.int64], targets: NDArray[np.int64], temperature: float
) -> NDArray[np.float64]:
    """Log-probability of each target at its row of ``logits``, without a second copy of these."""
    totals = [
        (logits[first : first + _VOCABULARY_ROWS].float() / temperature).logsumexp(dim=-1)
        for first in range(0, len(logits), _VOCABULARY_ROWS)
    ]
    at = torch.from_numpy(rows).to(logits.device)
    chosen = logits[at, torch.from_numpy(targets).to(logits.device)].float() / temperature
    result: NDArray[np.float64] = (chosen - torch.cat(totals)[at]).double().cpu().numpy()
    return result


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    probe_layout: ProbeLayout | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of ``transformers``: queries, keys and values ``[1, heads, n, d]`` to ``[1, n, heads, d]``.

    Without a layout, which is to say for others that run the model during a pass, it is that of ``sdpa``.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if probe_layout is None:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return output, None
    _require_plain(kwargs, query.shape[2])
    attention = torch.nn.functional.scaled_dot_product_attention
    scale = kwargs.get("scaling")
    output = query.new_empty(1, query.shape[2], query.shape[1], value.shape[3])
    context = slice(0, probe_layout.context)
    output[:, context] = attention(
        query[:, :, context], key[:, :, context], value[:, :, context], is_causal=True, scale=scale, enable_gqa=True
    ).transpose(1, 2)
    for rows, visible in probe_layout.groups():
        # Heads that share keys become a dimension of their own, so that the keys need not be repeated in memory.
        queries = query[0, :, rows].reshape(key.shape[1], -1, *visible.shape[:1], query.shape[3])
        keys, values = (
            torch.cat([each[0, :, : visible.shape[1] - visible.shape[0]], each[0, :, rows]], dim=1)
            .unsqueeze(1)
            .expand(-1, queries.shape[1], -1, -1)
            for each in (key, value)
        )
        mask = torch.zeros(visible.shape, dtype=query.dtype, device=query.device).masked_fill_(~visible, -torch.inf)
        output[0, rows] = attention(queries, keys, values, attn_mask=mask, scale=scale).flatten(0, 1).transpose(0, 1)
    probe_layout.attended += 1
    return output, None


def _require_plain(kwargs: dict[str, Any], length: int) -> None:
    """Refuse attention that is more than a softmax over everything before."""
    window = kwargs.get("sliding_window")
    if window is not None and window < length:
        raise OnePassUnsupportedError(f"a layer of the model sees {window} tokens only, of {length}")
    for name in ("softcap", "s_aux"):
        if kwargs.get(name) is not None:
            raise OnePassUnsupportedError(f"the model's attention has {name!r}, which probes do not compute")
