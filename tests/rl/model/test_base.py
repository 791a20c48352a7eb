"""The shipped base policy: small, complete, and made for this protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")

from venus_env.protocol.prompt import render_answer, render_call
from venus_env.tokens import Renderer
from venus_rl.model.build import load_policy
from venus_rl.model.tokenizer import PROTOCOL_LITERALS

BASE = Path(__file__).resolve().parents[3] / "venus_rl" / "model" / "base"


@pytest.fixture(scope="module")
def policy():
    return load_policy(BASE)


def test_it_is_small_and_says_how_it_was_made():
    assert sum(file.stat().st_size for file in BASE.iterdir()) < 10_000_000
    assert "python -m venus_rl.model.pretrain" in (BASE / "README.md").read_text(encoding="utf-8")


def test_vocabulary_and_model_fit_together(policy):
    model, tokenizer = policy
    assert model.config.model_type == "qwen3"
    assert model.config.vocab_size == len(tokenizer) <= 8192
    assert model.config.head_dim in (32, 64, 96, 128)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert all(len(tokenizer.tokenize(literal)) == 1 for literal in PROTOCOL_LITERALS)


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_it_writes_the_protocol(policy, turn):
    """Given an oracle's turns so far, its most likely next turn is of the right kind, in canonical form."""
    import torch

    model, tokenizer = policy
    renderer = Renderer(tokenizer)
    url = "https://venus.wiki/Zotar"
    search = render_call("First the capital of Zotar.", "search", {"query": ["Zotar"]})
    visit = render_call("Zotar is in the results. Open it.", "visit", {"url": [url], "goal": "capital"})
    answer = render_answer("The capital is Melk. Done.", "Melk")
    found = "<tool_response>\n1. Zotar\nhttps://venus.wiki/Zotar\nZotar is a country of small size.\n</tool_response>"
    read = "<tool_response>\nZotar\nZotar is a country of small size. Its capital is Melk.\n</tool_response>"
    texts = ["You answer questions by research.", "What is the capital of Zotar?", search, found, visit, read, answer]
    roles = ["system", "user", *["assistant", "user"] * 3]
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    conversation = renderer.encode(messages)
    span = conversation.turns[turn - 1]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([conversation.ids])).logits[0]
    predicted = logits[span.start - 1 : span.end - 1].argmax(-1).tolist()
    right = sum(a == b for a, b in zip(predicted, conversation.ids[span.start : span.end], strict=True))
    assert right / (span.end - span.start) > 0.8
