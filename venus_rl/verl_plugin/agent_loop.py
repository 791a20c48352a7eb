"""The verl agent loop: drives :class:`venus_env.session.ResearchSession` token-in/token-out.

The rules of the task live in ``venus_env``; this file only moves tokens. For one rollout it samples turns from verl's
rollout servers, appends them as sampled, lets the session act and observe, and asks the server for the answer's
log-probability at the turn boundaries (the information gain of the policy itself). What the trainer needs (turn spans,
reward events, ending, the trajectory) travels as data in ``extra_fields["venus"]``.
"""

from __future__ import annotations

import functools
import json
import logging
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import ray
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.utils.profiler import simple_timer

from venus_env.beliefs.pseudo_answer import PseudoAnswer
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS
from venus_env.rewards.compose import outcome_reward
from venus_env.rewards.information_gain import turn_gains
from venus_env.seeding import derive_seed
from venus_env.session import ResearchSession
from venus_env.setting import Setting
from venus_env.tasks.task import Task
from venus_env.tokens import Conversation, Renderer
from venus_rl.config import Config
from venus_rl.igpo.probes import Probe, ProbeRequest
from venus_rl.igpo.turn_rewards import TurnRewardConfig, build_turn_rewards
from venus_rl.verl_plugin.cutoff import counter
from venus_rl.verl_plugin.rollout import server_name

logger = logging.getLogger(__name__)


@functools.cache
def _open_setting(config_path: str) -> tuple[Config, Setting]:
    config = Config.model_validate_json(Path(config_path).read_text(encoding="utf-8"))
    return config, Setting.open(config.env)


@functools.lru_cache(maxsize=4)
def _renderer(tokenizer: Any) -> Renderer:
    return Renderer(tokenizer)


class ResearchAgentLoop(AgentLoopBase):
    """One research episode.

    Args:
        config_path: JSON of the run's :class:`Config`.
        **kwargs: verl's own arguments.
    """

    def __init__(self, *args: Any, config_path: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.venus, self.setting = _open_setting(config_path)
        self.renderer = _renderer(self.tokenizer)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Run one episode and return its tokens, masks and records."""
        task = Task.model_validate_json(row["extra_info"]["task"])
        seed = derive_seed(self.venus.run.seed, int(row["global_steps"]), int(row["index"]), int(row["session_id"]))
        session = self.setting.session(task, seed=seed, count_tokens=self.renderer.count_tokens)
        await session.start()
        conversation = Conversation(self.renderer)
        conversation.open(session.messages[:2])
        metrics: dict[str, Any] = {}
        cutoff = counter() if self.venus.rl.completion_cutoff is not None else None
        step = int(row["global_steps"])
        try:
            versions = await self._play(session, conversation, sampling_params, seed, metrics, cutoff, step)
        finally:
            if cutoff is not None:
                await cutoff.finished.remote(step)
        trajectory = session.trajectory()
        excluded = trajectory.end in INFRASTRUCTURE_ENDS
        scores: list[float | None] = []
        scoring_started = time.time()
        if self.venus.rl.algorithm == "igpo" and not excluded:
            with simple_timer("compute_score", metrics):
                scores = await self._score(task, trajectory, conversation, seed)
        scoring = (scoring_started, time.time())
        gains = turn_gains(scores, self.venus.env.rewards.gain_kind) if scores else [None] * len(trajectory.turns)
        prompt_length = conversation.boundaries[0]
        rewards = build_turn_rewards(
            trajectory.turns,
            conversation.turns,
            gains,
            None if excluded else outcome_reward(self.venus.env.rewards, session.episode.answer, task.answers),
            TurnRewardConfig(assignment=self.venus.rl.assignment, format_penalty=self.venus.env.rewards.format_penalty),
            prompt_length=prompt_length,
        )
        for event in rewards.events:
            if event.kind == "information_gain":
                trajectory.turns[event.turn].reward_terms["information_gain"] = event.value
        trajectory.metrics["return"] = sum(sum(turn.reward_terms.values()) for turn in trajectory.turns)
        # What the environment said after the last turn carries no loss; without it, no sequence exceeds the window.
        end = conversation.turns[-1].end
        mask = conversation.mask[prompt_length:end]
        return AgentLoopOutput(
            prompt_ids=conversation.ids[:prompt_length],
            response_ids=conversation.ids[prompt_length:end],
            response_mask=[0] * len(mask) if excluded else mask,
            response_logprobs=conversation.logprobs[prompt_length:end],
            num_turns=len(conversation.turns),
            reward_score=trajectory.metrics["return"],
            metrics=AgentLoopMetrics(**metrics),
            extra_fields={
                **versions,
                "venus": json.dumps(
                    {
                        "rewards": asdict(rewards),
                        "trajectory": trajectory.model_dump(mode="json", by_alias=True),
                        "sampled_tokens": sum(mask),
                        "scoring": scoring,
                    }
                ),
            },
        )

    async def _play(
        self,
        session: ResearchSession,
        conversation: Conversation,
        sampling_params: dict[str, Any],
        seed: int,
        metrics: dict[str, Any],
        cutoff: Any,
        step: int,
    ) -> dict[str, Any]:
        """Sample and step until the episode ends; return the weight versions that verl tracks."""
        env = self.venus.env
        request_id = uuid4().hex  # routes all turns of an episode to one server
        versions: dict[str, Any] = {}
        while not session.done:
            limit = min(env.answer_tokens, env.max_context_tokens - len(conversation.ids))
            with simple_timer("generate_sequences", metrics):
                output = await self.server_manager.generate(
                    request_id=request_id,
                    prompt_ids=conversation.ids,
                    sampling_params={
                        **sampling_params,
                        "max_tokens": limit,
                        "seed": derive_seed(seed, len(conversation.turns)),
                    },
                )
            versions.setdefault("min_global_steps", output.extra_fields["min_global_steps"])
            versions["max_global_steps"] = output.extra_fields["max_global_steps"]
            conversation.add_sampled(output.token_ids, output.log_probs)
            if cutoff is not None and await cutoff.reached.remote(step):
                session.cut_off()
            with simple_timer("tool_calls", metrics):
                outcome = await session.step(self.renderer.decode_turn(output.token_ids))
            if not session.done:
                conversation.add_user(outcome.new_messages[-1]["content"])
                session.set_context_tokens(len(conversation.ids))
        return versions

    async def _score(self, task: Task, trajectory: Any, conversation: Conversation, seed: int) -> list[float | None]:
        """Score the answer at boundary 0 and after each turn that the assignment reads; None elsewhere.

        A turn's boundary is where the next turn starts; the last turn has none.
        """
        visits_only = self.venus.rl.assignment != "every_turn"
        wanted = [0] + [
            turn.index + 1
            for turn in trajectory.turns
            if turn.kind == "tool"
            and (not visits_only or turn.tool == "visit")
            and turn.index + 1 < len(conversation.boundaries)
        ]
        server = ray.get_actor(server_name(seed % self.venus.run.processes))
        request = ProbeRequest(conversation.ids, [conversation.boundaries[b] for b in wanted], self._probes(task))
        scores: list[float | None] = [None] * (len(trajectory.turns) + 1)
        for boundary, score in zip(wanted, await server.score.remote(request), strict=True):
            scores[boundary] = score
        return scores

    def _probes(self, task: Task) -> list[Probe]:
        """Pseudo answers, one per accepted answer."""
        rl = self.venus.rl
        wrapper = PseudoAnswer.after(self.renderer.layout.opened)
        if rl.probe_prefix is not None:
            wrapper = PseudoAnswer(rl.probe_prefix, rl.probe_suffix)
        return [Probe.of(wrapper, self.tokenizer, answer) for answer in task.answers]
