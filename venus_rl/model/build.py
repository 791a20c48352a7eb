"""Makes, saves and loads the tiny policy: a Qwen3 model that starts out knowing how to copy.

Two million parameters trained for an hour spend most of that hour discovering one thing: to continue a name, find where
it stood before and write what followed. :func:`init_model` puts that circuit (previous-token heads feeding matching
heads, what the literature calls induction heads) into the first two layers as a starting point; everything else is
random, and all of it is trained. The architecture is plain Qwen3, so every engine that runs Qwen3 runs it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from venus_rl.model.shape import ModelShape, qwen3_config
from venus_rl.model.tokenizer import END_OF_TEXT, IM_END

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM


# How the residual stream is divided at the start: identity of the token | one constant | code of the token before |
# code of the token two before (across a space or an underscore).
_CODE = 32
_CONSTANT_VALUE = 0.5
_IDENTITY_STD = 0.08


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Sizes of the policy.

    Attributes:
        hidden: Width of the residual stream; the copying start needs more than 64 + ``head_dim``.
        layers: Transformer blocks, at least 2.
        heads: Attention heads; each has its own keys and values.
        head_dim: Width of a head (32, 64, 96 or 128: what serving engines have kernels for).
        feed_forward: Width of the gated MLP.
        rope_theta: Base of the rotary position angles. Large, so that half of a head's dimensions hardly turn within an
            episode and can compare contents at any distance.
        positions: Longest sequence.
        copying: Start with the copying circuit; otherwise all weights are random.
    """

    hidden: int = 160
    layers: int = 4
    heads: int = 4
    head_dim: int = 64
    feed_forward: int = 320
    rope_theta: float = 1_000_000.0
    positions: int = 131_072
    copying: bool = True

    def __post_init__(self) -> None:
        if self.head_dim not in (32, 64, 96, 128):
            raise ValueError(f"head_dim must be 32, 64, 96 or 128, not {self.head_dim}")
        narrow = self.hidden <= 2 * _CODE + self.head_dim or self.head_dim < 2 * _CODE
        if self.copying and (narrow or self.layers < 2 or self.heads < 2):
            raise ValueError(
                f"the copying start needs hidden > {2 * _CODE} + head_dim, head_dim >= {2 * _CODE}, layers >= 2 and "
                f"heads >= 2, got {self}"
            )

    def shape(self, vocab: int) -> ModelShape:
        """The same sizes with a vocabulary, as those of any model are given."""
        heads = (self.heads, self.heads, self.head_dim)
        sizes = (vocab, self.hidden, self.layers, *heads, self.feed_forward, self.positions)
        return ModelShape(*sizes, rope_theta=self.rope_theta)


def init_model(spec: ModelSpec, tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """Make an untrained policy for a tokenizer's vocabulary; the same seed gives the same weights."""
    import torch
    from transformers import Qwen3ForCausalLM

    pad, end = (tokenizer.convert_tokens_to_ids(token) for token in (END_OF_TEXT, IM_END))
    config = qwen3_config(spec.shape(len(tokenizer)), pad_id=pad, end_of_turn_id=end)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config).float()
        if spec.copying:
            with torch.no_grad():
                _install_copying(model, spec)
    return model


def _install_copying(model: Qwen3ForCausalLM, spec: ModelSpec) -> None:
    """Write the copying circuit over the random weights of the first two layers."""
    import torch

    identity = spec.hidden - 2 * _CODE - 1
    before_1 = slice(identity + 1, identity + 1 + _CODE)
    before_2 = slice(identity + 1 + _CODE, spec.hidden)
    embedding = model.model.embed_tokens.weight
    embedding.normal_(0, 0.01)
    embedding[:, :identity].normal_(0, _IDENTITY_STD)
    embedding[:, identity] = _CONSTANT_VALUE
    code = _orthonormal(_CODE, identity)
    pairs = torch.arange(spec.head_dim // 2)[-_CODE // 2 :]  # the slowest rotary pairs: i and i + head_dim / 2
    slow = torch.cat([pairs, pairs + spec.head_dim // 2])

    first, second = model.model.layers[0].self_attn, model.model.layers[1].self_attn
    for head, (offset, target) in enumerate(((1, before_1), (2, before_2))):
        rows = slice(head * spec.head_dim, (head + 1) * spec.head_dim)
        query, key = _look_back(spec, offset)
        for weight, pattern in ((first.q_proj.weight, query), (first.k_proj.weight, key)):
            weight[rows] = 0
            weight[rows, identity] = pattern
        first.v_proj.weight[rows] = 0
        first.v_proj.weight[rows.start : rows.start + _CODE, :identity] = code
        first.o_proj.weight[:, rows] = 0
        first.o_proj.weight[target, rows.start : rows.start + _CODE] = torch.eye(_CODE) * _IDENTITY_STD
    first.q_norm.weight.fill_(1.5)
    first.k_norm.weight.fill_(1.5)

    for head in range(2):
        rows = slice(head * spec.head_dim, (head + 1) * spec.head_dim)
        slow_rows = rows.start + slow
        second.q_proj.weight[rows] = 0
        second.k_proj.weight[rows] = 0
        if head == 0:  # this token = the token before there
            second.q_proj.weight[slow_rows, :identity] = code
            second.k_proj.weight[slow_rows, before_1] = torch.eye(_CODE)
        else:  # the token before = the token two before there
            second.q_proj.weight[slow_rows, before_1] = torch.eye(_CODE)
            second.k_proj.weight[slow_rows, before_2] = torch.eye(_CODE)
        value = _orthonormal(spec.head_dim, identity)
        second.v_proj.weight[rows] = 0
        second.v_proj.weight[rows, :identity] = value
        second.o_proj.weight[:, rows] = 0
        second.o_proj.weight[:identity, rows] = value.T * _IDENTITY_STD
    second.q_norm.weight.fill_(1.2)
    second.k_norm.weight.fill_(1.2)


def _orthonormal(rows: int, columns: int) -> torch.Tensor:
    import torch

    basis: torch.Tensor = torch.linalg.qr(torch.randn(columns, rows)).Q
    return basis.T


def _look_back(spec: ModelSpec, offset: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Query and key patterns over a constant input whose match peaks ``offset`` tokens back, whatever the tokens."""
    import torch

    half = spec.head_dim // 2
    query, key = torch.zeros(spec.head_dim), torch.zeros(spec.head_dim)
    for i in range(half):
        angle = spec.rope_theta ** (-i / half)
        if angle < 0.1:  # slower pairs cannot tell neighbours apart
            break
        key[i] = 1.0
        query[i] = math.cos(offset * angle)
        query[i + half] = -math.sin(offset * angle)
    return query, key


def save_policy(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, directory: str | Path) -> None:
    """Write a Hugging Face folder that ``AutoModelForCausalLM`` and ``AutoTokenizer`` load.

    Weights are stored in half precision, to be small; ``config.json`` names single precision, so engines that ask it
    load and compute in that.
    """
    import copy

    import torch

    half = copy.deepcopy(model).to(torch.float16)
    half.generation_config.eos_token_id = model.config.eos_token_id
    half.generation_config.pad_token_id = model.config.pad_token_id
    half.save_pretrained(directory)
    config = copy.deepcopy(half.config)
    config.dtype = torch.float32
    config.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def load_policy(path: str | Path) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """Load a policy and its tokenizer, in single precision whatever its files hold.

    Raises:
        FileNotFoundError: ``path`` is no model folder.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not (Path(path) / "config.json").is_file():
        raise FileNotFoundError(f"{path} holds no config.json; give the folder that save_policy wrote")
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa")
    return model, AutoTokenizer.from_pretrained(path)
