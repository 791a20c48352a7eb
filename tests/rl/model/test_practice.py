"""Practice material: the layout of the real session, correct labels, nothing held out."""

from __future__ import annotations

import asyncio
import random

import pytest

pytest.importorskip("transformers")

from venus_env.policies.scripted import OraclePolicy
from venus_env.setting import EnvConfig, Setting
from venus_env.tasks.loaders import load_tasks
from venus_env.tasks.world import random_world
from venus_env.tokens import Renderer
from venus_rl.model.practice import (
    SNIPPET_WORDS,
    TOP_K,
    VISIT_TOKENS,
    Arena,
    MemoryCorpus,
    Mixture,
    Names,
    Practice,
    batches,
    correct,
    vary,
)
from venus_rl.model.pretrain import held_out_words
from venus_rl.model.tokenizer import train_tokenizer

STARTS = ["Por", "Ale", "Lis", "Kra", "Zu", "Men", "Ba", "Ty", "Sol", "Wen"]
ENDS = ["to", "gre", "bon", "ra", "mil", "du", "ske", "nor", "pa", "lin"]
PIECES = [*STARTS, *ENDS, " the", "12"]


@pytest.fixture(scope="module")
def practice():
    return Practice(Renderer(train_tokenizer(["Porto Alegre is a city."] * 9, 600)), Names(PIECES), seed=0)


def test_episodes_are_what_the_real_session_records():
    """One oracle episode through ResearchSession equals the recipe's own loop, message by message."""
    world = random_world(random.Random(3), 60)
    arena = Arena.over(world)
    task = arena.task(random.Random(1), 2)
    config = EnvConfig(
        prompt="compact",
        current_date=None,
        tool_style="compact",
        top_k=TOP_K,
        snippet_words=SNIPPET_WORDS,
        visit_tokens=VISIT_TOKENS,
    )
    session = Setting.open(config, corpus=MemoryCorpus(world)).session(task)
    oracle = OraclePolicy("recover", 9).new_episode(task)

    async def play():
        await session.start()
        while not session.done:
            await session.step(oracle.act(session.messages))

    asyncio.run(play())
    assert session.trajectory().score == 1.0
    assert asyncio.run(arena.episode(task, "recover", 9)) == list(session.messages)


def test_samples_are_seeded_and_learn_assistant_tokens_only(practice):
    again = Practice(practice.renderer, Names(PIECES), seed=0)
    mixture = Mixture(drills=0.3, hops=(0.5, 0.3, 0.2))
    samples = practice.batch(20, mixture)
    assert samples == again.batch(20, mixture)
    assert all(len(ids) == len(mask) and 0 < sum(mask) < len(mask) for ids, mask in samples)
    episode = next(s for s in practice.batch(5, Mixture(0.0, (1, 0, 0), recover=0.0, variation=0.0)))
    learnt = practice.renderer.decode([i for i, m in zip(*episode, strict=True) if m])
    assert learnt.startswith("<think>First the ")
    assert learnt.endswith("</answer><|im_end|>")
    assert "<tool_response>" not in learnt


def test_variation_keeps_the_protocol_and_the_answer():
    arena = Arena.over(random_world(random.Random(0), 80))
    rng = random.Random(2)
    for number in range(30):
        task = arena.task(rng, 1 + number % 3)
        messages = asyncio.run(arena.episode(task, "direct", number, variation=1.0))
        assert correct(messages, task)
    turn = '<think>First the capital of Por.</think>\n<tool_call>{"name": "search", "arguments": {"query": ["Por"]}}'
    varied = {vary(turn, random.Random(seed)) for seed in range(20)}
    assert turn.replace('["Por"]', '["Por capital"]') in varied
    assert turn.replace("First the capital of Por.", "I need the capital of Por.") in varied


def test_names_never_use_held_out_words():
    names = Names(["Por", "Lis", "to"], held_out={"Por", "Lisbon", "Porto"})
    rng = random.Random(0)
    drawn = {names(rng) for _ in range(3000)}
    assert not drawn & {"Por", "Lisbon", "Porto"}
    assert "Listo" in drawn
    assert len(names(rng)) > 1


def test_held_out_words_cover_every_dev_and_test_subject():
    tasks = load_tasks("embedded")
    words = held_out_words(tasks)
    subjects = {task.evidence[0].title for task in tasks if task.split in ("dev", "test")}
    assert subjects
    assert all(set(title.split()) - {"Airport"} <= words for title in subjects)


def test_batches_hold_every_sample_once_within_the_budget():
    samples = [([0] * n, [1] * n) for n in (5, 90, 30, 31, 7, 60, 6)]
    made = list(batches(list(samples), 100, random.Random(0)))
    assert sorted(len(s[0]) for batch in made for s in batch) == [5, 6, 7, 30, 31, 60, 90]
    assert all(len(batch) * max(len(s[0]) for s in batch) <= 100 for batch in made)
