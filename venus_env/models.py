"""Loading of local language models, for policies and beliefs that run one in this process."""

from __future__ import annotations

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
