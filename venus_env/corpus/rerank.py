"""A second look at search results: a model that reads query and passage together puts the best ones first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from venus_env.corpus.document import Corpus, Hit, Page, Passage
from venus_env.corpus.errors import CorpusError

_BATCH = 16
_TOKENS = 512


class Reranker(Protocol):
    """Tells how well passages answer a query."""

    def score(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Return one score per passage, higher for better; comparable within this call only."""
        ...


class RerankedCorpus:
    """A corpus whose first results are put in order by a :class:`Reranker`.

    Whatever else the corpus offers is passed through. Pickled, it takes corpus and reranker along.

    Args:
        corpus: The corpus to search.
        reranker: Orders the results of a query. Called on a worker thread, one query after another.
        depth: Results of the corpus that are looked at again, per query.
    """

    def __init__(self, corpus: Corpus, reranker: Reranker, depth: int = 50) -> None:
        if depth < 1:
            raise ValueError(f"RerankedCorpus: depth must be at least 1, got {depth}")
        self.corpus = corpus
        self.reranker = reranker
        self.depth = depth

    def __reduce__(self) -> tuple[type[RerankedCorpus], tuple[Corpus, Reranker, int]]:
        return RerankedCorpus, (self.corpus, self.reranker, self.depth)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.corpus, name)

    @property
    def content_hash(self) -> str:
        """Hash of the passages."""
        return self.corpus.content_hash

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return at most ``k`` hits per query; their scores are the reranker's.

        Raises:
            CorpusError: The reranker did not give one score per passage.
        """
        found = await self.corpus.search(queries, max(k, self.depth))
        return await asyncio.to_thread(self._reordered, queries, found, k)

    def _reordered(self, queries: Sequence[str], found: Sequence[Sequence[Hit]], k: int) -> list[list[Hit]]:
        results = []
        for query, hits in zip(queries, found, strict=True):
            passages = [hit.passage for hit in hits]
            scores = list(self.reranker.score(query, passages)) if passages else []
            if len(scores) != len(passages):
                raise CorpusError(f"the reranker gave {len(scores)} scores for {len(passages)} passages of {query!r}")
            order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
            results.append([Hit(passages[place], float(scores[place])) for place in order[:k]])
        return results

    async def page(self, url: str) -> Page | None:
        """Return the page at ``url``, or None when the corpus has no such page."""
        return await self.corpus.page(url)

    def unigram_counts(self) -> Mapping[str, int]:
        """Count of every lower-cased word in the corpus."""
        return self.corpus.unigram_counts()


class CrossEncoder:
    """A cross-encoder of ``transformers``: sequence classification with one output. Needs torch.

    Args:
        model: Folder or Hugging Face name.
        device: Where to run it, e.g. ``"cuda"``.
    """

    def __init__(self, model: str | Path, device: str = "cpu") -> None:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(model)
        self._model = AutoModelForSequenceClassification.from_pretrained(model).to(device).eval()
        if self._model.config.num_labels != 1:
            raise CorpusError(f"{model}: a cross-encoder has one output, this one has {self._model.config.num_labels}")
        self._device = device
        self._made_from: tuple[str | Path, str] = (model, device)

    def __reduce__(self) -> tuple[Callable[..., CrossEncoder], tuple[str | Path, str]]:
        return CrossEncoder, self._made_from

    def score(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """Return the model's output for each passage with its title."""
        import torch

        scores: list[float] = []
        for start in range(0, len(passages), _BATCH):
            texts = [f"{one.title}\n{one.text}" for one in passages[start : start + _BATCH]]
            batch = self._tokenizer(
                [query] * len(texts), texts, padding=True, truncation=True, max_length=_TOKENS, return_tensors="pt"
            ).to(self._device)
            with torch.inference_mode():
                scores += self._model(**batch).logits[:, 0].float().tolist()
        return scores
