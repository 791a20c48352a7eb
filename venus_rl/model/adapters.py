"""Names of a model's weights while LoRA adapters are attached to it, and the names of the plain model behind."""

from __future__ import annotations

_WRAPPER = "base_model.model."
BASE_WEIGHT = ".base_layer.weight"
"""Ending of a weight that an adapter is added to; what stands before it names the layer."""


def is_adapter(name: str) -> bool:
    """Whether a weight belongs to an adapter and not to the model."""
    return "lora_" in name


def plain_name(name: str) -> str:
    """Name that a weight of the model has where no adapters are attached."""
    return name.removeprefix(_WRAPPER).replace(".base_layer.", ".")
