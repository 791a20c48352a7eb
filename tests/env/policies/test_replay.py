from __future__ import annotations

import pytest

from venus_env.policies.base import EpisodePolicies
from venus_env.policies.replay import ReplayError, ReplayPolicy
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message


def recording(question: str, *turns: str, seed: int | None = None) -> Trajectory:
    messages: list[Message] = opening(question)
    for turn in turns:
        messages += [{"role": "assistant", "content": turn}, {"role": "user", "content": "reply"}]
    return Trajectory(task={"question": question}, messages=messages, turns=[], end="answered", seed=seed)


def opening(question: str) -> list[Message]:
    return [{"role": "system", "content": "s"}, {"role": "user", "content": question}]


def played(policy: ReplayPolicy, question: str, turns: int, seed: int | None = None) -> list[str]:
    episode = policy.new_episode(seed=seed)
    messages = opening(question)
    for _ in range(turns):
        messages += [
            {"role": "assistant", "content": episode.act(messages)},
            {"role": "user", "content": "other reply"},
        ]
    return [message["content"] for message in messages if message["role"] == "assistant"]


def test_turns_are_written_again_by_question() -> None:
    policy = ReplayPolicy([recording("A?", "a1", "a2"), recording("B?", "b1")])
    assert isinstance(policy, EpisodePolicies)
    assert played(policy, "B?", 1) == ["b1"]
    assert played(policy, "A?", 2) == ["a1", "a2"]


def test_the_recording_with_the_episodes_seed_is_taken() -> None:
    policy = ReplayPolicy([recording("A?", "one", seed=1), recording("A?", "two", seed=2)])
    assert [played(policy, "A?", 1, seed)[0] for seed in (2, 1, 2)] == ["two", "one", "two"]


def test_without_a_matching_seed_they_are_taken_in_order_and_over_again() -> None:
    policy = ReplayPolicy([recording("A?", "one", seed=1), recording("B?", "b"), recording("A?", "two", seed=2)])
    played(policy, "B?", 1)
    assert [played(policy, "A?", 1, seed)[0] for seed in (None, 77, None)] == ["one", "two", "one"]


def test_an_unknown_question_and_the_end_of_a_recording_are_named() -> None:
    policy = ReplayPolicy([recording("A?", "a1", seed=5)])
    with pytest.raises(ReplayError, match=r"'B\?' is in none of the recordings"):
        played(policy, "B?", 1)
    with pytest.raises(ReplayError, match=r"'A\?' \(seed 5\) ends after 1 turns, but the episode goes on"):
        played(policy, "A?", 2)


def test_nothing_to_replay_is_refused() -> None:
    lost = Trajectory(task={}, messages=[], turns=[], end="aborted")
    with pytest.raises(ValueError, match="no recorded episode"):
        ReplayPolicy([lost])
