"""The rollout server as it runs inside its Ray actor, here in this process: the same class, a tiny random model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import RolloutReplicaRegistry

from venus_env.beliefs.probes import Probe, ProbeRequest
from venus_rl.verl_plugin import rollout
from venus_rl.verl_plugin.rollout import ENGINE, TransformersAdapter, TransformersReplica, TransformersServer

PROMPT = list(range(20, 40))


@pytest.fixture
def weights(policy_folder: Path) -> dict[str, torch.Tensor]:
    """What training workers send: full float32 tensors, the tied output matrix left out or not."""
    model = AutoModelForCausalLM.from_pretrained(policy_folder, dtype=torch.float32)
    generator = torch.Generator().manual_seed(1)
    return {
        name: tensor + 0.3 * torch.randn(tensor.shape, generator=generator) for name, tensor in model.named_parameters()
    }


@pytest.fixture
def trained(policy_folder: Path, weights: dict[str, torch.Tensor]) -> Any:
    model = AutoModelForCausalLM.from_pretrained(policy_folder, dtype=torch.float32).eval()
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    return model


@pytest.fixture
def server(rl_config: Callable[..., Any], policy_folder: Path) -> TransformersServer:
    config = rl_config(rollout={"temperature": 0.7, "max_batch": 4})
    return TransformersServer(config.actor_rollout_ref.rollout, {"path": str(policy_folder)}, replica_rank=0)


def log_softmax(model: Any, ids: list[int], temperature: float) -> torch.Tensor:
    with torch.no_grad():
        return torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].float() / temperature, -1)


def sampling(**changes: Any) -> dict[str, Any]:
    return {"max_tokens": 6, "temperature": 0.7, "top_p": 1.0, "seed": 3, **changes}


def test_verl_finds_replica_and_adapter() -> None:
    assert RolloutReplicaRegistry.get(ENGINE) is TransformersReplica
    assert get_rollout_class(ENGINE, "async") is TransformersAdapter


async def test_generation_uses_the_synchronised_weights_and_reports_their_log_probabilities(
    server: TransformersServer, weights: dict[str, torch.Tensor], trained: Any
) -> None:
    await server.load_weights(weights, global_steps=5)
    output = await server.generate(PROMPT, sampling(), "request")
    expected = log_softmax(trained, PROMPT + output.token_ids, 0.7)
    places = range(len(PROMPT) - 1, len(PROMPT) + len(output.token_ids) - 1)
    own = [expected[place, token].item() for place, token in zip(places, output.token_ids, strict=True)]
    assert output.log_probs == pytest.approx(own, abs=1e-4)
    assert output.extra_fields == {"global_steps": 5, "server": "venus_rollout_0"}
    assert output.stop_reason in ("completed", "length")
    assert (await server.generate(PROMPT, sampling(), "again")).token_ids == output.token_ids


async def test_weights_change_between_requests(server: TransformersServer, weights: dict[str, torch.Tensor]) -> None:
    await server.load_weights(weights, 1)
    await server.wake_up()
    probe = ProbeRequest(PROMPT, [len(PROMPT)], [Probe((50, 51), 1)])
    before = (await server.generate(PROMPT, sampling(), "a")).log_probs, (await server.score(probe)).scores
    await server.load_weights({name: tensor * 0.5 for name, tensor in weights.items()}, 2)
    after = (await server.generate(PROMPT, sampling(), "b")).log_probs, (await server.score(probe)).scores
    assert before[0] != after[0]
    assert before[1] != after[1]


async def test_scorer_and_generator_share_their_parameters(
    server: TransformersServer, weights: dict[str, torch.Tensor]
) -> None:
    await server.load_weights(weights, 1)
    named = dict(server.scorer.named_parameters())
    assert {name: p.data_ptr() for name, p in server.model.named_parameters()} == {
        name: p.data_ptr() for name, p in named.items()
    }
    assert torch.equal(named["model.embed_tokens.weight"], weights["model.embed_tokens.weight"])
    assert server.scorer.lm_head.weight.data_ptr() == server.model.lm_head.weight.data_ptr()
    assert server.scorer.config is not server.model.config


@pytest.mark.parametrize("tied", [True, False])
async def test_a_tied_output_matrix_may_be_sent_or_left_out(
    server: TransformersServer, weights: dict[str, torch.Tensor], tied: bool
) -> None:
    sent = {name: tensor for name, tensor in weights.items() if name != "lm_head.weight"}
    if tied:
        sent["lm_head.weight"] = sent["model.embed_tokens.weight"]
    await server.load_weights(sent, 1)
    assert torch.equal(server.model.lm_head.weight, weights["model.embed_tokens.weight"])


async def test_missing_and_unknown_weights_are_named(
    server: TransformersServer, weights: dict[str, torch.Tensor]
) -> None:
    lacking = {name: tensor for name, tensor in weights.items() if name != "model.norm.weight"}
    with pytest.raises(RuntimeError, match=r"missing \['model\.norm\.weight'\]"):
        await server.load_weights(lacking, 1)
    with pytest.raises(RuntimeError, match=r"unknown \['model\.extra'\]"):
        await server.load_weights({**weights, "model.extra": torch.zeros(1)}, 1)


async def test_the_score_is_that_of_the_likeliest_answer_at_the_rollout_temperature(
    server: TransformersServer, weights: dict[str, torch.Tensor], trained: Any
) -> None:
    await server.load_weights(weights, 1)
    await server.wake_up()
    probes = [Probe((60, 61, 62), 1), Probe((60, 70), 1)]
    boundaries = [8, len(PROMPT)]
    reply = await server.score(ProbeRequest(PROMPT, boundaries, probes))
    expected = []
    for boundary in boundaries:
        means = []
        for probe in probes:
            ids = PROMPT[:boundary] + list(probe.ids)
            log_probs = log_softmax(trained, ids, 0.7)
            answer = range(boundary + probe.start, len(ids))
            means.append(sum(log_probs[place - 1, ids[place]].item() for place in answer) / len(answer))
        expected.append(max(means))
    assert reply.scores == pytest.approx(expected, abs=1e-4)
    # One pass over the context and, per boundary, the tree of both probes, whose last tokens are only predicted.
    assert (reply.requests, reply.tokens_read) == (1, len(PROMPT) + 2 * 2)


async def test_a_sleeping_server_holds_requests_until_it_wakes(
    server: TransformersServer, weights: dict[str, torch.Tensor]
) -> None:
    await server.load_weights(weights, 1)
    await server.sleep(level=2)
    generation = asyncio.create_task(server.generate(PROMPT, sampling(), "a"))
    scoring = asyncio.create_task(server.score(ProbeRequest(PROMPT, [5], [Probe((50,), 0)])))
    await asyncio.sleep(0.1)
    assert not generation.done()
    assert not scoring.done()
    await server.wake_up(tags=["weights"])
    assert len((await generation).token_ids) > 0
    assert len((await scoring).scores) == 1


async def test_nothing_is_scored_before_the_first_weights(server: TransformersServer) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(server.score(ProbeRequest(PROMPT, [5], [Probe((50,), 0)])), 0.1)


async def test_an_abort_returns_what_was_sampled(server: TransformersServer) -> None:
    running = asyncio.create_task(server.generate(PROMPT, sampling(max_tokens=1500), "long"))
    await asyncio.sleep(0.3)
    assert (await server.abort_all_requests())["aborted_count"] == 1
    output = await running
    assert output.stop_reason == "aborted"
    assert len(output.token_ids) == len(output.log_probs or []) < 1500
    await server.resume_generation()
    assert (await server.generate(PROMPT, sampling(), "next")).stop_reason != "aborted"


async def test_bookkeeping_calls_of_verl_are_answered(server: TransformersServer) -> None:
    assert await server.ready()
    await server.set_global_steps(9)
    for call in (server.clear_kv_cache, server.release_kv_cache, server.resume_kv_cache, server.stop_profile):
        assert await call() is None
    assert (await server.generate(PROMPT, sampling(), "a")).extra_fields["global_steps"] == 9


# ---- the adapter inside a training worker ----


class Remote:
    """A server handle: every method notes its call, as ``handle.method.remote(...)``."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **_options: Any) -> None:
            self.calls.append((name, arguments))

        return SimpleNamespace(remote=call)


@pytest.fixture
def adapter(
    rl_config: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[TransformersAdapter, Remote]]:
    def make(rank: int, replica_rank: int = -1) -> tuple[TransformersAdapter, Remote]:
        monkeypatch.setenv("RANK", str(rank))
        remote, config = Remote(), rl_config().actor_rollout_ref
        monkeypatch.setattr(rollout.ray, "get_actor", lambda name: remote if name == f"venus_rollout_{rank}" else None)
        return TransformersAdapter(config.rollout, config.model, device_mesh=None, replica_rank=replica_rank), remote

    return make


async def test_each_worker_feeds_the_server_of_its_rank(
    adapter: Callable[..., tuple[TransformersAdapter, Remote]],
) -> None:
    one, remote = adapter(rank=3)
    assert (one.replica_rank, one.rollout_rank) == (3, 0)
    source = torch.ones(2, requires_grad=True)
    await one.resume(tags=["weights"])
    await one.update_weights(iter([("w", source)]), global_steps=4)
    await one.release()
    assert [name for name, _ in remote.calls] == ["wake_up", "load_weights", "sleep"]
    sent, step = remote.calls[1][1]
    assert step == 4
    assert not sent["w"].requires_grad
    assert sent["w"].data_ptr() != source.data_ptr()  # the optimiser goes on while the server still reads


async def test_another_wire_format_is_refused(adapter: Callable[..., tuple[TransformersAdapter, Remote]]) -> None:
    one, _ = adapter(rank=0)
    with pytest.raises(ValueError, match="venus_transformers takes named_tensors, not delta_flush"):
        await one.update_weights(iter([]), wire_format="delta_flush")
