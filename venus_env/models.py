"""Loading of local language models, for policies and beliefs that run one in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def load_causal_lm(source: str | Path, device: str = "cpu") -> Any:
    """Load a causal language model of ``transformers`` in eval mode.

    Args:
        source: Folder or name of the model.
        device: Where to put it, e.g. ``"cuda"``.
    """
    import torch
    from transformers import AutoModelForCausalLM

    # bfloat16 is slow or emulated on most CPUs, and small models lose accuracy by it.
    dtype = torch.float32 if device == "cpu" else "auto"
    model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, attn_implementation="sdpa")
    return model.to(device).eval()


def load_tokenizer(source: object) -> Any:
    """Load the tokenizer that lies beside a model.

    Raises:
        ValueError: ``source`` is a loaded model, which does not know its tokenizer.
    """
    if not isinstance(source, str | Path):
        raise ValueError(f"a loaded {type(source).__name__} comes without a tokenizer: pass tokenizer=")
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(source)


@contextmanager
def attending_by(config: Any, name: str, attend: Callable[..., Any]) -> Iterator[None]:
    """Let a model attend by a function of ours inside the block; its own setting comes back after.

    The setting is visible to every thread, so ``attend`` has to serve whoever else runs the model meanwhile.

    Args:
        config: The model's configuration.
        name: Name that ``attend`` is registered under with ``transformers``; masks are made as for ``sdpa``.
        attend: Attention of ``transformers``' interface.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, sdpa_mask)
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before
