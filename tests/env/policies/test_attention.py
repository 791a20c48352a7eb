from __future__ import annotations

import pytest

from tests.env.policies import tiny

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from venus_env.policies.attention import grouped_attention, require_maskable  # noqa: E402


def test_grouped_attention_replaces_sdpa_exactly_and_is_undone() -> None:
    model = tiny.qwen()
    ids = torch.arange(24).reshape(2, 12)
    padded = torch.ones(2, 12, dtype=torch.long)
    padded[0, :5] = 0
    for mask in (None, padded):
        expected = model(ids, attention_mask=mask).logits
        expected.sum().backward()
        gradient = model.model.embed_tokens.weight.grad.clone()
        model.zero_grad()
        with grouped_attention(model):
            assert model.config._attn_implementation != "sdpa"
            require_maskable(model.config)
            grouped = model(ids, attention_mask=mask).logits
            grouped.sum().backward()
        assert model.config._attn_implementation == "sdpa"
        rows = slice(None) if mask is None else (slice(None), slice(5, None))
        torch.testing.assert_close(grouped[rows], expected[rows], atol=1e-5, rtol=1e-5)
        if mask is None:
            torch.testing.assert_close(model.model.embed_tokens.weight.grad, gradient, atol=1e-4, rtol=1e-4)
        model.zero_grad()


def test_other_implementations_are_left_alone_or_refused() -> None:
    model = tiny.qwen(attn_implementation="eager")
    with grouped_attention(model):
        assert model.config._attn_implementation == "eager"
    require_maskable(model.config)
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(ValueError, match="attn_implementation='sdpa'"):
        require_maskable(model.config)
