"""Attention for generating on a CPU: key-value heads that several query heads share stay shared in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from venus_env.models import attending_by

if TYPE_CHECKING:
    import torch

_NAME = "venus_cpu_gqa"


def require_maskable(config: Any) -> None:
    """Refuse models whose attention would not follow the explicit mask that batched generation passes."""
    if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        raise ValueError("the model has sliding-window layers, which BatchGenerator does not mask; serve it with vLLM")
    implementation = getattr(config, "_attn_implementation", "sdpa")
    if implementation not in ("sdpa", "eager", _NAME):
        raise ValueError(
            f"BatchGenerator passes its own attention mask, which {implementation!r} ignores: load the model with "
            "attn_implementation='sdpa'"
        )


@contextmanager
def grouped_attention(model: Any) -> Iterator[None]:
    """Let ``model`` use grouped attention inside the block, if it runs on a CPU; its own setting comes back after.

    Grouped attention is a full replacement of ``sdpa``: whoever else runs the model meanwhile gets the same results.
    """
    config = model.config
    if model.device.type != "cpu" or config._attn_implementation != "sdpa":
        yield
        return
    with attending_by(config, _NAME, _attend):
        yield


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Scaled dot product attention that takes grouped heads and a mask together.

    ``transformers`` repeats the shared heads in memory as soon as there is a mask, which triples the time of a decoding
    step on a CPU.
    """
    import torch

    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    output = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout,
        is_causal=causal and attention_mask is None and query.shape[2] > 1,
        scale=scaling,
        enable_gqa=True,
    )
    return output.transpose(1, 2).contiguous(), None
