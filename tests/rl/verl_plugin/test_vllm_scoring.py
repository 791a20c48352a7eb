"""The scorer over a server that is a table: the log-probability of a token is minus a tenth of the prompt's length."""

from __future__ import annotations

import asyncio

import pytest

from venus_env.beliefs.probes import Probe, ProbeRequest
from venus_rl.verl_plugin.vllm_scoring import PrefixScorer, TokenScore

CONTEXT = list(range(100, 120))


class Server:
    def __init__(self, fails: int = 0) -> None:
        self.asked: list[tuple[list[int], int]] = []
        self.running = self.most = 0
        self.fails = fails

    async def ask(self, prompt: list[int], token: int) -> TokenScore:
        self.asked.append((prompt, token))
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the engine is dead")
        return TokenScore(-len(prompt) / 10, 7)


def request(boundaries: list[int], *probes: Probe) -> ProbeRequest:
    return ProbeRequest(CONTEXT, boundaries, probes or (Probe((1, 2, 3, 4), 2),))


async def test_a_request_per_answer_position_with_everything_before_it() -> None:
    server = Server()
    reply = await PrefixScorer(server.ask, 8).score(request([5, 10]))
    assert sorted(server.asked) == [
        ([*CONTEXT[:5], 1, 2], 3),
        ([*CONTEXT[:5], 1, 2, 3], 4),
        ([*CONTEXT[:10], 1, 2], 3),
        ([*CONTEXT[:10], 1, 2, 3], 4),
    ]
    assert reply.scores == pytest.approx([-0.75, -1.25])
    assert (reply.requests, reply.tokens_read) == (4, 28)


async def test_the_best_of_several_answers_counts() -> None:
    reply = await PrefixScorer(Server().ask, 8).score(request([10], Probe((1, 2), 1), Probe((1, 2, 3), 2)))
    assert reply.scores == pytest.approx([-1.1])


async def test_no_more_than_the_configured_number_is_in_flight_over_all_rollouts() -> None:
    server = Server()
    scorer = PrefixScorer(server.ask, 3)
    long = Probe(tuple(range(12)), 1)
    await asyncio.gather(*(scorer.score(request([boundary], long)) for boundary in (4, 8, 12)))
    assert server.most == 3
    assert len(server.asked) == 33


async def test_a_context_that_rollouts_share_is_scored_once_until_the_weights_change() -> None:
    server = Server()
    scorer = PrefixScorer(server.ask, 8)
    replies = await asyncio.gather(*(scorer.score(request([5])) for _ in range(4)))
    assert [reply.scores for reply in replies] == [pytest.approx([-0.75])] * 4
    assert [reply.requests for reply in replies] == [2, 0, 0, 0]
    scorer.forget()
    assert (await scorer.score(request([5]))).requests == 2


async def test_a_failure_reaches_everyone_who_waits_and_is_not_remembered() -> None:
    server = Server(fails=1)
    scorer = PrefixScorer(server.ask, 8)
    replies = await asyncio.gather(*(scorer.score(request([5])) for _ in range(2)), return_exceptions=True)
    assert all(isinstance(reply, ConnectionError) for reply in replies)
    assert (await scorer.score(request([5]))).scores == pytest.approx([-0.75])


async def test_a_caller_that_gives_up_does_not_take_the_others_with_it() -> None:
    scorer = PrefixScorer(Server().ask, 1)
    first = asyncio.create_task(scorer.score(request([5])))
    second = asyncio.create_task(scorer.score(request([5])))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).scores == pytest.approx([-0.75])
