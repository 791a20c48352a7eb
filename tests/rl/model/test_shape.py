from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from venus_rl.model.shape import SHAPES, ModelShape, ShapeName, read_shape, shrink_shape

FOUR = SHAPES["qwen3-4b"]


def test_every_name_has_a_shape() -> None:
    assert set(get_args(ShapeName)) == set(SHAPES)


def test_parameters_by_hand() -> None:
    tiny = ModelShape(vocab=10, hidden=4, layers=2, heads=2, kv_heads=1, head_dim=3, feed_forward=5, positions=8)
    # Attention 4·6 + 2·4·3 + 6·4 = 72, MLP 3·4·5 = 60, norms 2·4 + 2·3 = 14: 146 a layer; embedding 40; last norm 4.
    assert (tiny.layer_parameters, tiny.parameters) == (146, 2 * 146 + 40 + 4)
    assert replace(tiny, tied=False).parameters == tiny.parameters + 40
    assert tiny.kv_bytes_per_token == 2 * 2 * 1 * 3 * 2  # keys and values · layers · heads · width · bytes


@pytest.mark.parametrize(
    ("name", "billions"), [("qwen3-0.6b", 0.596), ("qwen3-1.7b", 1.72), ("qwen3-4b", 4.02), ("qwen3-8b", 8.19)]
)
def test_known_models_have_their_published_size(name: str, billions: float) -> None:
    assert SHAPES[name].parameters / 1e9 == pytest.approx(billions, rel=2e-3)


@pytest.mark.parametrize("name", list(SHAPES))
def test_the_formula_counts_what_transformers_makes(name: str) -> None:
    torch = pytest.importorskip("torch")
    from transformers import Qwen3Config, Qwen3ForCausalLM

    shape = SHAPES[name]
    config = Qwen3Config(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.feed_forward,
        tie_word_embeddings=shape.tied,
    )
    with torch.device("meta"):
        assert Qwen3ForCausalLM(config).num_parameters() == shape.parameters


def test_a_folder_is_read(policy_folder: Path, tmp_path: Path) -> None:
    shape = read_shape(policy_folder)
    assert (shape.hidden, shape.layers, shape.heads, shape.head_dim, shape.positions) == (32, 1, 1, 32, 2048)
    values = json.loads((policy_folder / "config.json").read_text())
    del values["hidden_size"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match="names no hidden_size: not a dense decoder"):
        read_shape(tmp_path)


def test_a_sixteenth_of_four_billion() -> None:
    small = shrink_shape(FOUR, 16)
    assert (small.hidden, small.layers, small.heads, small.kv_heads, small.feed_forward) == (160, 2, 2, 1, 608)
    assert (small.head_dim, small.positions, small.vocab) == (FOUR.head_dim, FOUR.positions, FOUR.vocab)


def test_sizes_may_be_given_and_one_changes_nothing() -> None:
    assert shrink_shape(FOUR, 1) == FOUR
    given = shrink_shape(FOUR, layers=3, hidden=320)
    assert (given.layers, given.hidden, given.heads, given.kv_heads, given.feed_forward) == (3, 320, 4, 1, 1216)


@pytest.mark.parametrize("factor", [1, 2, 3.5, 16, 1000])
def test_heads_always_share_keys_evenly(factor: float) -> None:
    small = shrink_shape(FOUR, factor)
    assert small.heads % small.kv_heads == 0
    assert min(small.layers, small.heads, small.kv_heads) >= 1


@pytest.mark.parametrize("sizes", [{"factor": 16}, {"factor": 4}, {"layers": 12, "hidden": 64}])
def test_a_random_model_ends_its_turns(sizes: dict[str, int], policy_folder: Path) -> None:
    """About one token in 24 ends a turn, at every position, in both precisions."""
    torch = pytest.importorskip("torch")
    from transformers import AutoTokenizer

    from venus_rl.model.shape import make_shrunk

    tokenizer = AutoTokenizer.from_pretrained(policy_folder)
    shape = shrink_shape(SHAPES["qwen3-0.6b"], **sizes)  # type: ignore[arg-type]
    model = make_shrunk(shape, tokenizer, tokenizer.eos_token_id, seed=3)
    ids = torch.arange(64)[None]
    for dtype in (torch.float32, torch.bfloat16):
        with torch.no_grad():
            ends = model.to(dtype)(input_ids=ids).logits.float().softmax(-1)[0, :, tokenizer.eos_token_id]
        assert 1 / 40 < ends.min() <= ends.max() < 1 / 15
