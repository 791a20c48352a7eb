"""One episode through the agent loop, with a rollout server that is a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoTokenizer
from verl.workers.rollout.replica import TokenOutput

from venus_env.beliefs.probes import ProbeRequest
from venus_env.setting import Setting
from venus_rl.config import Config
from venus_rl.igpo.scoring import BoundaryScores
from venus_rl.verl_plugin import agent_loop as module
from venus_rl.verl_plugin.agent_loop import ResearchAgentLoop

ARGUMENTS = '{"url": "https://venus.wiki/Lyon", "goal": "its mayor"}'
VISIT = f'<think>Open it.</think>\n<tool_call>\n{{"name": "visit", "arguments": {ARGUMENTS}}}\n</tool_call>'
ANSWER = "<think>Done.</think>\n<answer>Ann Mayor0</answer>"


class Server:
    """Says the given turns, then fails; ``score`` is what it answers to a request for scores."""

    def __init__(self, tokenizer: Any, turns: list[str], score: Callable[[ProbeRequest], Any]) -> None:
        self.replies = [tokenizer(text + "<|im_end|>", add_special_tokens=False)["input_ids"] for text in turns]
        self.requests: list[ProbeRequest] = []

        async def scored(request: ProbeRequest) -> Any:
            self.requests.append(request)
            return await score(request)

        self.score = SimpleNamespace(remote=scored)

    async def generate(self, **_: Any) -> TokenOutput:
        if not self.replies:
            raise ConnectionError("the engine is dead")
        ids = self.replies.pop(0)
        extra = {"min_global_steps": 1, "max_global_steps": 1, "server": "the server"}
        return TokenOutput(token_ids=ids, log_probs=[-1.0] * len(ids), stop_reason="completed", extra_fields=extra)


async def rising(request: ProbeRequest) -> BoundaryScores:
    return BoundaryScores([-3.0 + n for n in range(len(request.boundaries))], requests=6, tokens_read=60)


@pytest.fixture
def play(
    make_config: Callable[..., Config], setting: Setting, policy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Play one episode; returns what the loop hands to verl, the record in it, and the server."""

    def run(turns: list[str], score: Callable[[ProbeRequest], Any] = rising, **rollout: Any) -> Any:
        tokenizer = AutoTokenizer.from_pretrained(policy_folder)
        loop = object.__new__(ResearchAgentLoop)
        loop.venus = make_config(rollout=rollout, env={"max_turn_tokens": 200, "max_context_tokens": 2000})
        loop.setting, loop.tokenizer, loop.renderer = setting, tokenizer, module._renderer(tokenizer)
        server = loop.server_manager = Server(tokenizer, turns, score)
        monkeypatch.setattr(module.ray, "get_actor", {"the server": server}.__getitem__)
        (task,) = [task for task in setting.tasks("train") if task.id == "lyon"]
        row = {"extra_info": {"task": task.model_dump_json()}, "global_steps": 1, "index": 0, "session_id": 0}
        output = asyncio.run(loop.run({"temperature": 1.0}, **row))
        return output, json.loads(output.extra_fields["venus"]), server

    return run


def test_scores_become_gains_and_a_record_of_their_cost(play: Callable[..., Any]) -> None:
    output, episode, server = play([VISIT, ANSWER])
    assert episode["trajectory"]["end"] == "answered"
    assert not episode["rewards"]["excluded"]
    assert sum(output.response_mask) > 0
    (request,) = server.requests
    record = episode["scoring"]
    assert record["boundaries"] == request.boundaries
    assert (record["scores"], record["requests"], record["tokens_read"]) == ([-3.0, -2.0], 6, 60)
    assert record["probes"] == [[list(probe.ids), probe.start] for probe in request.probes]
    assert record["ended"] >= record["started"]
    gains = [event["value"] for event in episode["rewards"]["events"] if event["kind"] == "information_gain"]
    assert len(gains) == 1
    assert gains[0] > 0


def lost(output: Any, episode: dict[str, Any], end: str, reason: str) -> None:
    assert episode["trajectory"]["end"] == end
    assert episode["trajectory"]["score"] is None
    assert reason in episode["trajectory"]["error"]
    assert episode["rewards"] == {**episode["rewards"], "excluded": True, "events": []}
    assert episode["scoring"] is None
    assert not any(output.response_mask)


async def broken(_: ProbeRequest) -> BoundaryScores:
    raise ConnectionError("the engine is dead")


async def stuck(_: ProbeRequest) -> BoundaryScores:
    await asyncio.sleep(60)
    raise AssertionError


@pytest.mark.parametrize(("score", "reason"), [(broken, "the engine is dead"), (stuck, "no answer in 0.5 s")])
def test_a_server_that_cannot_score_loses_the_episode_instead_of_giving_no_gain(
    play: Callable[..., Any], score: Callable[[ProbeRequest], Any], reason: str
) -> None:
    output, episode, _ = play([VISIT, ANSWER], score, request_timeout_s=0.5)
    lost(output, episode, "judge_failure", reason)


def test_a_server_that_dies_between_turns_aborts_the_episode(play: Callable[..., Any]) -> None:
    output, episode, server = play([VISIT])
    lost(output, episode, "aborted", "the engine is dead")
    assert server.requests == []
    assert output.response_ids


def test_without_a_single_turn_there_is_nothing_to_hand_back(play: Callable[..., Any]) -> None:
    with pytest.raises(ConnectionError, match="the engine is dead"):
        play([])
