"""TRL: research episodes as the rollouts of its ``GRPOTrainer``."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from venus_env.envs.portal import portal
from venus_env.envs.research import ResearchEnv
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS
from venus_env.seeding import derive_seed
from venus_env.session import ResearchSession
from venus_env.tokens import Conversation, Renderer


class ResearchRollouts:
    """Plays an environment's episodes for a ``GRPOTrainer``, which takes it as its ``rollout_func``.

    ``GRPOTrainer(model, reward_funcs=episode_return, rollout_func=rollouts, train_dataset=rollouts.dataset(), args=…)``

    The episodes of a batch advance together, turn by turn, through the trainer's own generation, and nothing is decoded
    and encoded again: a completion is all that the model has read and written after the prompt; ``env_mask`` tells the
    two apart. ``max_completion_length`` limits a turn; ``max_turns`` and ``max_context_tokens`` of ``env``, a
    :class:`~venus_env.envs.research.ResearchEnv` that is itself not stepped, limit an episode.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        if not isinstance(env.unwrapped, ResearchEnv):
            raise TypeError(f"ResearchRollouts plays a ResearchEnv, not a {type(env.unwrapped).__name__}")
        self._source = env.unwrapped.source
        self._tasks = {task.id: task for task in self._source.tasks}

    def dataset(self) -> Any:
        """The tasks as a ``datasets.Dataset``: ``prompt`` (the id of a task), ``question`` and ``split``."""
        from datasets import Dataset

        rows = [{"prompt": task.id, "question": task.question, "split": task.split} for task in self._source.tasks]
        return Dataset.from_list(rows)

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """Play one episode for each prompt; ``trajectory`` in the result has the records, for reward functions.

        Raises:
            ValueError: A prompt names no task or fills the context, or generation would run on after the end of a turn.
        """
        renderer = Renderer(trainer.processing_class)
        if renderer.end_of_turn_id not in trainer.eos_token_ids:
            end = renderer.layout.end_of_turn
            raise ValueError(f"generation does not stop at {end!r}: list it in generation_config.eos_token_id")
        source = replace(self._source, count_tokens=renderer.count_tokens)
        seeds = (trainer.args.seed, trainer.state.global_step, trainer.accelerator.process_index)
        rollouts = []
        for row, prompt in enumerate(prompts):
            if not isinstance(prompt, str) or prompt not in self._tasks:
                raise ValueError(f"prompt {prompt!r} is no id of a task of this environment; train on dataset()")
            session = source.session(self._tasks[prompt], derive_seed(*seeds, row))
            rollouts.append(_Rollout(session, Conversation(renderer)))
        _run(rollout.start() for rollout in rollouts)
        logprobs = None
        while playing := [rollout for rollout in rollouts if not rollout.session.done]:
            contexts = [rollout.conversation.ids for rollout in playing]
            turns, logprobs = trainer._generate_single_turn(contexts, None, {}, num_generations=1)
            _run(map(_Rollout.step, playing, turns, logprobs or [None] * len(turns)))
        records = [rollout.record() for rollout in rollouts]
        columns = {name: [record[name] for record in records] for name in records[0]}
        return columns if logprobs else {**columns, "logprobs": None}


def episode_return(trajectory: Sequence[Trajectory], log_metric: Any, **_: Any) -> list[float | None]:
    """Sum up each episode's rewards; None, which TRL leaves out of its groups, if the infrastructure ended it."""
    returns = [None if episode.end in INFRASTRUCTURE_ENDS else episode.metrics["return"] for episode in trajectory]
    log_metric("episodes_lost", returns.count(None) / len(returns))
    return returns


@dataclass
class _Rollout:
    session: ResearchSession
    conversation: Conversation

    async def start(self) -> None:
        self.conversation.open(await self.session.start())
        if self.session.done:  # the belief failed; TRL needs a completion all the same
            return self.conversation.add_sampled([])
        self.session.set_context_tokens(len(self.conversation.ids))
        if self.session.done:
            raise ValueError(f"task {self.session.task.id!r} fills max_context_tokens; raise it, or drop the task")

    async def step(self, ids: Sequence[int], logprobs: Sequence[float] | None) -> None:
        config = self.session.episode.config
        limit = min(config.answer_tokens, config.max_context_tokens - len(self.conversation.ids))
        self.conversation.add_sampled(ids[:limit], None if logprobs is None else logprobs[:limit])
        outcome = await self.session.step(self.conversation.renderer.decode_turn(ids[:limit]))
        if not outcome.done:
            self.conversation.add_user(outcome.new_messages[-1]["content"])
            self.session.set_context_tokens(len(self.conversation.ids))

    def record(self) -> dict[str, Any]:
        tokens, trajectory = self.conversation, self.session.trajectory()
        start = tokens.boundaries[0]
        end = max(start + 1, tokens.turns[-1].end)  # TRL looks at the last token of each completion
        return {
            "prompt_ids": tokens.ids[:start],
            "completion_ids": tokens.ids[start:end],
            "logprobs": tokens.logprobs[start:end],
            "env_mask": [0] * (end - start) if trajectory.end in INFRASTRUCTURE_ENDS else tokens.mask[start:end],
            "trajectory": trajectory,
        }


def _run(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    async def gather() -> None:
        await asyncio.gather(*coroutines)

    portal().run(gather())
