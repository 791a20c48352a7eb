"""The small policy: tokenizer, Qwen3 model with a copying start, pretraining recipe, shipped weights (``base``)."""

from pathlib import Path

BASE_MODEL = Path(__file__).parent / "base"
"""Folder of the shipped weights."""
