"""Dense retrieval: vectors of passages in FAISS, searched exactly or, in large corpora, among the nearest clusters."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from venus_env.corpus.encoders import WORDLLAMA, Collection, Floats, open_encoder

_INDEX = "dense.faiss"
_BATCH = 512
# Of a text, what its vector is made of: the mean of more says nothing, and tokenising 20 MB at once takes minutes.
_TEXT_CHARACTERS = 100_000
# Up to here every vector is compared: exact, tens of milliseconds a query. Beyond, vectors are clustered and a query
# looks into the nearest clusters only; bench.retrieval_faiss measures what that loses.
FLAT_ROWS = 200_000
# Clusters a query looks into, and vectors per cluster that clustering learns from.
_PROBES = 128
_TRAINING = 40


class DenseWriter:
    """Collect passages in row order; ``close`` writes the index.

    Args:
        directory: Where to write.
        encoder: Spec of the model; see :func:`venus_env.corpus.encoders.open_encoder`.
        flat_rows: Number of passages up to which every vector is compared.
    """

    def __init__(self, directory: Path, encoder: str = WORDLLAMA, *, flat_rows: int = FLAT_ROWS) -> None:
        self._directory = directory
        self._encoder = open_encoder(encoder)
        self._collection: Collection = self._encoder.collect(directory)
        self._flat_rows = flat_rows
        self._pending: list[str] = []
        self._rows = 0

    def add(self, text: str) -> None:
        """Append one passage."""
        self._pending.append(text[:_TEXT_CHARACTERS])
        self._rows += 1
        if len(self._pending) == _BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._collection.add(self._pending)
        self._pending = []

    def close(self) -> None:
        """Write the index."""
        import faiss

        self._flush()
        faiss.omp_set_num_threads(1)  # with several, clusters depend on the number of cores
        dimensions = self._encoder.dimensions
        if self._rows <= self._flat_rows:
            index = faiss.IndexScalarQuantizer(dimensions, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        else:
            index = self._clustered(dimensions)
        for vectors in self._collection.vectors():
            index.add(vectors)
        faiss.write_index(index, str(self._directory / _INDEX))
        self._collection.close()

    def _clustered(self, dimensions: int) -> Any:
        import faiss

        clusters = cluster_count(self._rows)
        step = max(self._rows // (_TRAINING * clusters), 1)
        sample, start = [], 0
        for vectors in self._collection.vectors():
            sample.append(vectors[-start % step :: step])
            start += len(vectors)
        index: Any = faiss.index_factory(dimensions, f"IVF{clusters},SQfp16", faiss.METRIC_INNER_PRODUCT)
        index.train(np.concatenate(sample))
        index.nprobe = min(_PROBES, clusters)
        return index


class DenseIndex:
    """Ranks rows by the cosine of their vectors.

    Attributes:
        embed: Gives the vectors of queries, one row each; the zero vector for a query without any word.
    """

    def __init__(self, directory: Path, encoder: str = WORDLLAMA) -> None:
        import faiss

        self.embed = open_encoder(encoder).query_embedder(directory)
        self._index = faiss.read_index(str(directory / _INDEX), faiss.IO_FLAG_MMAP_IFC)
        self._exact = not isinstance(self._index, faiss.IndexIVF)

    def rank(self, vector: Floats, limit: int) -> npt.NDArray[np.int64]:
        """Return up to ``limit`` rows, best first; none for a zero vector, which says nothing."""
        return self.rank_batch(vector[None], limit)[0]

    def rank_batch(self, vectors: Floats, limit: int) -> list[npt.NDArray[np.int64]]:
        """Do what :meth:`rank` does for many vectors, one row each, in one pass; a ranking is the same either way."""
        import faiss

        # One thread: OpenMP's pool does not survive a fork, and searches are small jobs.
        faiss.omp_set_num_threads(1)
        limit = min(limit, self._index.ntotal)
        if self._exact:
            rows = self._index.search(vectors, limit)[1]
        else:
            # Many at once, the clusters of a vector are found by another sum, and with it the last bits.
            rows = np.concatenate([self._index.search(vector[None], limit)[1] for vector in vectors])
        nothing = np.empty(0, dtype=np.int64)
        return [found[found >= 0] if vector.any() else nothing for vector, found in zip(vectors, rows, strict=True)]


def cluster_count(rows: int) -> int:
    """Number of clusters for so many vectors: about four times their square root, as a power of two."""
    return int(2 ** round(math.log2(4 * math.sqrt(rows))))
