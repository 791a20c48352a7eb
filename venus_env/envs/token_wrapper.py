"""Token in, token out: a wrapper for code that owns a tokenizer and must train on exactly what it sampled."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import ArrayLike, NDArray

from venus_env.envs.research import ResearchEnv
from venus_env.envs.token_space import TokenIds
from venus_env.tokens import ChatTokenizer, Conversation, Renderer

TokenArray = NDArray[np.int64]

_MAX_OBSERVATION = 10_000_000


class TokenWrapper(gym.Wrapper[TokenArray, TokenArray, str, str], RecordConstructorArgs):
    r"""Lets a policy sample token ids and append token ids, in place of text.

    An action is what the model sampled, its end-of-turn token included or not (generation may stop at a length limit).
    An observation is what has to be appended to the model's context before it samples again. After ``reset`` that is
    the whole prompt, generation prompt included. After ``step`` it is whatever follows the sampled ids: the end-of-turn
    token if it is missing, the reply, the next generation prompt. When the episode ends without a reply, nothing
    follows but that missing token. So the context is the plain concatenation of observations and actions, and it equals
    ``env.conversation.ids`` at any time:

    ```python
    from venus_env import TokenWrapper

    env = TokenWrapper(gym.make("VenusResearch-v0"), tokenizer)
    observation, info = env.reset(seed=7)
    context, done = [*observation], False
    while not done:
        action = sample(context, max_tokens=env.max_new_tokens)
        observation, reward, terminated, truncated, info = env.step(action)
        context += [*action, *observation]
        done = terminated or truncated
    loss_mask, turns = env.conversation.mask, env.conversation.turns
    ```

    Nothing is decoded and encoded again, and no id of the context ever changes; hence earlier thinking stays in context
    where the chat template would strip it from history (see :mod:`venus_env.tokens`). Ids that are not valid UTF-8
    read as U+FFFD; the ids stay as they are.

    Budgets are measured with the tokenizer, unless the environment has a way of its own (``count_tokens``). The exact
    length of the context, frames of messages included, stands in ``info["usage"]["context_tokens"]``, and an
    episode whose context has reached ``max_context_tokens`` is truncated as ``context_limit``. All else in the info is
    the environment's.

    Copies (pickle, deepcopy) go on with the episode; ``set_state`` of the environment underneath does not reach the
    context.

    Args:
        env: A :class:`~venus_env.envs.research.ResearchEnv`, possibly wrapped.
        tokenizer: A byte-level tokenizer of Hugging Face with a chat template, or a renderer of one.
        max_new_tokens: Largest length of an action; the room that the episode keeps for one turn if None.
        vocab_size: Number of ids that the model may sample; the tokenizer's if None. Models whose output layer is
            padded beyond the tokenizer need their own.

    Attributes:
        renderer: Encodes and decodes the text between the sampled ids.
        conversation: The context so far: ``ids``, the loss ``mask`` (1 on sampled ids), ``logprobs``, and the span of
            each turn in ``turns``.
        max_new_tokens: Most tokens that the next action should have; ask before each generation.

    Raises:
        TypeError: ``env`` is no research environment, or the tokenizer does not tell its size.
        ValueError: The chat template or the tokenizer cannot be used append-only.
    """

    env: gym.Env[Any, Any]  # Gymnasium declares that a wrapper keeps the types of what it wraps

    def __init__(
        self,
        env: gym.Env[Any, Any],
        tokenizer: ChatTokenizer | Renderer,
        *,
        max_new_tokens: int | None = None,
        vocab_size: int | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, _disable_deepcopy=True, tokenizer=tokenizer, max_new_tokens=max_new_tokens, vocab_size=vocab_size
        )
        gym.Wrapper.__init__(self, env)
        if not isinstance(env.unwrapped, ResearchEnv):
            raise TypeError(f"TokenWrapper wraps a ResearchEnv, not {type(env.unwrapped).__name__}")
        self.renderer = tokenizer if isinstance(tokenizer, Renderer) else Renderer(tokenizer)
        size = vocab_size if vocab_size is not None else tokenizer_size(self.renderer.tokenizer)
        self._longest = max_new_tokens if max_new_tokens is not None else env.unwrapped.config.answer_tokens
        self.observation_space = TokenIds(size, _MAX_OBSERVATION)
        self.action_space = TokenIds(size, self._longest)
        self._conversation: Conversation | None = None
        if env.unwrapped.source.count_tokens is None:
            env.unwrapped.count_with(self.renderer.count_tokens)

    @property
    def conversation(self) -> Conversation:
        """The context so far with its loss mask, turn spans, boundaries and log-probabilities; not a copy."""
        if self._conversation is None:
            raise ResetNeeded("call reset() first")
        return self._conversation

    @property
    def max_new_tokens(self) -> int:
        """Most tokens that the next action should have: what the space allows and the context still holds.

        A longer action is taken as well, but unless it answers, it ends the episode as ``context_limit``. One token is
        kept for an end of turn that is not sampled.
        """
        left = self._research.config.max_context_tokens - len(self.conversation.ids) - 1
        return max(0, min(self._longest, left))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[TokenArray, dict[str, Any]]:
        """Start an episode and return its prompt.

        Raises:
            ValueError: The prompt alone fills the context.
        """
        _, info = self.env.reset(seed=seed, options=options)
        conversation = Conversation(self.renderer)
        conversation.open(info["new_messages"])
        self._conversation = conversation
        self._report_length(info)
        if self._research.session.done:
            raise ValueError(
                f"the prompt of task {info['task_id']!r} takes {len(conversation.ids)} tokens, and max_context_tokens "
                f"is {self._research.config.max_context_tokens}: raise it, or leave the task out"
            )
        return np.array(conversation.ids, dtype=np.int64), info

    def step(self, action: ArrayLike) -> tuple[TokenArray, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play one turn.

        Args:
            action: The sampled ids, an array of the action space or a list as model servers return it.
        """
        conversation, ids = self.conversation, self._checked(action)
        known = len(conversation.ids) + len(ids)
        _, reward, terminated, truncated, info = self.env.step(self.renderer.decode_turn(ids))
        conversation.add_sampled(ids)
        for reply in info["new_messages"][1:]:  # the first message is the turn itself
            conversation.add_user(reply["content"])
        self._report_length(info)
        truncated = truncated or (self._research.session.done and not terminated)
        return np.array(conversation.ids[known:], dtype=np.int64), reward, terminated, truncated, info

    def record_logprobs(self, logprobs: Sequence[float]) -> None:
        """Keep the log-probabilities under which the last action was sampled, one per id, in the conversation."""
        if not self.conversation.turns:
            raise ValueError("no action has been taken yet; step() comes first")
        turn = self.conversation.turns[-1]
        if len(logprobs) != turn.end - turn.start:
            raise ValueError(f"the last action has {turn.end - turn.start} ids but there are {len(logprobs)} logprobs")
        self.conversation.logprobs[turn.start : turn.end] = [float(logprob) for logprob in logprobs]

    @property
    def _research(self) -> ResearchEnv:
        research = self.unwrapped
        assert isinstance(research, ResearchEnv)  # checked when the wrapper was made
        return research

    def _checked(self, action: ArrayLike) -> list[int]:
        ids = np.asarray(action)
        if ids.size and ids.dtype.kind not in "iu":  # an empty list makes an array of floats
            raise TypeError(f"an action holds the sampled token ids, integers; got {ids.dtype}")
        ids = ids.astype(np.int64)
        if ids not in self.action_space:
            extent = f", ids from {ids.min()} to {ids.max()}" if ids.size else ""
            raise ValueError(f"an action of shape {ids.shape}{extent} is not in {self.action_space}")
        sampled: list[int] = ids.tolist()
        return sampled

    def _report_length(self, info: dict[str, Any]) -> None:
        """Tell the episode the exact length, which may end it, and the caller what came of that."""
        session = self._research.session
        session.set_context_tokens(len(self.conversation.ids))
        info["usage"]["context_tokens"] = len(self.conversation.ids)
        info["end"], info["score"] = session.episode.end, session.score


def tokenizer_size(tokenizer: ChatTokenizer) -> int:
    """Number of ids from 0 to the tokenizer's largest; added tokens may lie beyond the count of all tokens.

    Raises:
        TypeError: The tokenizer has no length.
    """
    if not isinstance(tokenizer, Sized):
        raise TypeError(f"a {type(tokenizer).__name__} does not tell its size; pass vocab_size=")
    return max([len(tokenizer), *(index + 1 for index in tokenizer.get_added_vocab().values())])
