"""A belief without a network: a smoothed language model over the evidence gathered so far.

The first word of an answer is drawn from a unigram model with a Dirichlet prior around the corpus model C (Zhai and
Lafferty, "A Study of Smoothing Methods for Language Models Applied to Information Retrieval", ACM TOIS 22(2), 2004)::

    p(w | E) = (c(w; E) + mu * p(w | C)) / (|E| + mu)

Each further word is drawn after the one before it, with a second Dirichlet prior around that (MacKay and Peto, "A
hierarchical Dirichlet language model", Natural Language Engineering 1(3), 1995)::

    p(w | v, E) = (c(v w; E) + nu * p(w | E)) / (c(v; E) + nu)

So reading the answer raises its probability, reading its words in other company does little, and reading anything else
lowers it a little. Without the second model every page about some Indianapolis spoke for the Indianapolis Motor
Speedway; docs/information_gain.md has the figures, and what else was tried.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from venus_env.beliefs.base import require_answers, score_incrementally
from venus_env.beliefs.evidence import EvidenceReader, evidence_words
from venus_env.corpus.document import Corpus
from venus_env.corpus.text import JUDGEMENTS
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message


class LexicalBelief:
    """Scores answers by the words of the tool replies and of the question.

    It abstains (NaN) from answers that evidence does not spell out: ``yes``, ``no``, ``true``, ``false``, and answers
    without letters or digits. An episode of which every accepted answer is of that kind has no information gain.

    Args:
        background: Count of every word in the corpus, words as :func:`venus_env.corpus.text.words` gives them.
        mu: Weight of the background in words: the larger, the less one sentence says.
        nu: Weight of the unigram model after a word, in occurrences of that word.
    """

    def __init__(self, background: Mapping[str, int], mu: float = 2000.0, nu: float = 1.0) -> None:
        for name, weight in (("mu", mu), ("nu", nu)):
            if not weight > 0 or math.isinf(weight):
                raise ValueError(f"{name} must be a positive number of words, got {weight}")
        self.mu = mu
        self.nu = nu
        self._background = background
        # One more word than were seen, each counted once more: a word outside the corpus is rare, not impossible.
        self._total = sum(background.values()) + len(background) + 1

    @classmethod
    def from_corpus(cls, corpus: Corpus, mu: float = 2000.0, nu: float = 1.0) -> LexicalBelief:
        """A belief whose background is the corpus that the tools search."""
        return cls(corpus.unigram_counts(), mu, nu)

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
        self._nu = belief.nu
        self._reader = EvidenceReader()
        self._answers = [_spelled_out(answer) for answer in answers]
        wanted = {word for answer in self._answers for word in answer}
        self._priors = {word: belief.background_probability(word) for word in wanted}
        self._links = {link for answer in self._answers for link in pairwise(answer)}
        self._counts: Counter[str] = Counter()
        self._link_counts: Counter[tuple[str, str]] = Counter()
        self._length = 0
        self._add(evidence_words(question))

    async def update(self, new_messages: Sequence[Message]) -> list[float]:
        """Count the new evidence; mean log-probability per answer word, for each accepted answer; NaN: abstains."""
        for sentence in self._reader.read(new_messages):
            self._add(sentence)
        return [self._score(answer) for answer in self._answers]

    def _add(self, sentence: Sequence[str]) -> None:
        self._length += len(sentence)
        if self._priors.keys().isdisjoint(sentence):  # no other count is ever asked for
            return
        self._counts.update(word for word in sentence if word in self._priors)
        if self._links:
            self._link_counts.update(link for link in pairwise(sentence) if link in self._links)

    def _score(self, answer: Sequence[str]) -> float:
        if not answer:
            return math.nan
        total = math.log(self._probability(answer[0]))
        for before, word in pairwise(answer):
            seen = self._link_counts[before, word] + self._nu * self._probability(word)
            # What is missing to 1 over all words is the chance that the sentence ends.
            total += math.log(seen / (self._counts[before] + self._nu))
        return total / len(answer)

    def _probability(self, word: str) -> float:
        return (self._counts[word] + self._mu * self._priors[word]) / (self._length + self._mu)


def _spelled_out(answer: str) -> list[str]:
    """Words that evidence for an answer would show; none where it would show no words, or any page might."""
    found = evidence_words(answer)
    return [] if tuple(found) in JUDGEMENTS else found
