"""The measurements, one function each. All times are wall time; every ratio is taken within one run."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from bench.workload import page_environment, page_text, page_turn
from venus_env.envs.research import ResearchEnv
from venus_env.envs.vector import ResearchVectorEnv
from venus_env.models import load_tokenizer
from venus_env.policies.scripted import OraclePolicy
from venus_env.protocol.prompt import neutralise, render_answer, wrap_tool_response
from venus_env.protocol.turns import Message
from venus_env.session import ResearchSession
from venus_env.tokens import Conversation, Renderer
from venus_rl.model import BASE_MODEL

Row = dict[str, Any]

WARM_UP = 2
"""Steps before the measured ones; the first loads what is loaded on first use."""


def step_overhead(belief: str | None, episodes: int, steps: int, seed: int) -> Row:
    """Time of one vector step divided by the number of episodes in it, with a tool that answers at once.

    Each turn brings a page of about 1,000 tokens. Pages differ between episodes and turns.
    """
    envs = ResearchVectorEnv(num_envs=episodes, **page_environment(belief, steps + WARM_UP))
    envs.reset(seed=seed)
    times = np.empty(steps)
    gc.collect()
    for step in range(-WARM_UP, steps):
        actions = tuple(page_turn(37 * episode + step) for episode in range(episodes))
        started = time.perf_counter()
        envs.step(actions)
        if step >= 0:
            times[step] = (time.perf_counter() - started) / episodes
    envs.close()
    return {"interface": "vector", "belief": belief, "episodes": episodes, "steps": steps, **_spread(times)}


def single_overhead(belief: str | None, steps: int, seed: int) -> Row:
    """The same for the single environment."""
    env = ResearchEnv(**page_environment(belief, steps + WARM_UP))
    env.reset(seed=seed)
    times = np.empty(steps)
    gc.collect()
    for step in range(-WARM_UP, steps):
        action = page_turn(step)
        started = time.perf_counter()
        env.step(action)
        if step >= 0:
            times[step] = time.perf_counter() - started
    env.close()
    return {"interface": "single", "belief": belief, "episodes": 1, "steps": steps, **_spread(times)}


def growth(belief: str | None, episodes: int, turns: int, seed: int) -> Row:
    """Cost of the last turn of an episode against its second one, as medians over episodes.

    Drives sessions directly: the constant cost of an environment around them would hide a growing one. Page numbers are
    shifted from episode to episode, so that early and late turns read comparable text.
    """
    env = ResearchEnv(**page_environment(belief, turns))
    rng = np.random.default_rng(seed)

    async def play() -> tuple[NDArray[np.float64], int]:
        times = np.empty((episodes, turns))
        for episode in range(episodes):
            session = await _start(env, episode)
            shift = int(rng.integers(10_000))
            for turn in range(turns):
                text = page_turn(shift + turn)
                started = time.perf_counter()
                await session.step(text)
                times[episode, turn] = time.perf_counter() - started
        return times, session.episode.usage.context_tokens

    times, context = asyncio.run(play())
    second, last = float(np.median(times[:, 1])), float(np.median(times[:, -1]))
    return {
        "belief": belief,
        "episodes": episodes,
        "turns": turns,
        "context_tokens": context,
        "turn_2_ms": second * 1e3,
        "last_turn_ms": last * 1e3,
        "ratio": last / second,
    }


def tokenisation(turns: int) -> Row:
    """Append-only tokenisation of one long episode against rendering and tokenising the whole chat at every turn.

    Both use the tokenizer of the shipped base model and arrive at the same ids, which is checked at every turn.
    """
    tokenizer = load_tokenizer(BASE_MODEL)
    tokenizer.model_max_length = 10**9  # it would warn that the context is longer than its model's window
    renderer = Renderer(tokenizer)
    messages: list[Message] = [
        {"role": "system", "content": "You answer questions by research."},
        {"role": "user", "content": "Who wrote the first program?"},
    ]
    conversation = Conversation(renderer)
    conversation.open(messages)
    appended = rendered = 0.0
    for turn in range(turns):
        text, reply = page_turn(turn), wrap_tool_response(neutralise(page_text(turn)))
        sampled = renderer.encode_turn(text)  # what a model would have sampled
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": reply}]

        started = time.perf_counter()
        conversation.add_sampled(sampled)
        conversation.add_user(reply)
        appended += time.perf_counter() - started

        started = time.perf_counter()
        chat = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tokenizer.encode(chat, add_special_tokens=False)
        rendered += time.perf_counter() - started
        if ids != conversation.ids:
            raise RuntimeError(f"turn {turn}: the append-only context differs from the full render")
    return {
        "tokenizer": f"the shipped base model's byte-level BPE of {len(tokenizer)} pieces",
        "turns": turns,
        "tokens": len(conversation.ids),
        "append_only_s": appended,
        "full_render_s": rendered,
        "speedup": rendered / appended,
    }


def slow_tools(episodes: int, turns: int, seed: int) -> Row:
    """Episodes whose tool sleeps 50 to 500 ms a call, stepped as they become ready and in lockstep.

    The bar compares with the slowest of these episodes played alone: no schedule can be faster than that.
    """
    sleeps = np.random.default_rng(seed).uniform(0.05, 0.5, size=(episodes, turns))
    slowest = int(sleeps.sum(axis=1).argmax())
    alone = _play_as_ready(sleeps[[slowest]], seed)
    as_ready = _play_as_ready(sleeps, seed)
    return {
        "episodes": episodes,
        "turns": turns,
        "slowest_episode_sleeps_s": float(sleeps[slowest].sum()),
        "slowest_episode_alone_s": alone,
        "as_ready_s": as_ready,
        "lockstep_s": _play_lockstep(sleeps, seed),
        "ratio": as_ready / alone,
    }


def _play_as_ready(sleeps: NDArray[np.float64], seed: int) -> float:
    episodes, turns = sleeps.shape
    envs = ResearchVectorEnv(num_envs=episodes, autoreset_mode=AutoresetMode.DISABLED, **page_environment(None, turns))
    turn_of = [0] * episodes
    started = time.perf_counter()
    envs.async_reset(seed=seed)
    running = episodes
    while running:
        _, _, terminated, _, infos = envs.recv(min_ready=1)
        running -= int(terminated.sum())
        ready = [int(env) for env, done in zip(infos["env_id"], terminated, strict=True) if not done]
        if ready:
            envs.send(tuple(_slow_turn(sleeps[env], turn_of[env]) for env in ready), ready)
            for env in ready:
                turn_of[env] += 1
    elapsed = time.perf_counter() - started
    envs.close()
    return elapsed


def _play_lockstep(sleeps: NDArray[np.float64], seed: int) -> float:
    episodes, turns = sleeps.shape
    envs = ResearchVectorEnv(num_envs=episodes, **page_environment(None, turns))
    started = time.perf_counter()
    envs.reset(seed=seed)
    for turn in range(turns + 1):
        envs.step(tuple(_slow_turn(row, turn) for row in sleeps))
    elapsed = time.perf_counter() - started
    envs.close()
    return elapsed


def _slow_turn(sleeps: NDArray[np.float64], turn: int) -> str:
    """Turn number ``turn`` of an episode: one page per entry of ``sleeps``, then an answer."""
    return page_turn(turn, float(sleeps[turn])) if turn < len(sleeps) else render_answer("I stop.", "unknown")


def memory(belief: str | None, episodes: int, turns: int) -> Row:
    """Memory that a running episode holds after ``turns`` pages, as Python's allocator counts it."""
    env = ResearchEnv(**page_environment(belief, turns))

    async def play() -> list[ResearchSession]:
        sessions = [await _start(env, episode) for episode in range(episodes)]
        for episode, session in enumerate(sessions):
            for turn in range(turns):
                await session.step(page_turn(37 * episode + turn))
        return sessions

    asyncio.run(_start_and_step(env))  # whatever is built once and shared
    gc.collect()
    tracemalloc.start()
    sessions = asyncio.run(play())
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    text = sum(len(message["content"].encode()) for session in sessions for message in session.messages)
    return {
        "belief": belief,
        "episodes": episodes,
        "turns": turns,
        "mb_per_episode": held / episodes / 1e6,
        "text_mb_per_episode": text / episodes / 1e6,
    }


def retrieval(episodes: int, rounds: int, seed: int) -> Row:
    """The real tools over the embedded corpus: the oracle's first two turns of each episode, a search and a visit."""
    envs = ResearchVectorEnv(num_envs=episodes, belief=None)
    tasks = {task.id: task for task in ResearchEnv(belief=None).tasks}
    times = []
    for number in range(rounds + 1):
        observations, infos = envs.reset(seed=seed + 1000 * number)
        oracles = [OraclePolicy().new_episode(tasks[task_id], seed=seed) for task_id in infos["task_id"]]
        for _ in range(2):
            actions = tuple(
                oracle.act([{"role": "user", "content": str(observation)}])
                for oracle, observation in zip(oracles, observations, strict=True)
            )
            started = time.perf_counter()
            observations, *_ = envs.step(actions)
            if number:  # the first round loads the index
                times.append((time.perf_counter() - started) / episodes)
    envs.close()
    return {"episodes": episodes, "steps": len(times), **_spread(times)}


async def _start(env: ResearchEnv, episode: int) -> ResearchSession:
    session = env.source.session(env.tasks[episode % len(env.tasks)], episode)
    await session.start()
    return session


async def _start_and_step(env: ResearchEnv) -> None:
    session = await _start(env, 0)
    await session.step(page_turn(0))


def _spread(times: Sequence[float] | NDArray[np.float64]) -> Row:
    return {
        "steps_per_s": float(1 / np.mean(times)),
        "p50_ms": float(np.percentile(times, 50) * 1e3),
        "p95_ms": float(np.percentile(times, 95) * 1e3),
    }
