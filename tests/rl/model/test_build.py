"""The tiny policy's model: plain Qwen3, reproducible, and able to copy from the start."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM  # noqa: E402

from venus_rl.model.build import ModelSpec, init_model, load_policy, save_policy  # noqa: E402
from venus_rl.model.tokenizer import train_tokenizer  # noqa: E402

SPEC = ModelSpec(hidden=136, layers=2, heads=2, head_dim=64, feed_forward=64)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["Porto Alegre is a city."] * 20, vocab_size=600)


def test_same_seed_same_weights_and_global_random_state_untouched(tokenizer):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = init_model(SPEC, tokenizer, 3), init_model(SPEC, tokenizer, 3)
    assert torch.rand(1) == expected
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    other = init_model(SPEC, tokenizer, 4)
    assert not torch.equal(first.model.embed_tokens.weight, other.model.embed_tokens.weight)


@pytest.mark.parametrize("copying", [True, False])
def test_the_copying_start_knows_what_followed_a_token_before(tokenizer, copying):
    """On a random list repeated once, the start ranks the copied token at the top; random weights do not."""
    spec = ModelSpec(hidden=160, layers=2, heads=2, head_dim=64, feed_forward=64, copying=copying)
    model = init_model(spec, tokenizer, 0).eval()
    half = torch.randperm(280, generator=torch.Generator().manual_seed(0))[:60] + 12
    ids = torch.cat([half, half])[None]
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0]
    # The token itself always scores high (its own embedding is in the residual stream); look at the others.
    places = torch.arange(61, 119)
    logits[places, ids[0, places]] = -torch.inf
    hits = (logits[places].argmax(-1) == ids[0, places + 1]).float().mean().item()
    assert hits > 0.9 if copying else hits < 0.1


def test_saved_policy_loads_with_auto_classes_and_computes_in_single_precision(tokenizer, tmp_path):
    model = init_model(SPEC, tokenizer, 0).eval()
    save_policy(model, tokenizer, tmp_path)
    assert model.dtype == torch.float32
    loaded, its_tokenizer = load_policy(tmp_path)
    assert loaded.dtype == AutoModelForCausalLM.from_pretrained(tmp_path).dtype == torch.float32
    assert loaded.config.model_type == "qwen3"
    assert loaded.generation_config.eos_token_id == tokenizer.eos_token_id
    ids = its_tokenizer("Porto is a city.", return_tensors="pt")["input_ids"]
    assert its_tokenizer.decode(ids[0]) == "Porto is a city."
    with torch.no_grad():
        assert torch.allclose(loaded(input_ids=ids).logits, model(input_ids=ids).logits, atol=0.05)


def test_errors_name_the_input(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="head_dim must be 32, 64, 96 or 128, not 48"):
        ModelSpec(head_dim=48)
    with pytest.raises(ValueError, match="copying start needs"):
        ModelSpec(hidden=64)
    with pytest.raises(FileNotFoundError, match=r"holds no config\.json"):
        load_policy(tmp_path / "nothing")
