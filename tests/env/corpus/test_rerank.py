from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from venus_env.corpus import Corpus, CorpusError, LocalCorpus, Passage
from venus_env.corpus.build import build_index
from venus_env.corpus.rerank import CrossEncoder, RerankedCorpus


class ShortestFirst:
    def score(self, query: str, passages: Sequence[Passage]) -> list[float]:
        return [-len(passage.text) for passage in passages]


class Silent:
    def score(self, query: str, passages: Sequence[Passage]) -> list[float]:
        return []


@pytest.fixture
def corpus(write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path) -> LocalCorpus:
    build_index(write(rows), tmp_path / "index")
    return LocalCorpus(tmp_path / "index")


async def test_the_reranker_orders_the_first_results(corpus: LocalCorpus) -> None:
    reranked: Corpus = RerankedCorpus(corpus, ShortestFirst(), depth=3)
    (plain,), (hits,) = await corpus.search(["city of Lyon"], 3), await reranked.search(["city of Lyon"], 2)
    expected = sorted((hit.passage for hit in plain), key=lambda passage: len(passage.text))[:2]
    assert [hit.passage for hit in hits] == expected
    assert [hit.score for hit in hits] == [-len(passage.text) for passage in expected]
    assert await reranked.search(["?!"], 2) == [[]]


async def test_the_rest_is_the_corpus(corpus: LocalCorpus) -> None:
    reranked = pickle.loads(pickle.dumps(RerankedCorpus(corpus, ShortestFirst())))
    assert isinstance(reranked, Corpus)
    assert reranked.content_hash == corpus.content_hash
    assert reranked.unigram_counts() == corpus.unigram_counts()
    assert await reranked.page("https://venus.wiki/Oslo") == await corpus.page("https://venus.wiki/Oslo")
    assert reranked.manifest == corpus.manifest


async def test_bad_rerankers_and_depths_are_named(corpus: LocalCorpus) -> None:
    with pytest.raises(CorpusError, match="gave 0 scores for"):
        await RerankedCorpus(corpus, Silent()).search(["Lyon"], 1)
    with pytest.raises(ValueError, match="depth must be at least 1, got 0"):
        RerankedCorpus(corpus, Silent(), depth=0)


def test_cross_encoder_scores_each_pair(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="cross-encoders need torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "lyon", "oslo"]))
    transformers.BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    config = transformers.BertConfig(
        vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, num_labels=1
    )
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    encoder = CrossEncoder(tmp_path)
    passages = [Passage(str(place), "u", "lyon", "oslo " * (place + 1)) for place in range(20)]
    scores = encoder.score("lyon", passages)
    assert len(scores) == 20
    alone = [encoder.score("lyon", [passage])[0] for passage in passages]
    assert scores == pytest.approx(alone, abs=1e-4)
    assert pickle.loads(pickle.dumps(encoder)).score("lyon", passages) == scores
    config.num_labels = 2
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    with pytest.raises(CorpusError, match="one output, this one has 2"):
        CrossEncoder(tmp_path)
