"""The verl agent loop: drives :class:`venus_env.session.ResearchSession` token-in/token-out.

The rules of the task live in ``venus_env``; this file only moves tokens. For one rollout it samples turns from verl's
rollout servers, appends them as sampled, lets the session act and observe, and asks the server for the answer's
log-probability at the turn boundaries (the information gain of the policy itself). What the trainer needs (turn spans,
reward events, ending, the trajectory) travels as data in ``extra_fields["venus"]``.
"""

from __future__ import annotations

import asyncio
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

from venus_env.beliefs.probes import Probe, ProbeRequest
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
from venus_rl.igpo.scoring import BoundaryScores, ScoringRecord
from venus_rl.igpo.turn_rewards import TurnRewardConfig, build_turn_rewards
from venus_rl.verl_plugin.cutoff import counter

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
            versions, server = await self._play(session, conversation, sampling_params, seed, metrics, cutoff, step)
        finally:
            if cutoff is not None:
                await cutoff.finished.remote(step)
        record: ScoringRecord | None = None
        scores: list[float | None] = []
        if self.venus.rl.algorithm == "igpo" and session.episode.end not in INFRASTRUCTURE_ENDS:
            with simple_timer("compute_score", metrics):
                record, scores = await self._score(session, conversation, server)
        trajectory = session.trajectory()
        excluded = trajectory.end in INFRASTRUCTURE_ENDS
        gains = turn_gains(scores, self.venus.env.rewards.gain_kind) if scores else [None] * len(trajectory.turns)
        prompt_length = conversation.boundaries[0]
        rewards = build_turn_rewards(
            trajectory.turns,
            conversation.turns,
            gains,
            None if excluded else outcome_reward(self.venus.env.rewards, session.episode.answer, task.answers),
            TurnRewardConfig(
                assignment=self.venus.rl.assignment,
                format_penalty=self.venus.env.rewards.format_penalty,
                diminish=self.venus.rl.diminish,
            ),
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
                        "scoring": None if record is None else asdict(record),
                        "trajectory": trajectory.model_dump(mode="json", by_alias=True),
                        "sampled_tokens": sum(mask),
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
    ) -> tuple[dict[str, Any], str]:
        """Sample and step until the episode ends; return the weight versions that verl tracks, and the server.

        Where the server fails, the episode is aborted. Without a single turn there is nothing to hand back: then the
        error is raised, and verl drops the rollout.
        """
        env = self.venus.env
        request_id = uuid4().hex  # routes all turns of an episode to one server
        versions: dict[str, Any] = {}
        server = ""
        while not session.done:
            limit = min(env.answer_tokens, env.max_context_tokens - len(conversation.ids))
            try:
                with simple_timer("generate_sequences", metrics):
                    async with asyncio.timeout(self.venus.rollout.request_timeout_s):
                        output = await self.server_manager.generate(
                            request_id=request_id,
                            prompt_ids=conversation.ids,
                            sampling_params={
                                **sampling_params,
                                "max_tokens": limit,
                                "seed": derive_seed(seed, len(conversation.turns)),
                            },
                        )
                if output.stop_reason == "aborted":
                    raise RuntimeError("it aborted the request")
            except Exception as error:
                if not conversation.turns:
                    raise
                logger.exception("task %s: the rollout server failed", session.task.id)
                session.abort(f"the rollout server failed: {self._reason(error)}")
                break
            versions.setdefault("min_global_steps", output.extra_fields["min_global_steps"])
            versions["max_global_steps"] = output.extra_fields["max_global_steps"]
            server = output.extra_fields["server"]
            conversation.add_sampled(output.token_ids, output.log_probs)
            if cutoff is not None and await cutoff.reached.remote(step):
                session.cut_off()
            with simple_timer("tool_calls", metrics):
                outcome = await session.step(self.renderer.decode_turn(output.token_ids))
            if not session.done:
                conversation.add_user(outcome.new_messages[-1]["content"])
                session.set_context_tokens(len(conversation.ids))
        return versions, server

    async def _score(
        self, session: ResearchSession, conversation: Conversation, server: str
    ) -> tuple[ScoringRecord | None, list[float | None]]:
        """Score the answer at boundary 0 and after each turn that the assignment reads; None elsewhere.

        A turn's boundary is where the next turn starts; the last turn has none. Where the server fails, the episode
        ends as ``judge_failure`` and has no scores: an unknown gain is not a gain of zero.
        """
        visits_only = self.venus.rl.assignment != "every_turn"
        turns = session.episode.turns
        wanted = [0] + [
            turn.index + 1
            for turn in turns
            if turn.kind == "tool"
            and (not visits_only or turn.tool == "visit")
            and turn.index + 1 < len(conversation.boundaries)
        ]
        places, probes = [conversation.boundaries[boundary] for boundary in wanted], self._probes(session.task)
        request = ProbeRequest(conversation.ids, places, probes)
        started = time.time()
        try:
            async with asyncio.timeout(self.venus.rollout.request_timeout_s):
                reply: BoundaryScores = await ray.get_actor(server).score.remote(request)
        except Exception as error:
            logger.exception("task %s: the rollout server failed to score", session.task.id)
            session.episode.fail("judge_failure", f"scoring the answer failed: {self._reason(error)}")
            return None, []
        scores: list[float | None] = [None] * (len(turns) + 1)
        for boundary, score in zip(wanted, reply.scores, strict=True):
            scores[boundary] = score
        record = ScoringRecord(
            boundaries=places,
            probes=[(list(probe.ids), probe.start) for probe in probes],
            scores=reply.scores,
            requests=reply.requests,
            tokens_read=reply.tokens_read,
            started=started,
            ended=time.time(),
        )
        return record, scores

    def _reason(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer in {self.venus.rollout.request_timeout_s:g} s (rollout.request_timeout_s)"
        return f"{type(error).__name__}: {error}"

    def _probes(self, task: Task) -> list[Probe]:
        """Pseudo answers, one per accepted answer."""
        rl = self.venus.rl
        wrapper = PseudoAnswer.after(self.renderer.layout.opened)
        if rl.probe_prefix is not None:
            wrapper = PseudoAnswer(rl.probe_prefix, rl.probe_suffix)
        return [Probe.of(wrapper, self.tokenizer, answer) for answer in task.answers]
