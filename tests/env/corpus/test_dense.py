from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from venus_env.corpus.dense import DenseIndex, DenseWriter, cluster_count
from venus_env.corpus.encoders_static import WordLlama


def test_pool_is_a_weighted_unit_vector() -> None:
    encoder = WordLlama()
    assert encoder.table.shape == (32_000, 256)
    ids = np.asarray(encoder.tokens("red apple"))
    weights = np.zeros(32_000, dtype=np.float32)
    weights[ids[0]] = 2.0
    only_first = encoder.table[ids[0]].astype(np.float32)
    np.testing.assert_allclose(encoder.pool(ids, weights), only_first / np.linalg.norm(only_first), atol=1e-6)


def test_batch_and_single_tokens_agree_without_special_tokens() -> None:
    encoder = WordLlama()
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


def test_clustered_vectors_rank_like_all_of_them(tmp_path: Path) -> None:
    words = ["red", "green", "blue", "cold", "warm", "old", "new", "tall", "wet", "dry", "loud", "calm"]
    texts = [f"{one} {other} {third} house" for one in words for other in words for third in words]
    for name, flat_rows in (("flat", len(texts)), ("clustered", len(texts) - 1), ("again", len(texts) - 1)):
        (tmp_path / name).mkdir()
        writer = DenseWriter(tmp_path / name, flat_rows=flat_rows)
        for text in texts:
            writer.add(text)
        writer.close()
    flat, clustered = DenseIndex(tmp_path / "flat"), DenseIndex(tmp_path / "clustered")
    files = [(tmp_path / name / "dense.faiss").read_bytes() for name in ("flat", "clustered", "again")]
    assert files[1] == files[2] != files[0]
    vectors = flat.embed([f"a {word} building" for word in words] * 3)
    ranked = clustered.rank_batch(vectors, 20)
    for vector, found, exact in zip(vectors, ranked, flat.rank_batch(vectors, 20), strict=True):
        assert found.tolist() == clustered.rank(vector, 20).tolist()
        assert len(set(found.tolist()) & set(exact.tolist())) >= 18
    assert clustered.rank(vectors[0] * 0, 5).tolist() == []
    assert len(clustered.rank(vectors[0], 10**6)) <= len(texts)


def test_number_of_clusters() -> None:
    assert [cluster_count(rows) for rows in (200_001, 1_000_000, 10_000_000)] == [2048, 4096, 16384]
