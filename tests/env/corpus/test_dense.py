from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from venus_env.corpus.dense import DenseIndex, DenseWriter, shared_encoder


def test_pool_is_a_weighted_unit_vector() -> None:
    encoder = shared_encoder()
    assert encoder.vectors.shape == (32_000, 256)
    ids = np.asarray(encoder.tokens("red apple"))
    weights = np.zeros(32_000, dtype=np.float32)
    weights[ids[0]] = 2.0
    only_first = encoder.vectors[ids[0]].astype(np.float32)
    np.testing.assert_allclose(encoder.pool(ids, weights), only_first / np.linalg.norm(only_first), atol=1e-6)


def test_batch_and_single_tokens_agree_without_special_tokens() -> None:
    encoder = shared_encoder()
    texts = ["one", "a much longer text, with more tokens", ""]
    assert encoder.batch_tokens(texts) == [encoder.tokens(text) for text in texts]
    assert encoder.tokens("") == []


def test_ranks_by_likeness_without_shared_words(tmp_path: Path) -> None:
    writer = DenseWriter(tmp_path)
    for text in ("The surgeon operated in the hospital.", "Goals won the football match.", "Bread and butter."):
        writer.add(text)
    writer.close()
    index = DenseIndex(tmp_path)
    vectors = index.embed(["doctors and nurses", "soccer championship", ""])
    assert [index.rank(vector, 1).tolist() for vector in vectors] == [[0], [1], []]
    assert sorted(index.rank(vectors[0], 99).tolist()) == [0, 1, 2]


def test_the_package_itself_is_not_imported() -> None:
    assert "wordllama" not in sys.modules
