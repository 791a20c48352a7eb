"""Sentence-embedding models: folders of ``sentence-transformers`` or plain encoders, run by transformers or ONNX."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from venus_env.corpus.encoders import Floats, QueryEmbedder
from venus_env.corpus.errors import CorpusError
from venus_env.corpus.text import words

_TOKENIZER = "tokenizer.json"
_SETTINGS = (
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    _TOKENIZER,
)
_ONNX_FILES = ("model.onnx", "onnx/model.onnx", "model_int8.onnx", "onnx/model_int8.onnx")
_SAMPLE = 2**20
# Tokens of a batch with its padding: enough to keep matrix products busy, little enough for 2 GB of memory.
_BATCH_TOKENS = 8192
_SPOOL = ".vectors.f16"
_ROWS = 512

Ids = npt.NDArray[np.int64]
Model = Callable[[Ids, Ids], Floats]
"""From token ids and attention mask, each (batch, tokens), to (batch, tokens, dimensions) or (batch, dimensions)."""


def fingerprint(folder: Path, onnx: bool) -> str:
    """Hash of what decides a model's vectors: settings, tokenizer, and size, beginning and end of its weights."""
    digest = hashlib.sha256()
    for name in _SETTINGS:
        if (folder / name).is_file():
            digest.update(f"{name}\n".encode() + (folder / name).read_bytes())
    for path in [_onnx_file(folder)] if onnx else _weight_files(folder):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_SAMPLE))
            file.seek(max(size - _SAMPLE, 0))
            digest.update(file.read(_SAMPLE))
    return digest.hexdigest()


class SentenceEncoder:
    """A sentence-embedding model: mean or first-token pooling, then scaling to length one.

    Pooling, token limit and the prompts of queries and passages are read from the files of ``sentence-transformers``
    where the folder has them; else it is the mean of at most 512 tokens, without prompts. Runs on a GPU where there is
    one.

    Attributes:
        dimensions: Length of a vector.
    """

    def __init__(self, folder: Path, *, onnx: bool = False) -> None:
        from tokenizers import Tokenizer  # type: ignore[import-untyped]

        if not (folder / _TOKENIZER).is_file():
            raise CorpusError(f"{folder}: no {_TOKENIZER} here; an encoder's folder needs its fast tokenizer")
        pooling = _json(folder / "1_Pooling/config.json")
        self._first_token = bool(pooling.get("pooling_mode_cls_token"))
        if not pooling.get("pooling_mode_mean_tokens", True) and not self._first_token:
            raise CorpusError(f"{folder}: pools neither the mean nor the first token; choose another encoder")
        prompts = _json(folder / "config_sentence_transformers.json").get("prompts") or {}
        self._query_prompt = str(prompts.get("query", ""))
        self._passage_prompt = str(prompts.get("document", prompts.get("passage", "")))
        limit = _json(folder / "sentence_bert_config.json").get("max_seq_length")
        limit = limit or min(int(_json(folder / "config.json").get("max_position_embeddings", 512)), 512)
        self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(limit)
        self._model: Model = _onnx_model(folder) if onnx else _transformers_model(folder)
        self.dimensions = len(self._embed_one("dimensions"))

    def collect(self, directory: Path) -> VectorCollection:
        """Begin with the texts of a corpus."""
        return VectorCollection(self, directory)

    def query_embedder(self, directory: Path) -> QueryEmbedder:
        """Give what embeds queries; the corpus makes no difference."""
        return self._embed_queries

    def _embed_queries(self, queries: Sequence[str]) -> Floats:
        # One at a time: padding beside a longer query would change the last bits, and with them an order of results.
        rows = [
            self._embed_one(self._query_prompt + query) if words(query) else np.zeros(self.dimensions, np.float32)
            for query in queries
        ]
        return np.stack(rows)

    def embed_passages(self, texts: Sequence[str]) -> Floats:
        """Vectors of passages, one row each, in batches of texts of like length."""
        encoded = self._tokenizer.encode_batch([self._passage_prompt + text for text in texts])
        ids = [encoding.ids for encoding in encoded]
        found = np.zeros((len(ids), self.dimensions), dtype=np.float32)
        for batch in _batches([len(one) for one in ids]):
            found[batch] = self._run([ids[row] for row in batch])
        return found

    def _embed_one(self, text: str) -> Floats:
        vector: Floats = self._run([self._tokenizer.encode(text).ids])[0]
        return vector

    def _run(self, ids: Sequence[Sequence[int]]) -> Floats:
        width = max(map(len, ids))
        tokens, mask = np.zeros((len(ids), width), dtype=np.int64), np.zeros((len(ids), width), dtype=np.int64)
        for row, one in enumerate(ids):
            tokens[row, : len(one)] = one
            mask[row, : len(one)] = 1
        states = self._model(tokens, mask)
        if states.ndim == 3 and self._first_token:
            states = states[:, 0]
        elif states.ndim == 3:
            states = np.einsum("btd,bt->bd", states, mask.astype(np.float32)) / mask.sum(axis=1, keepdims=True)
        norms = np.linalg.norm(states, axis=1, keepdims=True)
        return (states / np.where(norms > 0, norms, 1)).astype(np.float32)


class VectorCollection:
    """Vectors of a corpus, kept in a file until the index is made."""

    def __init__(self, encoder: SentenceEncoder, directory: Path) -> None:
        self._encoder = encoder
        self._path = directory / _SPOOL
        self._file = self._path.open("wb")
        self._rows = 0

    def add(self, texts: Sequence[str]) -> None:
        """Encode texts and append their vectors."""
        self._file.write(self._encoder.embed_passages(texts).astype(np.float16).tobytes())
        self._rows += len(texts)

    def vectors(self) -> Iterator[Floats]:
        """Vectors of all texts in order, in batches."""
        self._file.flush()
        if not self._rows:
            return
        kept = np.memmap(self._path, dtype=np.float16, mode="r", shape=(self._rows, self._encoder.dimensions))
        for start in range(0, self._rows, _ROWS):
            yield kept[start : start + _ROWS].astype(np.float32)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
        self._path.unlink()


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows in batches of like length whose tokens, padding included, stay within the budget."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: (lengths[row], row)):
        if batch and (len(batch) + 1) * lengths[row] > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _transformers_model(folder: Path) -> Model:
    try:
        import torch
        from transformers import AutoModel
    except ImportError as error:
        raise CorpusError(
            f"{folder}: running a model of transformers needs torch and transformers (pip install "
            f"'venus-research[train]'); a folder with an ONNX file runs without them as '{folder}[onnx]'"
        ) from error
    _weight_files(folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).to(device).eval()

    def run(tokens: Ids, mask: Ids) -> Floats:
        with torch.inference_mode():
            output = model(
                input_ids=torch.from_numpy(tokens).to(device), attention_mask=torch.from_numpy(mask).to(device)
            )
        states: Floats = output.last_hidden_state.cpu().numpy()
        return states

    return run


def _onnx_model(folder: Path) -> Model:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise CorpusError(f"{folder}: running an ONNX file needs onnxruntime; pip install onnxruntime") from error
    session = onnxruntime.InferenceSession(_onnx_file(folder), providers=onnxruntime.get_available_providers())
    wanted = {one.name for one in session.get_inputs()}
    # Token states where the file gives them, so that pooling is ours; else its sentence vectors.
    output = max(session.get_outputs(), key=lambda one: len(one.shape)).name

    def run(tokens: Ids, mask: Ids) -> Floats:
        given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        states: Floats = session.run([output], {name: given[name] for name in wanted})[0]
        return states

    unknown = wanted - {"input_ids", "attention_mask", "token_type_ids"}
    if unknown:
        raise CorpusError(f"{folder}: the ONNX file asks for {sorted(unknown)}; it is no sentence encoder")
    return run


def _weight_files(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not found:
        raise CorpusError(f"{folder}: no weights (*.safetensors) here; give the folder of a model of transformers")
    return found


def _onnx_file(folder: Path) -> Path:
    for name in _ONNX_FILES:
        if (folder / name).is_file():
            return folder / name
    raise CorpusError(f"{folder}: no ONNX file here; looked for {', '.join(_ONNX_FILES)}")


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    value = json.loads(path.read_text(encoding="utf-8"))
    return value if isinstance(value, dict) else {}
