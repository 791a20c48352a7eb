from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.env.corpus.onnx_file import write_token_table
from venus_env.corpus import CorpusDamaged, CorpusError, LocalCorpus
from venus_env.corpus.build import build_index
from venus_env.corpus.encoders import encoder_name, open_encoder, resolved_spec

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "lyon", "city", "oslo", "norway", "silk", "river", "passage", "query"]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights and a tokenizer of a dozen words."""
    torch = pytest.importorskip("torch", reason="encoders of transformers need torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_passages_and_queries_agree_whatever_the_batch(model: Path, tmp_path: Path) -> None:
    encoder: Any = open_encoder(str(model))
    assert encoder.dimensions == 16
    texts = ["lyon city", "oslo norway " * 40, "silk", "river city lyon"] * 3
    vectors = encoder.embed_passages(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    embed = encoder.query_embedder(tmp_path)
    together = embed([*texts, "?!"])
    np.testing.assert_allclose(together[:-1], vectors, atol=1e-5)
    assert not together[-1].any()
    np.testing.assert_array_equal(together[1], embed([texts[1]])[0])


def test_pooling_and_prompts_come_from_the_folder(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cls"
    shutil.copytree(model, folder)
    (folder / "1_Pooling").mkdir()
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    prompts = {"prompts": {"query": "query ", "document": "passage "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    plain: Any = open_encoder(str(model))
    other: Any = open_encoder(str(folder))
    (query,) = other.query_embedder(tmp_path)(["lyon"])
    (passage,) = other.embed_passages(["lyon"])
    assert np.abs(query - passage).max() > 1e-3
    assert np.abs(passage - plain.embed_passages(["passage lyon"])[0]).max() > 1e-3
    assert encoder_name(str(folder)) != encoder_name(str(model))


def test_an_index_remembers_its_encoder(
    model: Path, write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    folder, out = tmp_path / "encoder", tmp_path / "index"
    shutil.copytree(model, folder)
    assert resolved_spec(f"{folder}/../encoder") == str(folder)
    manifest = build_index(write(rows), out, encoder=str(folder))
    assert manifest.encoder.startswith("encoder transformers ")
    assert build_index(write(rows), out, encoder=str(folder)) == manifest
    assert not list((out / manifest.data).glob(".*"))
    corpus = LocalCorpus(out)
    assert corpus.search_now(["silk Lyon"], 1)[0][0].passage.title == "Lyon"
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 1e-5}))
    with pytest.raises(CorpusDamaged, match=r"stale, built with encoder .*build it again"):
        LocalCorpus(out)
    shutil.rmtree(folder)
    with pytest.raises(CorpusError, match="no such folder"):
        LocalCorpus(out)
    assert build_index(write(rows), out).encoder.startswith("wordllama ")


def test_specs() -> None:
    assert encoder_name().startswith("wordllama 0.4")
    assert resolved_spec("wordllama") == "wordllama"
    with pytest.raises(CorpusError, match="'nowhere': no such folder"):
        resolved_spec("nowhere")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("nowhere", "'nowhere': no such folder; expected 'wordllama', 'minilm', or the folder"),
        ("", "expected 'wordllama'"),
        ("wordllama[onnx]", "expected 'wordllama'"),
        ("a[tensorrt]", "expected 'wordllama'"),
        (".[onnx]", "no ONNX file here; looked for model.onnx"),
        (".", r"no weights \(\*\.safetensors\) here"),
    ],
)
def test_bad_specs_are_named(spec: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError, match=expected):
        encoder_name(spec)


def test_an_onnx_file_runs_without_torch(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="running an ONNX file needs onnxruntime")
    folder = tmp_path / "table"
    folder.mkdir()
    shutil.copy(model / "tokenizer.json", folder)
    table = write_token_table(folder / "model.onnx", len(WORDS))
    encoder: Any = open_encoder(f"{folder}[onnx]")
    (found,) = encoder.embed_passages(["lyon silk"])
    expected = (table[WORDS.index("lyon")] + table[WORDS.index("silk")]) / 2
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-6)


def test_torch_is_not_imported_by_the_default() -> None:
    code = (
        "import sys; from venus_env.corpus.encoders import open_encoder, encoder_name; encoder_name(); open_encoder();"
        "assert not {'torch', 'transformers', 'onnxruntime', 'wordllama'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
