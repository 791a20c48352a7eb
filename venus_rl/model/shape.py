"""Sizes of decoder models: read from a folder, known by name, shrunk, counted, and made with random weights.

Nothing here imports torch at the top; only :func:`qwen3_config` and :func:`make_shrunk` need more than arithmetic.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

ShapeName = Literal["qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b"]
"""Models whose sizes are known without their files."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a dense decoder with gated MLPs (Qwen3, Llama and their like).

    Attributes:
        vocab: Rows of the embedding.
        hidden: Width of the residual stream.
        layers: Decoder layers.
        heads: Query heads.
        kv_heads: Key and value heads.
        head_dim: Width of a head.
        feed_forward: Width of the MLP.
        positions: Longest sequence in tokens.
        tied: Whether the output matrix is the embedding.
        rope_theta: Base of the rotary position encoding.
    """

    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    positions: int
    tied: bool = True
    rope_theta: float = 1_000_000.0

    @property
    def attention_width(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer: four projections, three MLP matrices, two norms of the width, two of a head."""
        attention = 2 * self.hidden * self.attention_width + 2 * self.hidden * self.kv_heads * self.head_dim
        return attention + 3 * self.hidden * self.feed_forward + 2 * self.hidden + 2 * self.head_dim

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding, and of the output matrix where that is another one."""
        return self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.layers * self.layer_parameters + self.embedding_parameters + self.hidden

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values that one token leaves behind, in bfloat16."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2


# From the models' published config.json.
SHAPES: dict[str, ModelShape] = {
    "qwen3-0.6b": ModelShape(151_936, 1024, 28, 16, 8, 128, 3072, 40_960),
    "qwen3-1.7b": ModelShape(151_936, 2048, 28, 16, 8, 128, 6144, 40_960),
    # The 2507 models: 262,144 positions without stretching.
    "qwen3-4b": ModelShape(151_936, 2560, 36, 32, 8, 128, 9728, 262_144, rope_theta=5_000_000.0),
    "qwen3-8b": ModelShape(151_936, 4096, 36, 32, 8, 128, 12_288, 40_960, tied=False),
}


def read_shape(folder: Path) -> ModelShape:
    """Read the sizes from a Hugging Face folder's ``config.json``.

    Raises:
        ValueError: The file is damaged, or is no dense decoder's; names what is missing.
        OSError: It cannot be read.
    """
    file = folder / "config.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    try:
        heads, hidden = int(values["num_attention_heads"]), int(values["hidden_size"])
        rope = values.get("rope_parameters") or values
        return ModelShape(
            vocab=int(values["vocab_size"]),
            hidden=hidden,
            layers=int(values["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(values.get("num_key_value_heads") or heads),
            head_dim=int(values.get("head_dim") or hidden // heads),
            feed_forward=int(values["intermediate_size"]),
            positions=int(values.get("max_position_embeddings", 2**31)),
            tied=bool(values.get("tie_word_embeddings", False)),
            rope_theta=float(rope.get("rope_theta", 10_000.0)),
        )
    except KeyError as error:
        raise ValueError(f"{file} names no {error.args[0]}: not a dense decoder model") from error


def shrink_shape(
    shape: ModelShape, factor: float = 16.0, *, layers: int | None = None, hidden: int | None = None
) -> ModelShape:
    """Divide width and depth; head width, positions and vocabulary stay, and so does each query's share of a key.

    Args:
        shape: Sizes to start from.
        factor: What ``hidden``, ``layers``, heads and MLP are divided by, at least 1.
        layers: Depth, instead.
        hidden: Width, instead; heads and MLP follow it.

    Returns:
        Sizes of at least 1 layer, 1 head and a width of 16.
    """
    width = factor if hidden is None else shape.hidden / hidden
    kv_heads = max(1, round(shape.kv_heads / width))
    heads = kv_heads * max(1, round(shape.heads / width / kv_heads))
    return replace(
        shape,
        hidden=hidden or max(16, round(shape.hidden / width / 16) * 16),
        layers=layers or max(1, round(shape.layers / factor)),
        heads=heads,
        kv_heads=kv_heads,
        feed_forward=max(16, round(shape.feed_forward / width / 16) * 16),
    )


def qwen3_config(shape: ModelShape, *, pad_id: int, end_of_turn_id: int) -> Qwen3Config:
    """Describe a Qwen3 model of ``shape`` to transformers."""
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.feed_forward,
        max_position_embeddings=shape.positions,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        tie_word_embeddings=shape.tied,
        pad_token_id=pad_id,
        eos_token_id=end_of_turn_id,
        bos_token_id=None,
    )


# A random model hardly ever samples one token in thousands, so each of its turns would fill its budget. The end of a
# turn starts out about as likely as one token in this many; what else is sampled stays uniform.
_TURN_LENGTH = 24


def make_shrunk(
    shape: ModelShape, tokenizer: PreTrainedTokenizerFast, end_of_turn_id: int, seed: int
) -> Qwen3ForCausalLM:
    """Make a Qwen3 model of ``shape`` with random weights that ends its turns.

    The vocabulary is the tokenizer's, not the shape's: what is sampled has to be text.

    Args:
        shape: Sizes; ``tied`` is not looked at, the matrices are tied.
        tokenizer: Its tokenizer.
        end_of_turn_id: Token that ends a turn.
        seed: The same seed gives the same weights.
    """
    import torch
    from transformers import Qwen3ForCausalLM

    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else end_of_turn_id
    config = qwen3_config(replace(shape, vocab=len(tokenizer), tied=True), pad_id=pad, end_of_turn_id=end_of_turn_id)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config).float()
        # Coordinate 0 is so large for every token that it alone survives the final norm, as sqrt(hidden). The norm's
        # weight brings it down to a size that bfloat16 resolves, and the end of a turn has a larger share of it.
        large = math.sqrt(shape.layers * shape.hidden)
        embedding = model.model.embed_tokens.weight
        embedding[:, 0] = large
        embedding[end_of_turn_id, 0] *= 1 + math.log(len(tokenizer) / _TURN_LENGTH)
        model.model.norm.weight[0] = 1 / (large * math.sqrt(shape.hidden))
    return model
