"""Going back to an earlier turn, and going on elsewhere."""

import json
from typing import Any

import pytest
from gymnasium.utils.env_checker import data_equivalence

from tests.env.protocol.tools import Lookup, Read
from venus_env.envs.research import ResearchEnv
from venus_env.envs.slot import EnvState
from venus_env.policies.random import RandomPolicy
from venus_env.policies.scripted import OraclePolicy
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.tasks.task import Task

ARGUMENTS: dict[str, Any] = {"max_turns": 6, "episode": {"turn_jitter": 2}}
TASK = Task(id="lund", question="In which country is Lund?", answers=("Sweden",))


@pytest.fixture(scope="module")
def env() -> ResearchEnv:
    return ResearchEnv(**ARGUMENTS)


@pytest.fixture(scope="module")
def other() -> ResearchEnv:
    return ResearchEnv(**ARGUMENTS, split="dev")


def actions_of(env: ResearchEnv, seed: int) -> list[str]:
    """A whole episode of turns: the oracle's with a malformed and a repeated one among them, or random ones."""
    env.reset(seed=seed)
    if seed % 2:
        oracle = OraclePolicy(style="recover").new_episode(env.task, seed=seed)
        turn = oracle.act(env.messages)
        actions = [turn, "malformed", turn]
        for action in actions:
            env.step(action)
        player: Any = oracle
    else:
        actions, player = [], RandomPolicy(seed)
    while not env.session.done:
        actions.append(player.act(env.messages))
        env.step(actions[-1])
    return actions


@pytest.mark.parametrize("seed", range(6))
def test_going_on_from_any_turn_repeats_the_episode(env: ResearchEnv, other: ResearchEnv, seed: int) -> None:
    actions = actions_of(env, seed)
    env.reset(seed=seed)
    states, transitions = [env.get_state()], []
    for action in actions:
        transitions.append(env.step(action))
        states.append(env.get_state())
    record, following = env.trajectory.record(), env.reset()
    for turn in reversed(range(len(actions) + 1)):
        for state in (states[turn], EnvState.model_validate_json(states[turn].model_dump_json())):
            other.set_state(state)
            assert other.get_state() == state
            again = [other.step(action) for action in actions[turn:]]
            assert data_equivalence(again, transitions[turn:], exact=True)
            assert other.trajectory.record() == record
    env.set_state(states[0])
    assert data_equivalence(env.reset(), following, exact=True)  # the tasks that follow are the same, too


def test_branches_from_one_state_do_not_meet() -> None:
    env = ResearchEnv(tasks=[TASK], tools=[Lookup(), Read()])
    env.reset(seed=0)
    env.step(render_call("t", "search", {"query": ["Lund"]}))
    state = env.get_state()
    before = state.model_dump_json()
    read = env.step(render_call("t", "visit", {"url": ["https://x/lund"], "goal": "country"}))
    assert read[1] > 0.5
    env.set_state(state)
    wrong = env.step(render_answer("t", "Norway"))
    assert (wrong[1], wrong[4]["usage"]["turns"]) == (0.0, 2)
    env.set_state(state)
    assert data_equivalence(env.step(render_call("t", "visit", {"url": ["https://x/lund"], "goal": "country"})), read)
    assert state.model_dump_json() == before


def test_time_that_was_spent_stays_spent() -> None:
    now = [0.0]
    arguments: dict[str, Any] = {"tasks": [TASK], "tools": [Lookup()], "episode": {"time_limit_s": 10}}
    env = ResearchEnv(**arguments, clock=lambda: now[0])
    env.reset(seed=0)
    now[0] = 8.0
    state = env.get_state()
    now[0] = 1_000.0
    env.set_state(state)
    assert env.step(render_call("t", "search", {"query": ["a"]}))[4]["forced"] is None
    now[0] = 1_002.0
    assert env.step(render_call("t", "search", {"query": ["b"]}))[4]["forced"] == "time_limit"


def test_a_state_before_the_first_reset() -> None:
    env = ResearchEnv(tasks=[TASK], tools=[Lookup()])
    state = env.get_state()
    assert json.loads(state.model_dump_json()) == {"np_random": None, "session": None}
    env.reset(seed=0)
    env.set_state(state)
    assert env.get_state() == state


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_turns": 9}, r"other rules: max_turns \(20 there, 9 here\)"),
        ({"tools": [Read()]}, "its tools were others"),
        ({"episode": {"max_malformed": 2}}, r"max_malformed \(5 there, 2 here\)"),
    ],
)
def test_a_state_under_other_rules_is_refused(arguments: dict[str, Any], message: str) -> None:
    made: dict[str, Any] = {"tasks": [TASK], "tools": [Lookup()]}
    env = ResearchEnv(**made)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        ResearchEnv(**{**made, **arguments}).set_state(env.get_state())
