"""A policy over a local ``transformers`` model: many episodes at once, token-exact, reproducible."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from venus_env.models import load_causal_lm, load_tokenizer
from venus_env.policies.engine import Generation
from venus_env.policies.generation import BatchGenerator
from venus_env.protocol.turns import Message
from venus_env.seeding import derive_seed
from venus_env.tasks.task import Task
from venus_env.tokens import Conversation, Renderer

__all__ = ["BatchGenerator", "Generation", "HFEpisodePolicy", "HFPolicy"]


class HFPolicy:
    """Answers with a causal language model.

    Episodes made by :meth:`new_episode` share one :class:`BatchGenerator`, so run them concurrently. Each keeps its own
    append-only token conversation: what was sampled stays in the context as sampled.

    Args:
        model: A model folder or name, or a loaded model.
        tokenizer: Its tokenizer; loaded from the same place when None (then ``model`` must be a folder or name).
        temperature: 0 is greedy.
        top_p: Sample from the smallest set of tokens that holds this probability.
        max_turn_tokens: Most tokens of one turn.
        seed: Together with an episode's seed and the turn it fixes what is sampled.
        max_batch: Most turns generated at the same time.
        device: Where to load a model given by name, e.g. ``"cuda"``.
        generator: An existing generator over the model, to share it with other policies.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_turn_tokens: int = 1024,
        seed: int = 0,
        max_batch: int = 64,
        device: str = "cpu",
        generator: BatchGenerator | None = None,
    ) -> None:
        if tokenizer is None:
            tokenizer = load_tokenizer(model)
        if isinstance(model, str | Path):
            model = load_causal_lm(model, device)
        self.renderer = Renderer(tokenizer)
        self.temperature = temperature
        self.top_p = top_p
        self.max_turn_tokens = max_turn_tokens
        self.seed = seed
        if generator is None:
            end = self.renderer.end_of_turn_id
            pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else end
            generator = BatchGenerator(model, _end_ids(model, end), pad, max_batch)
        self.generator = generator
        self._episodes = 0
        self._current: HFEpisodePolicy | None = None

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> HFEpisodePolicy:
        """Start an episode's own policy.

        Args:
            task: Not looked at: a policy learns the question from its messages.
            seed: Seed of the episode; a running number when None, so pass one when episodes start in no fixed order.
        """
        if seed is None:
            seed = self._episodes
            self._episodes += 1
        return HFEpisodePolicy(self, derive_seed(self.seed, seed))

    async def act(self, messages: Sequence[Message]) -> str:
        """Play one episode after another; a conversation that consists of its opening starts the next one."""
        if self._current is None or len(messages) == 2:
            self._current = self.new_episode()
        return await self._current.act(messages)

    def count_tokens(self, text: str) -> int:
        """Length of a text in the model's tokens, for the session's budget."""
        return self.renderer.count_tokens(text)


class HFEpisodePolicy:
    """One episode of an :class:`HFPolicy`.

    Attributes:
        conversation: Tokens, loss mask, log-probabilities and turn spans so far.
    """

    def __init__(self, policy: HFPolicy, seed: int) -> None:
        self.conversation = Conversation(policy.renderer)
        self._policy = policy
        self._seed = seed
        self._read: list[str] = []  # user and system texts that are in the conversation

    async def act(self, messages: Sequence[Message]) -> str:
        """Read what is new in ``messages`` and write the next turn.

        Raises:
            ValueError: ``messages`` does not continue the conversation that this policy has read so far.
        """
        policy = self._policy
        self._take_in(messages)
        turn = len(self.conversation.turns)
        generation = await policy.generator.generate(
            self.conversation.ids,
            policy.max_turn_tokens,
            temperature=policy.temperature,
            top_p=policy.top_p,
            seed=derive_seed(self._seed, turn),
            return_logprobs=True,
        )
        self.conversation.add_sampled(generation.ids, generation.logprobs)
        return policy.renderer.decode_turn(generation.ids)

    def _take_in(self, messages: Sequence[Message]) -> None:
        given = [message["content"] for message in messages if message["role"] != "assistant"]
        turns = len(self.conversation.turns)
        expected = 2 + 2 * turns
        if len(messages) != expected or given[: len(self._read)] != self._read:
            raise ValueError(
                f"this policy has written {turns} turns and expects the {expected} messages that follow from them, got "
                f"{len(messages)} or an edited history; use new_episode() for every episode"
            )
        if turns == 0:
            self.conversation.open(messages)
        else:
            self.conversation.add_user(messages[-1]["content"])
        self._read = given


def _end_ids(model: Any, end_of_turn: int) -> list[int]:
    """The end-of-turn token of the chat layout and whatever else the model's generation settings stop at."""
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if configured is None:
        return [end_of_turn]
    return sorted({end_of_turn, *([configured] if isinstance(configured, int) else configured)})
