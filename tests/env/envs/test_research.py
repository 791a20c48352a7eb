import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence

import venus_env  # noqa: F401 (registers the environment)
from tests.env.protocol.tools import Lookup, Read
from venus_env.envs.research import ResearchEnv
from venus_env.policies.scripted import OraclePolicy
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.trajectory import Trajectory
from venus_env.tasks.task import Evidence, Task
from venus_env.viewer.page import page

LUND = Task(
    id="lund",
    question="In which country is Lund?",
    answers=("Sweden",),
    evidence=(Evidence(url="https://x/lund", title="Lund", sentence="Lund is a city in Sweden."),),
)
INFO_KEYS = {"task_id", "new_messages", "turn", "end", "forced", "score", "reward_terms", "usage"}


@pytest.fixture(scope="module")
def env() -> ResearchEnv:
    return ResearchEnv()


def small(**arguments: Any) -> ResearchEnv:
    return ResearchEnv(**{"tasks": [LUND], "tools": [Lookup(), Read()], **arguments})


def play(env: Any, through: gym.Env[str, str] | None = None) -> list[tuple[Any, ...]]:
    """Let the oracle finish the episode, through a wrapper if there is one; returns all transitions."""
    policy = OraclePolicy().new_episode(env.task, seed=1)
    steps: list[tuple[Any, ...]] = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        steps.append((through or env).step(policy.act(env.messages)))
    return steps


@pytest.mark.parametrize("arguments", [{}, {"observation": "messages"}, {"render_mode": "html"}])
def test_check_env_with_warnings_as_errors(arguments: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped = gym.make("VenusResearch-v0", **arguments)
        check_env(wrapped.unwrapped)
        wrapped.reset(seed=0)
        play(wrapped.unwrapped, through=wrapped)  # under Gymnasium's passive checker
        wrapped.close()


def test_an_episode_from_the_question_to_the_answer(env: ResearchEnv) -> None:
    question, info = env.reset(seed=7)
    assert set(info) == INFO_KEYS
    assert question == env.task.question == info["new_messages"][1]["content"]
    steps = play(env)
    assert steps[-1][2:4] == (True, False)
    assert all(step[2:4] == (False, False) for step in steps[:-1])
    final = steps[-1][4]
    assert (final["end"], final["score"], final["reward_terms"]) == ("answered", 1.0, {"outcome": 1.0})
    assert steps[-1][0] == ""
    for observation, reward, _, _, step_info in steps[:-1]:
        assert set(step_info) == INFO_KEYS
        assert observation == step_info["new_messages"][-1]["content"]
        assert observation.startswith("<tool_response>\n")
        assert reward == step_info["reward_terms"]["information_gain"]
    assert max(step[1] for step in steps[:-1]) > 0.5  # a page that holds the answer
    trajectory = env.trajectory
    assert Trajectory.model_validate(trajectory.record()) == trajectory
    assert trajectory.metrics["return"] == pytest.approx(sum(step[1] for step in steps))


def test_equal_seeds_give_equal_episodes(env: ResearchEnv) -> None:
    def episodes() -> list[Any]:
        first = [env.reset(seed=3), *play(env)]
        return [*first, env.reset(), *play(env)]

    assert data_equivalence(episodes(), episodes(), exact=True)


def test_seeds_and_episodes_differ(env: ResearchEnv) -> None:
    assert len({env.reset(seed=seed)[0] for seed in range(20)}) > 15
    assert len({env.reset()[0] for _ in range(20)}) > 15


def test_infos_are_fresh_and_hold_nothing_secret(env: ResearchEnv) -> None:
    observation, info = env.reset(seed=11)
    task = env.task
    secret = {task.answers[0], *(step.sentence for step in task.evidence)} - {""}
    shown = json.dumps([observation, info], ensure_ascii=False)
    assert not any(text in shown for text in secret)
    search = render_call("t", "search", {"query": ["nothing to be found here"]})
    _, _, _, _, info = env.step(search)
    info["new_messages"][0]["content"] = "changed"
    info["turn"].arguments["query"].append("changed")
    info["usage"]["tools"]["search"] = 99
    info["reward_terms"]["outcome"] = 99.0
    assert "changed" not in json.dumps(env.trajectory.record())
    assert env.trajectory.usage["tools"] == {"search": 1}
    assert "outcome" not in env.trajectory.turns[0].reward_terms


def test_the_task_can_be_chosen(env: ResearchEnv) -> None:
    task = env.tasks[5]
    question, info = env.reset(seed=0, options={"task_id": task.id})
    assert (question, info["task_id"]) == (task.question, task.id)
    follow_up = env.reset()[1]["task_id"]
    env.reset(seed=0)
    assert env.reset()[1]["task_id"] == follow_up  # choosing a task leaves the random stream alone
    env.reset(seed=0, options={"task_id": None})
    with pytest.raises(ValueError, match="there is no task 'nope'"):
        env.reset(options={"task_id": "nope"})
    with pytest.raises(ValueError, match="unknown options \\['taskid'\\]"):
        env.reset(options={"taskid": task.id})


def test_a_limit_truncates_after_asking_for_an_answer() -> None:
    env = small(max_turns=2)
    env.reset(seed=0)
    observation, _, terminated, truncated, info = env.step(render_call("t", "search", {"query": "Lund"}))
    assert (terminated, truncated, info["end"], info["forced"]) == (False, False, "running", "turn_limit")
    assert "give your final answer now" in observation
    copied = env.messages
    _, reward, terminated, truncated, info = env.step(render_call("t", "search", {"query": "Malmö"}))
    assert (terminated, truncated, info["end"], info["score"], reward) == (False, True, "turn_limit", 0.0, -1.0)
    assert len(copied) == 5

    env.reset(seed=0)
    env.step(render_call("t", "search", {"query": "Lund"}))
    _, reward, terminated, truncated, info = env.step(render_answer("t", "Sweden"))
    assert (terminated, truncated, info["end"], info["forced"], reward) == (True, False, "answered", "turn_limit", 1.0)


def test_a_broken_tool_truncates_without_a_verdict() -> None:
    env = small()
    env.reset(seed=0)
    step = env.step(render_call("t", "visit", {"url": ["boom"], "goal": "g"}))
    assert step[0:4] == ("", 0.0, False, True)
    assert (step[4]["end"], step[4]["score"]) == ("tool_failure", None)


def test_arguments() -> None:
    env = small(
        belief=None,
        rewards={"outcome": "em", "format_penalty": 0.25},
        prompt="compact",
        current_date=None,
        max_context_tokens=5_000,
        episode={"max_malformed": 1},
    )
    _, info = env.reset(seed=0)
    assert info["new_messages"][0]["content"].startswith("You answer questions by research.\nTools: search(")
    assert "Current date" not in info["new_messages"][0]["content"]
    _, reward, _, truncated, info = env.step("x")
    assert (reward, truncated, info["end"]) == (-0.25, True, "malformed_limit")
    env.reset(seed=0)
    assert env.step(render_call("t", "search", {"query": ["Lund"]}))[4]["reward_terms"] == {}
    assert env.step(render_answer("t", "in Sweden"))[1] == 0.0  # exact match


def test_compact_prompt_goes_with_compact_tools() -> None:
    env = ResearchEnv(prompt="compact", top_k=2, snippet_words=5)
    env.reset(seed=0)
    observation = env.step(render_call("t", "search", {"query": ["Paris"]}))[0]
    lines = observation.splitlines()
    assert lines[1].startswith("1. ")
    assert len(lines) == 2 + 2 * 3
    assert ResearchEnv(prompt="compact", tool_style="full").config.tool_style == "full"


def test_task_files_and_splits(env: ResearchEnv) -> None:
    everything = ResearchEnv(split=None).tasks
    assert {task.split for task in everything} == {"train", "dev", "test"}
    assert env.tasks == [task for task in everything if task.split == "train"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"render_mode": "rgb_array"}, "render_mode 'rgb_array' is unknown; use one of None, 'ansi', 'html', 'human'"),
        ({"observation": "pixels"}, "observation 'pixels' is unknown"),
        ({"tasks": []}, "at least one task"),
        ({"tasks": "embedded", "split": "tset"}, "no task of split 'tset'"),
        ({"belief": "gut"}, "belief 'gut' is unknown"),
        ({"max_turns": 0}, "max_turns"),
        ({"episode": {"max_steps": 3}}, "max_steps"),
        ({"rewards": {"outcom": "f1"}}, "outcom"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**arguments)


def test_misuse_is_explained() -> None:
    env = small()
    with pytest.raises(ResetNeeded, match="reset"):
        env.step("x")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="got int"):
        env.step(3)  # type: ignore[arg-type]
    env.step(render_answer("t", "Sweden"))
    with pytest.raises(ResetNeeded, match="answered"):
        env.step("x")
    env.close()
    env.close()


def test_under_the_wrappers_of_gymnasium() -> None:
    made = gym.make("VenusResearch-v0", max_episode_steps=2)
    assert isinstance(made, gym.wrappers.TimeLimit)
    env = gym.wrappers.RecordEpisodeStatistics(made)
    with pytest.raises(ResetNeeded):
        env.step("x")  # OrderEnforcing is inside
    env.reset(seed=0)
    search = render_call("t", "search", {"query": ["Lund"]})
    first = env.step(search)
    assert first[2:4] == (False, False)
    last = env.step(search)
    assert last[2:4] == (False, True)
    assert last[4]["end"] == "running"  # the wrapper's limit is none of the environment's own
    assert last[4]["episode"]["l"] == 2
    assert last[4]["episode"]["r"] == pytest.approx(first[1] + last[1], abs=1e-5)  # the wrapper rounds
    env.close()


def test_message_observations_add_up_to_the_conversation() -> None:
    env = small(observation="messages")
    observation, info = env.reset(seed=0)
    assert list(observation) == info["new_messages"]
    joined = list(observation)
    for turn in (render_call("t", "search", {"query": ["Lund"]}), "malformed", render_answer("t", "Sweden")):
        observation, *_, info = env.step(turn)
        assert env.observation_space.contains(observation)
        assert list(observation) == info["new_messages"]
        joined += observation
    assert joined == env.messages
    assert [message["role"] for message in joined] == ["system", "user"] + ["assistant", "user"] * 2 + ["assistant"]


class HalfRight:
    """A judge that finds every answer half right."""

    async def grade(self, question: str, answers: Any, prediction: str) -> float:
        return 0.5


def test_a_judge_grades_in_place_of_the_rules() -> None:
    env = small(judge=HalfRight())
    env.reset(seed=0)
    _, reward, _, _, info = env.step(render_answer("t", "Sweden"))
    assert (reward, info["score"], info["reward_terms"]) == (0.5, 0.5, {"outcome": 0.5})
    assert env.trajectory.score == 0.5


async def test_steps_inside_a_running_loop() -> None:
    env = small()
    env.reset(seed=0)
    assert env.step(render_answer("t", "Sweden"))[1] == 1.0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_reopen_and_continue_the_random_stream(env: ResearchEnv, duplicate: Any) -> None:
    env.reset(seed=5)
    twin = duplicate(env)
    assert data_equivalence(play(env), play(twin), exact=True)  # the episode under way goes on in both
    assert [env.reset()[1]["task_id"] for _ in range(5)] == [twin.reset()[1]["task_id"] for _ in range(5)]
    assert play(twin)[-1][4]["score"] == 1.0
    assert twin.np_random_seed == 5


def test_relative_paths_survive_a_change_of_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tasks.jsonl").write_text(json.dumps(LUND.record()) + "\n")
    (tmp_path / "pages.jsonl").write_text(
        json.dumps({"id": "1", "url": "https://x/lund", "title": "Lund", "text": "Lund is a city in Sweden."}) + "\n"
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    env = ResearchEnv(corpus="pages.jsonl", tasks=Path("tasks.jsonl"), split=None)
    monkeypatch.chdir(tmp_path / "elsewhere")
    twin = pickle.loads(pickle.dumps(env))
    twin.reset(seed=0)
    assert play(twin)[-1][4]["score"] == 1.0


def test_specs_make_equal_environments() -> None:
    made = gym.make("VenusResearch-v0", max_turns=3, split="dev")
    again = gym.make(pickle.loads(pickle.dumps(made.spec)))
    assert made.reset(seed=1)[0] == again.reset(seed=1)[0]
    assert again.unwrapped.config.max_turns == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_gymnasium_vectorises_it(mode: str) -> None:
    options = {"shared_memory": False} if mode == "async" else {}
    envs = gym.make_vec("VenusResearch-v0", num_envs=2, vectorization_mode=mode, vector_kwargs=options, max_turns=3)
    try:
        observations, _ = envs.reset(seed=2)
        assert len(set(observations)) == 2
        turns = tuple(render_call("t", "search", {"query": [question]}) for question in observations)
        observations, rewards, *_ = envs.step(turns)
        assert all(text.startswith("<tool_response>") for text in observations)
        assert rewards.shape == (2,)
    finally:
        envs.close()


def test_rendering(capsys: pytest.CaptureFixture[str]) -> None:
    env = small(render_mode="ansi")
    env.reset(seed=0)
    env.step(render_call("t", "search", {"query": ["Lund"]}))
    text = env.render()
    assert text is not None
    assert "[question]\n  In which country is Lund?" in text
    assert "[tool]\n  https://x/lund" in text
    assert capsys.readouterr().out == ""

    env = small(render_mode="html")
    env.reset(seed=0)
    assert env.render() == page(env.trajectory)

    env = small(render_mode="human")
    env.reset(seed=0)
    assert "In which country" in capsys.readouterr().out
    env.step(render_answer("t", "Sweden"))
    assert env.render() is None
    shown = capsys.readouterr().out
    assert "<answer>Sweden</answer>" in shown
    assert "In which country" not in shown

    silent = small()
    silent.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert silent.render() is None


def test_importing_stays_light() -> None:
    program = (
        "import sys, venus_env, venus_env.session, venus_env.envs.research, venus_env.cli\n"
        "heavy = {'torch', 'transformers', 'verl', 'ray', 'faiss', 'bm25s', 'omegaconf', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ})
