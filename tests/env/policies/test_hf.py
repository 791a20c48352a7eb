from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.env.policies import tiny
from venus_env.protocol.turns import Message

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from venus_env.policies.base import EpisodePolicies, Policy  # noqa: E402
from venus_env.policies.hf import HFEpisodePolicy, HFPolicy  # noqa: E402

OPENING: list[Message] = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Which city?"}]


@pytest.fixture(scope="module")
def policy() -> HFPolicy:
    torch.set_num_threads(1)
    return HFPolicy(tiny.qwen(), tiny.tokenizer(), max_turn_tokens=12, seed=3)


async def play(policy: HFPolicy, seed: int, turns: int = 3) -> tuple[list[str], HFEpisodePolicy]:
    episode = policy.new_episode(seed=seed)
    messages, texts = list(OPENING), []
    for turn in range(turns):
        texts.append(await episode.act(messages))
        messages.append({"role": "assistant", "content": texts[-1]})
        messages.append({"role": "user", "content": f"<tool_response>\nresult {turn}\n</tool_response>"})
    return texts, episode


async def test_episodes_depend_on_their_seed_only(policy: HFPolicy) -> None:
    assert isinstance(policy, Policy)
    assert isinstance(policy, EpisodePolicies)
    alone = [(await play(policy, seed))[0] for seed in range(4)]
    together = [texts for texts, _ in await asyncio.gather(*(play(policy, seed) for seed in range(4)))]
    assert alone == together
    assert len({tuple(texts) for texts in alone}) == 4


async def test_conversation_holds_what_was_sampled(policy: HFPolicy) -> None:
    texts, episode = await play(policy, 1)
    conversation = episode.conversation
    assert len(conversation.ids) == len(conversation.mask) == len(conversation.logprobs)
    for text, span in zip(texts, conversation.turns, strict=True):
        ids = conversation.ids[span.start : span.end]
        assert policy.renderer.decode_turn(ids) == text
        assert set(conversation.mask[span.start : span.end]) == {1}
    assert sum(conversation.mask) == sum(span.end - span.start for span in conversation.turns)
    # Log-probabilities of the trainer's view: one forward pass over the whole conversation.
    with torch.no_grad():
        logprobs = policy.generator.model(torch.tensor([conversation.ids])).logits[0].log_softmax(-1)
    for position in range(1, len(conversation.ids)):
        if conversation.mask[position]:
            expected = float(logprobs[position - 1, conversation.ids[position]])
            assert conversation.logprobs[position] == pytest.approx(expected, abs=1e-4)


async def test_later_turns_read_only_what_is_new(policy: HFPolicy) -> None:
    before = policy.generator.stats.prefilled_tokens
    _, episode = await play(policy, 77)
    read = policy.generator.stats.prefilled_tokens - before
    assert read < len(episode.conversation.ids)


async def test_edited_history_is_refused(policy: HFPolicy) -> None:
    episode = policy.new_episode()
    text = await episode.act(OPENING)
    with pytest.raises(ValueError, match="use new_episode"):
        await episode.act(OPENING)
    edited: list[Message] = [
        OPENING[0],
        {"role": "user", "content": "Which river?"},
        {"role": "assistant", "content": text},
        {"role": "user", "content": "x"},
    ]
    with pytest.raises(ValueError, match="edited history"):
        await episode.act(edited)


async def test_plain_act_starts_a_new_episode_at_each_opening(policy: HFPolicy) -> None:
    first = await policy.act(OPENING)
    messages: list[Message] = [*OPENING, {"role": "assistant", "content": first}, {"role": "user", "content": "x"}]
    await policy.act(messages)
    assert await policy.act(OPENING)


async def test_from_folder_is_greedy_and_repeatable(tmp_path: Path) -> None:
    tiny.qwen().save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    texts: list[Any] = []
    for seed in (0, 1):
        policy = HFPolicy(tmp_path, temperature=0.0, max_turn_tokens=8, seed=seed)
        texts.append((await play(policy, seed, turns=2))[0])
    assert texts[0] == texts[1]
    assert policy.count_tokens("abc") == 3
    with pytest.raises(ValueError, match="pass tokenizer="):
        HFPolicy(tiny.qwen())
