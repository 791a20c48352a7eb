"""A belief held by a language model in this process: the mean log-probability of the answer's tokens (method 4.1).

While an episode runs, each boundary and answer takes a forward pass over a key-value cache that grows with the episode,
so that a context is read once. A finished episode takes one pass for all boundaries
(:mod:`venus_env.beliefs.probes`). Episodes take turns at the model.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from venus_env.beliefs.base import context_lengths, read_messages, require_answers, score_incrementally
from venus_env.beliefs.pseudo_answer import PseudoAnswer
from venus_env.models import load_causal_lm, load_tokenizer
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.tokens import Conversation, Renderer

logger = logging.getLogger(__name__)


class HFBelief:
    """Scores answers with a causal language model of ``transformers``.

    A model given by name is loaded on first use and again after unpickling.

    Args:
        model: A model folder or name, or a loaded model.
        tokenizer: Its tokenizer; loaded from the same place when None (then ``model`` must be a folder or name).
        wrapper: Text around the answer; fitted to the model's chat layout when None.
        temperature: Logits are divided by it. 1.0 scores the model itself, another value a policy that samples so.
        device: Where to load a model given by name.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        wrapper: PseudoAnswer | None = None,
        temperature: float = 1.0,
        device: str = "cpu",
    ) -> None:
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, got {temperature}")
        if tokenizer is None and not isinstance(model, str | Path):
            load_tokenizer(model)  # raises, now rather than in the middle of an episode
        self._source = model
        self._tokenizer = tokenizer
        self._wrapper = wrapper
        self._temperature = temperature
        self._device = device
        self._scorer: _Scorer | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scorer": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def open(self, question: str, answers: Sequence[str]) -> HFBeliefState:
        """Start an episode's belief; the question is read from the opening messages."""
        return HFBeliefState(self, require_answers(answers))

    async def score(
        self, trajectory: Trajectory, boundaries: Sequence[int], answers: Sequence[str]
    ) -> list[list[float]]:
        """Score a finished episode at each boundary (numbers of leading messages), in one pass over it.

        A model whose attention cannot be taken apart (sliding windows, layers of another kind) is asked boundary by
        boundary instead.

        Raises:
            ValueError: The boundaries are out of order or range, or not where the policy would write its next turn.
        """
        scores = await asyncio.to_thread(self._score, trajectory, list(boundaries), require_answers(answers))
        if scores is None:
            return await score_incrementally(self, trajectory, boundaries, answers)
        return scores

    def _score(self, trajectory: Trajectory, boundaries: list[int], answers: Sequence[str]) -> list[list[float]] | None:
        """Score in one pass; None if the model does not allow it."""
        from venus_env.beliefs.probes import OnePassUnsupportedError

        scorer = self.scorer()
        ids, lengths = context_lengths(scorer.renderer, trajectory.messages, boundaries)
        if not boundaries:
            return []
        try:
            return scorer.score_at(ids, lengths, answers)
        except OnePassUnsupportedError as error:
            logger.info("scoring boundary by boundary: %s", error)
            return None

    def scorer(self) -> _Scorer:
        """The loaded model with its renderer."""
        with self._lock:
            if self._scorer is None:
                named = isinstance(self._source, str | Path)
                model = load_causal_lm(self._source, self._device) if named else self._source.eval()
                tokenizer = self._tokenizer if self._tokenizer is not None else load_tokenizer(self._source)
                renderer = Renderer(tokenizer)
                wrapper = self._wrapper or PseudoAnswer.after(renderer.layout.opened)
                self._scorer = _Scorer(model, renderer, wrapper, self._temperature)
            return self._scorer


class HFBeliefState:
    """The belief about one episode.

    Args:
        belief: The model behind it.
        answers: Accepted answers.
    """

    def __init__(self, belief: HFBelief, answers: Sequence[str]) -> None:
        self._belief = belief
        self._answers = answers
        self._conversation: Conversation | None = None
        self._cache: Any = None

    async def update(self, new_messages: Sequence[Message]) -> list[float]:
        """Read the new messages; mean log-probability per answer token, for each accepted answer.

        Raises:
            ValueError: The conversation does not end where the policy would write its next turn.
        """
        return await asyncio.to_thread(self._update, list(new_messages))

    def _update(self, new_messages: list[Message]) -> list[float]:
        scorer = self._belief.scorer()
        if self._conversation is None:
            self._conversation = Conversation(scorer.renderer)
        read_messages(self._conversation, new_messages)
        scores, self._cache = scorer.score(self._conversation.ids, self._cache, self._answers)
        return scores


class _Scorer:
    """A model, used by one thread at a time."""

    def __init__(self, model: Any, renderer: Renderer, wrapper: PseudoAnswer, temperature: float) -> None:
        self.renderer = renderer
        self._model = model
        self._wrapper = wrapper
        self._temperature = temperature
        self._lock = threading.Lock()

    def score(self, context: Sequence[int], cache: Any, answers: Sequence[str]) -> tuple[list[float], Any]:
        """Score each answer after ``context``; ``cache`` holds a part of it and is returned holding more."""
        import torch
        from transformers import DynamicCache

        scores = []
        with self._lock, torch.inference_mode():
            if cache is None:
                # Without the configuration, sliding-window layers keep everything: they could not be cropped otherwise.
                cache = DynamicCache()
            for answer in answers:
                probe, start = self._wrapper.tokens(self.renderer.tokenizer, answer)
                known = cache.get_seq_length()
                answer_ids = torch.tensor(probe[start:], device=self._model.device)
                # The answer's last token is only predicted, never read.
                ids = torch.tensor([[*context[known:], *probe[:-1]]], device=self._model.device)
                output = self._model(
                    input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=len(answer_ids)
                )
                logprobs = (output.logits[0].float() / self._temperature).log_softmax(-1)
                scores.append(float(logprobs.gather(-1, answer_ids[:, None]).mean()))
                # Keep the context less one token, so that there is always something to feed before an empty prefix.
                cache.crop(len(context) - 1)
        return scores, cache

    def score_at(self, ids: Sequence[int], lengths: Sequence[int], answers: Sequence[str]) -> list[list[float]]:
        """Score each answer after each of the leading ``lengths`` of ``ids``, in one pass."""
        from venus_env.beliefs.probes import Probe, ProbeRequest, score_boundaries

        probes = [Probe.of(self._wrapper, self.renderer.tokenizer, answer) for answer in answers]
        with self._lock:
            scores = score_boundaries(self._model, ProbeRequest(ids, lengths, probes), temperature=self._temperature)
        return [[float(value) for value in column] for column in scores.T]
