"""A belief without a network: a smoothed unigram language model over the evidence gathered so far.

``p(w | E) = (c(w; E) + mu * p(w | C)) / (|E| + mu)``: the maximum-likelihood estimate from the evidence E, smoothed
with a Dirichlet prior around the corpus model C (Zhai and Lafferty, "A Study of Smoothing Methods for Language Models
Applied to Information Retrieval", ACM TOIS 22(2), 2004). Reading a page that names the answer raises its probability;
reading anything else lowers it a little.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from venus_env.beliefs.base import require_answers, score_incrementally
from venus_env.beliefs.evidence import EvidenceReader
from venus_env.corpus.document import Corpus
from venus_env.corpus.text import words
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message


class LexicalBelief:
    """Scores answers by the words of the tool replies and of the question.

    Args:
        background: Count of every word in the corpus, words as :func:`venus_env.corpus.text.words` gives them.
        mu: Weight of the background in words: the larger, the less one sentence says.
    """

    def __init__(self, background: Mapping[str, int], mu: float = 2000.0) -> None:
        if not mu > 0 or math.isinf(mu):
            raise ValueError(f"mu must be a positive number of words, got {mu}")
        self.mu = mu
        self._background = background
        # One more word than were seen, each counted once more: a word outside the corpus is rare, not impossible.
        self._total = sum(background.values()) + len(background) + 1

    @classmethod
    def from_corpus(cls, corpus: Corpus, mu: float = 2000.0) -> LexicalBelief:
        """A belief whose background is the corpus that the tools search."""
        return cls(corpus.unigram_counts(), mu)

    def open(self, question: str, answers: Sequence[str]) -> LexicalState:
        """Start an episode's belief; the question is its first evidence."""
        return LexicalState(self, question, require_answers(answers))

    async def score(
        self, trajectory: Trajectory, boundaries: Sequence[int], answers: Sequence[str]
    ) -> list[list[float]]:
        """Score a finished episode at each boundary (numbers of leading messages)."""
        return await score_incrementally(self, trajectory, boundaries, answers)

    def background_probability(self, word: str) -> float:
        """``p(w | C)`` with add-one smoothing; positive for every word."""
        return (self._background.get(word, 0) + 1) / self._total


class LexicalState:
    """The belief about one episode.

    Args:
        belief: Background and smoothing.
        question: The question.
        answers: Accepted answers.
    """

    def __init__(self, belief: LexicalBelief, question: str, answers: Sequence[str]) -> None:
        self._mu = belief.mu
        self._reader = EvidenceReader()
        # An answer without letters or digits ("++") has no words: it is looked up as one word, and never found.
        answer_words = [words(answer) or [answer.strip()] for answer in answers]
        self._answers = [[(word, belief.background_probability(word)) for word in answer] for answer in answer_words]
        self._wanted = {word for answer in answer_words for word in answer}
        self._counts: Counter[str] = Counter()
        self._length = 0
        self._add(words(question))

    async def update(self, new_messages: Sequence[Message]) -> list[float]:
        """Count the new evidence; mean log-probability per answer word, for each accepted answer."""
        for sentence in self._reader.read(new_messages):
            self._add(sentence)
        return [
            sum(self._log_probability(word, prior) for word, prior in answer) / len(answer) for answer in self._answers
        ]

    def _add(self, sentence: Sequence[str]) -> None:
        self._length += len(sentence)
        if not self._wanted.isdisjoint(sentence):  # no other count is ever asked for
            self._counts.update(word for word in sentence if word in self._wanted)

    def _log_probability(self, word: str, prior: float) -> float:
        return math.log((self._counts[word] + self._mu * prior) / (self._length + self._mu))
