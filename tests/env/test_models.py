from __future__ import annotations

from pathlib import Path

import pytest

from tests.env.policies import tiny
from venus_env.models import load_causal_lm, load_tokenizer

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_loads_what_was_saved_in_float32(tmp_path: Path) -> None:
    tiny.qwen().to(torch.bfloat16).save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    model = load_causal_lm(tmp_path)
    assert model.dtype == torch.float32
    assert not model.training
    assert load_tokenizer(str(tmp_path)).encode("ab", add_special_tokens=False)


def test_a_loaded_model_has_no_tokenizer() -> None:
    with pytest.raises(ValueError, match="a loaded object comes without a tokenizer"):
        load_tokenizer(object())
