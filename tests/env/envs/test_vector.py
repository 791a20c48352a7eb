import asyncio
import math
import random
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError, ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, VectorEnv
from pydantic import BaseModel

from tests.env.protocol.tools import Lookup, Read
from venus_env import ResearchVectorEnv
from venus_env.envs.slot import EpisodeFailedToStart
from venus_env.policies.scripted import OraclePolicy
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.turns import Message, ToolResult
from venus_env.tasks.task import Task

TASKS = [Task(id=f"t{i}", question=f"Question {i}: where is Lund?", answers=("Sweden",)) for i in range(5)]
ANSWER = render_answer("t", "Sweden")
MODES = list(AutoresetMode)


class GateArguments(BaseModel):
    n: int | str


class Gate:
    """Answers when it is opened; argument 0 passes at once."""

    name: ClassVar[str] = "gate"
    aliases: ClassVar[tuple[str, ...]] = ()
    description: ClassVar[str] = "Wait."
    arguments: type[BaseModel] = GateArguments

    def __init__(self) -> None:
        self.open = False
        self.waiting = self.cancelled = 0

    async def __call__(self, arguments: Any) -> ToolResult:
        self.waiting += 1
        try:
            while arguments.n != 0 and not self.open:  # noqa: ASYNC110 (an Event cannot be set from another thread)
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)  # as a tool that tidies up
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        return ToolResult("through")


class Shaky:
    """A belief that fails on the question as often as it is told to."""

    def __init__(self) -> None:
        self.failures = 0

    def open(self, question: str, answers: Sequence[str]) -> "Shaky":
        return self

    async def update(self, new_messages: Sequence[Message]) -> list[float]:
        if new_messages[0]["role"] == "system" and self.failures:
            self.failures -= 1
            raise OSError("the belief is down")
        return [-1.0]

    async def score(self, *arguments: Any) -> list[list[float]]:
        raise NotImplementedError


def wait(n: int | str = 1) -> str:
    return render_call("t", "gate", {"n": n})


def small(num_envs: int, **arguments: Any) -> ResearchVectorEnv:
    return ResearchVectorEnv(
        num_envs, **{"tasks": TASKS, "tools": [Lookup(), Read(), Gate()], "belief": None, **arguments}
    )


def gate(envs: ResearchVectorEnv) -> Gate:
    tool = envs.source.setting.tools[-1]
    assert isinstance(tool, Gate)
    return tool


def without_nan(value: Any) -> Any:
    """The same, with a text in place of every nan, since nan is not equal to itself."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(without_nan(item) for item in value)
    if isinstance(value, np.ndarray) and value.dtype != np.bool_:
        return str(value.dtype), [without_nan(item) for item in value]
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def equal(first: Any, second: Any) -> bool:
    return data_equivalence(without_nan(first), without_nan(second), exact=True)


def some_turn(rng: random.Random) -> str:
    calls = [
        ("search", {"query": rng.choice(["Lund", "Malmö", "Oslo"])}),
        ("visit", {"url": [rng.choice(["https://x/lund", "https://x/malmo", "boom"])], "goal": "g"}),
        ("gate", {"n": 0}),
    ]
    return rng.choice([*(render_call("t", *call) for call in calls), ANSWER, render_answer("t", "Oslo"), "x"])


def play_side_by_side(
    envs: ResearchVectorEnv, twins: VectorEnv[Any, Any, Any], turn: Callable[[int], str], steps: int
) -> list[Any]:
    """Play the same turns in both, compare all that they return, and give back the steps."""
    made: list[Any] = []
    assert equal(envs.reset(seed=5), twins.reset(seed=5))
    assert envs.np_random_seed == twins.np_random_seed
    ended = np.zeros(envs.num_envs, dtype=np.bool_)
    for _ in range(steps):
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            assert equal(envs.reset(options={"reset_mask": ended}), twins.reset(options={"reset_mask": ended.copy()}))
        actions = tuple(turn(slot) for slot in range(envs.num_envs))
        step = envs.step(actions)
        made.append(step)
        assert equal(step, twins.step(actions))
        ended = step[2] | step[3]
    envs.close()
    twins.close()
    return made


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("vectorization", "arguments"),
    [
        ("sync", {}),
        ("sync", {"max_episode_steps": 3, "observation": "messages"}),
        pytest.param("async", {}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_lockstep_equals_gymnasiums(mode: AutoresetMode, vectorization: str, arguments: dict[str, Any]) -> None:
    arguments = {
        "tasks": TASKS,
        "tools": [Lookup(), Read(), Gate()],
        "episode": {"turn_jitter": 2},
        "max_turns": 5,
        **arguments,
    }
    envs = gym.make_vec("VenusResearch-v0", num_envs=4, autoreset_mode=mode, **arguments)
    assert isinstance(envs, ResearchVectorEnv)
    assert envs.metadata["autoreset_mode"] is mode
    twins = gym.make_vec(
        "VenusResearch-v0",
        num_envs=4,
        vectorization_mode=vectorization,
        vector_kwargs={"autoreset_mode": mode} | ({"shared_memory": False} if vectorization == "async" else {}),
        **arguments,
    )
    assert envs.observation_space == twins.observation_space
    assert envs.action_space == twins.action_space
    rng = random.Random(1)
    steps = play_side_by_side(envs, twins, lambda _: some_turn(rng), 60)
    assert all(step[0] in envs.observation_space for step in steps)
    infos = [step[4] for step in steps]
    if mode is AutoresetMode.SAME_STEP:
        infos = [info["final_info"] for info in infos if "final_info" in info]
    ends = {end for info in infos for end in info["end"] if end is not None}
    assert ends >= {"answered", "tool_failure"}
    if "max_episode_steps" in arguments:
        assert any(
            truncated and end == "running"
            for step in steps
            for truncated, end in zip(step[3], step[4].get("final_info", step[4])["end"], strict=True)
        )
    else:
        assert "turn_limit" in ends


def test_lockstep_equals_gymnasiums_over_the_embedded_corpus() -> None:
    options = {"autoreset_mode": "SameStep"}
    twins = gym.make_vec("VenusResearch-v0", num_envs=3, vectorization_mode="sync", vector_kwargs=options)
    envs = ResearchVectorEnv(3, autoreset_mode="SameStep")
    policies: dict[int, tuple[Task, Any]] = {}

    def oracle(slot: int) -> str:
        session = envs.sessions[slot]
        if slot not in policies or not session.episode.turns:
            policies[slot] = (session.task, OraclePolicy().new_episode(session.task, seed=1))
        turn = policies[slot][1].act(session.messages)
        assert isinstance(turn, str)
        return turn

    steps = play_side_by_side(envs, twins, oracle, 14)
    scores = [score for step in steps if "final_info" in step[4] for score in step[4]["final_info"]["score"]]
    assert scores.count(1.0) >= 3


def test_observations_of_a_masked_reset_and_options() -> None:
    envs = small(3, autoreset_mode="Disabled")
    with pytest.raises(ResetNeeded, match="slot 1: the first reset cannot leave it out"):
        envs.reset(options={"reset_mask": np.array([True, False, True])})
    options = {"task_id": "t2"}
    observations, infos = envs.reset(seed=[1, None, 3], options=options)
    assert infos["task_id"].tolist() == ["t2"] * 3
    assert (envs.np_random_seed[0], envs.np_random_seed[2]) == (1, 3)
    envs.step([ANSWER, wait(0), ANSWER])
    mask = np.array([True, False, False])
    options = {"task_id": "t1", "reset_mask": mask}
    observations, infos = envs.reset(options=options)
    assert observations[0] == TASKS[1].question
    assert "through" in observations[1]
    assert infos["_task_id"].tolist() == mask.tolist()
    assert options["reset_mask"] is mask  # the caller's dict is left as it was
    with pytest.raises(ResetNeeded, match=r"slot 2: the episode has ended \(answered\).*reset_mask"):
        envs.step([wait(0)] * 3)
    assert len(envs.sessions[0].episode.turns) == 0
    for wrong in (np.array([True]), np.array([1, 0, 0]), [True, False, False], np.zeros(3, dtype=np.bool_)):
        with pytest.raises(ValueError, match="reset_mask"):
            envs.reset(options={"reset_mask": wrong})
    for reset in (envs.reset, envs.async_reset):
        with pytest.raises(ValueError, match="no task 'nope'"):
            reset(options={"task_id": "nope"})
    with pytest.raises(ValueError, match="2 seeds for 3 slots"):
        envs.reset(seed=[1, 2])
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        envs.reset(seed=-1)
    assert [len(session.episode.turns) for session in envs.sessions] == [0, 1, 1]  # nothing has moved
    envs.send([wait(0)], [1])
    assert envs.recv()[-1]["usage"]["turns"].tolist() == [2]


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        (["x", None, "x"], TypeError, "slot 1: .*got NoneType"),
        (["x", "x"], ValueError, "2 actions for 3 slots"),
        ("xxx", TypeError, "single str"),
        (None, TypeError, "single NoneType"),
    ],
)
def test_wrong_actions_are_refused_before_any_slot_moves(actions: Any, error: type[Exception], message: str) -> None:
    envs = small(3)
    with pytest.raises(ResetNeeded, match=r"slot 0: .*call reset"):
        envs.step(["x"] * 3)
    envs.reset(seed=0)
    with pytest.raises(error, match=message):
        envs.step(actions)
    with pytest.raises(error, match=message):
        envs.send(actions, range(3))
    assert all(not session.episode.turns for session in envs.sessions)


def test_an_action_that_starts_the_next_episode_is_ignored() -> None:
    envs = small(2)
    envs.reset(seed=0)
    envs.step((ANSWER, "x"))
    assert [trajectory.end for trajectory in envs.trajectories] == ["answered", "running"]
    observations, rewards, *_, infos = envs.step((None, "x"))  # type: ignore[arg-type]
    assert observations[0] == envs.tasks[0].question
    assert (rewards[0], infos["turn"][0], infos["turn"][1].kind) == (0.0, None, "malformed")


def test_finished_records_stay_at_hand() -> None:
    envs = small(2, autoreset_mode="SameStep")
    envs.reset(seed=0)
    assert envs.final_trajectories == (None, None)
    *_, infos = envs.step((ANSWER, "x"))
    final, none = envs.final_trajectories
    assert none is None
    assert final is not None
    assert (final.end, final.task["id"]) == ("answered", infos["final_info"]["task_id"][0])
    assert envs.trajectories[0].turns == []


def test_a_slow_slot_holds_up_nobody() -> None:
    envs = small(16)
    envs.async_reset(seed=3)
    observations, rewards, terminations, truncations, infos = envs.recv(min_ready=16)
    assert len(observations) == 16
    assert not np.any([rewards, terminations, truncations])
    assert infos["env_id"].tolist() == list(range(16))
    assert infos["_env_id"].all()
    envs.send([wait() if slot == 5 else ANSWER for slot in infos["env_id"]], infos["env_id"])
    episodes = dict.fromkeys(range(16), 0)
    while min(count for slot, count in episodes.items() if slot != 5) < 4:
        *_, terminations, _, infos = envs.recv()
        for slot, ended in zip(infos["env_id"].tolist(), terminations, strict=True):
            assert slot != 5
            episodes[slot] += int(ended)
        envs.send([ANSWER] * len(infos["env_id"]), infos["env_id"])
    gate(envs).open = True
    while 5 not in infos["env_id"]:
        *_, infos = envs.recv()
    assert infos["turn"][infos["env_id"].tolist().index(5)].tool == "gate"


def test_random_streams_do_not_depend_on_the_order_of_slots() -> None:
    def tasks(order: Callable[[list[int]], list[int]]) -> list[list[str]]:
        envs = small(4, autoreset_mode="SameStep")
        envs.async_reset(seed=1)
        drawn: list[list[str]] = [[] for _ in range(4)]
        while min(map(len, drawn)) < 4:
            *_, infos = envs.recv()
            for slot, task in zip(infos["env_id"], infos["task_id"], strict=True):
                drawn[slot].append(task)
            envs.send([ANSWER] * len(infos["env_id"]), order(infos["env_id"].tolist()))
        return [ids[:4] for ids in drawn]

    assert tasks(lambda ids: ids) == tasks(lambda ids: ids[::-1])


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
def test_slots_that_finish_together_come_in_the_order_of_sending(order: list[int]) -> None:
    envs = small(4)
    envs.reset(seed=0)
    envs.send([wait(0)] * 4, order)
    *_, infos = envs.recv(min_ready=4)
    assert infos["env_id"].tolist() == order


def test_the_longest_waiting_comes_first() -> None:
    envs = small(3)
    envs.reset(seed=0)
    envs.send([wait()] * 2, [2, 0])
    envs.send([ANSWER], np.array([1]))
    assert envs.recv(timeout=10)[-1]["env_id"].tolist() == [1]
    envs.send([None], [1])  # type: ignore[list-item]
    with pytest.raises(AlreadyPendingCallError):  # it is ready, but has not been received
        envs.send([ANSWER], [1])
    gate(envs).open = True
    observations, rewards, *_, infos = envs.recv(min_ready=99)  # all that are under way
    assert infos["env_id"].tolist()[0] == 1
    assert sorted(infos["env_id"].tolist()) == [0, 1, 2]
    assert rewards.shape == infos["turn"].shape == infos["usage"]["turns"].shape == (3,)
    assert observations[0] == envs.tasks[1].question


def test_timeouts() -> None:
    envs = small(2)
    envs.reset(seed=0)
    envs.send([wait(), "x"], [0, 1])
    assert envs.recv(min_ready=2, timeout=0.05)[-1]["env_id"].tolist() == [1]
    with pytest.raises(TimeoutError):
        envs.recv(timeout=0.0)
    gate(envs).open = True
    assert envs.recv()[-1]["env_id"].tolist() == [0]
    with pytest.raises(NoAsyncCallError, match="nothing is under way"):
        envs.recv()
    with pytest.raises(ValueError, match="min_ready"):
        envs.recv(0)


def test_single_slots_are_reset_by_async_reset() -> None:
    envs = small(3, autoreset_mode="Disabled")
    envs.reset(seed=0)
    envs.send([ANSWER], [1])
    assert envs.recv()[2].tolist() == [True]
    with pytest.raises(ResetNeeded, match=r"slot 1: .*async_reset\(env_ids"):
        envs.send([ANSWER], [1])
    envs.async_reset(seed=40, options={"task_id": "t3"}, env_ids=[1])
    _, rewards, terminations, _, infos = envs.recv()
    assert (infos["env_id"].tolist(), infos["task_id"].tolist()) == ([1], ["t3"])
    assert (rewards.tolist(), terminations.tolist(), envs.np_random_seed[1]) == ([0.0], [False], 41)
    envs.step([ANSWER] * 3)


def test_both_interfaces_cannot_be_mixed_while_slots_are_under_way() -> None:
    envs = small(3)
    envs.async_reset(seed=0)
    for call in (envs.reset, lambda: envs.step([ANSWER] * 3), envs.async_reset):
        with pytest.raises(AlreadyPendingCallError, match=r"slots \[0, 1, 2\] are under way"):
            call()
    envs.recv(3)
    with pytest.raises(IndexError, match="no slot 3 among 3"):
        envs.send([ANSWER], [3])
    with pytest.raises(IndexError, match="no slot -1"):
        envs.send([ANSWER], [-1])
    with pytest.raises(ValueError, match="names a slot twice"):
        envs.send([ANSWER] * 2, [1, 1])
    envs.step([ANSWER] * 3)


def interrupt_when(condition: Callable[[], bool]) -> None:
    """Press Ctrl-C as soon as ``condition`` holds."""

    def press() -> None:
        while not condition():
            threading.Event().wait(0.002)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


@pytest.mark.parametrize("call", ["step", "recv"])
def test_an_interrupt_leaves_no_step_running(call: str) -> None:
    envs = small(3)
    tool = gate(envs)
    envs.reset(seed=0)
    actions = [ANSWER, wait(), wait()]
    interrupt_when(lambda: tool.waiting == 2 and envs._queue._enough is not None)
    if call == "recv":
        envs.send(actions, range(3))
    with pytest.raises(KeyboardInterrupt):
        envs.step(actions) if call == "step" else envs.recv(3)
    assert (tool.waiting, tool.cancelled) == (0, 2)
    assert [trajectory.end for trajectory in envs.trajectories] == ["answered", "aborted", "aborted"]
    with pytest.raises(ResetNeeded, match="slot 0: its last step was interrupted"):
        envs.step(actions)
    with pytest.raises(NoAsyncCallError):
        envs.recv()
    envs.reset(seed=0)
    assert envs.step([ANSWER] * 3)[2].all()


@pytest.mark.parametrize("interface", ["lockstep", "queue"])
def test_a_slot_that_fails_leaves_the_others_alone(interface: str) -> None:
    envs = small(3)
    envs.reset(seed=0)
    actions = [wait(0), render_call("t", "visit", {"url": ["boom"], "goal": "g"}), ANSWER]
    if interface == "lockstep":
        *_, terminations, truncations, infos = envs.step(actions)
    else:
        envs.send(actions, range(3))
        *_, terminations, truncations, infos = envs.recv(3)
    assert infos["end"].tolist() == ["running", "tool_failure", "answered"]
    assert (terminations.tolist(), truncations.tolist()) == ([False, False, True], [False, True, False])


def count_but_not_here(text: str) -> int:
    if "xyzzy" in text:
        raise UnicodeError("cannot count this")
    return len(text)


def test_errors_are_raised_one_by_one_and_lose_nothing() -> None:
    envs = small(3, count_tokens=count_but_not_here)
    gate(envs).open = True
    envs.reset(seed=0)
    envs.send([wait(0), wait("xyzzy"), wait(0)], range(3))
    assert envs.recv(3)[-1]["env_id"].tolist() == [0]
    with pytest.raises(UnicodeError, match="cannot count this") as raised:
        envs.recv(2)
    assert raised.value.__notes__ == ["This was in slot 1."]
    assert envs.recv()[-1]["env_id"].tolist() == [2]
    with pytest.raises(ResetNeeded, match="slot 1: its last step"):
        envs.send([ANSWER], [1])
    envs.async_reset(env_ids=[1])
    envs.recv()
    with pytest.raises(UnicodeError, match="cannot count this"):
        envs.step([ANSWER, wait("xyzzy"), wait(0)])
    with pytest.raises(ResetNeeded, match="slot 0: its last step"):  # what it came to was lost with the error
        envs.step([ANSWER] * 3)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_episodes_that_fail_to_start(mode: AutoresetMode, caplog: pytest.LogCaptureFixture) -> None:
    belief = Shaky()
    envs = small(1, belief=belief, autoreset_mode=mode)
    belief.failures = 1
    with pytest.raises(EpisodeFailedToStart):
        envs.reset(seed=0)  # asked for: raised at once
    envs.reset(seed=0)

    def next_episode() -> None:
        for _ in range(1 if mode is AutoresetMode.SAME_STEP else 2):
            envs.step([ANSWER])

    belief.failures = 2
    next_episode()
    assert sum("another task is drawn" in record.message for record in caplog.records) == 2
    assert envs.trajectories[0].end == "running"
    belief.failures = 3
    with pytest.raises(EpisodeFailedToStart):
        next_episode()
    assert belief.failures == 0
    envs.reset()
    next_episode()


def test_searches_of_all_slots_are_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = ResearchVectorEnv(32)
    batches: list[int] = []
    inner = envs.source.setting.corpus
    search = type(inner).search_now

    def counted(corpus: Any, queries: Sequence[str], k: int) -> Any:
        batches.append(len(queries))
        return search(corpus, queries, k)

    monkeypatch.setattr(type(inner), "search_now", counted)
    questions, _ = envs.reset(seed=0)
    calls = [render_call("t", "search", {"query": [question]}) for question in questions]
    observations, *_ = envs.step(calls)
    assert batches == [len(set(questions))]
    envs.reset(seed=0)
    alone = ResearchVectorEnv(1)
    alone.reset(seed=0)
    assert alone.step(calls[:1])[0][0] == observations[0]


def test_hundreds_of_slots() -> None:
    envs = small(256)
    envs.async_reset(seed=0)
    received = 0
    while received < 256 * 6:
        *_, infos = envs.recv(min_ready=64)
        received += len(infos["env_id"])
        envs.send([wait(0) if turns < 2 else ANSWER for turns in infos["usage"]["turns"]], infos["env_id"])
    *_, infos = envs.recv(min_ready=256)
    assert sorted(infos["env_id"].tolist()) == list(range(256))
    envs.reset()
    assert envs.step([wait(0)] * 256)[1].shape == (256,)
    envs.close()


async def test_steps_inside_a_running_loop() -> None:
    envs = small(2)
    envs.reset(seed=0)
    assert envs.step([ANSWER] * 2)[2].all()


@pytest.mark.parametrize("name", ["NextStep", "SameStep", "Disabled"])
def test_specs_survive_json(name: str) -> None:
    envs = gym.make_vec("VenusResearch-v0", num_envs=2, autoreset_mode=name, max_turns=4, max_episode_steps=3)
    assert envs.spec is not None
    again = gym.make_vec(EnvSpec.from_json(envs.spec.to_json()))
    assert isinstance(again, ResearchVectorEnv)
    assert (again.num_envs, again.metadata["autoreset_mode"]) == (2, AutoresetMode(name))
    assert again.source.setting.config.max_turns == 4
    assert again.reset(seed=1)[0] == envs.reset(seed=1)[0]
    assert ResearchVectorEnv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_gymnasiums_vector_wrappers_work() -> None:
    envs = gym.wrappers.vector.DictInfoToList(gym.wrappers.vector.RecordEpisodeStatistics(small(2)))
    _, infos = envs.reset(seed=0)
    assert infos[1]["task_id"] in {task.id for task in TASKS}
    *_, infos = envs.step((ANSWER, "x"))
    assert infos[0]["score"] == 1.0
    assert infos[0]["episode"]["l"] == 1
    envs.close()


def test_rendering(capsys: pytest.CaptureFixture[str]) -> None:
    envs = small(2, render_mode="ansi")
    envs.reset(seed=0)
    shown = envs.render()
    assert shown is not None
    assert all(session.task.question in str(text) for session, text in zip(envs.sessions, shown, strict=True))
    assert capsys.readouterr().out == ""
    envs = small(2, render_mode="html")
    envs.reset(seed=0)
    shown = envs.render()
    assert shown is not None
    assert "<html" in str(shown[1])
    envs = small(2, render_mode="human", autoreset_mode="SameStep")
    envs.reset(seed=0)
    assert envs.render() == (None, None)
    capsys.readouterr()
    envs.step([ANSWER, wait(0)])
    printed = capsys.readouterr().out
    assert printed.count("[slot 0]") == 2  # the answer, and the next question
    assert printed.count("[slot 1]") == 1
    assert "<answer>Sweden</answer>" in printed
    silent = small(1)
    with pytest.warns(UserWarning, match="render_mode"):
        assert silent.render() is None


def test_closing() -> None:
    envs = small(2)
    tool = gate(envs)
    envs.reset(seed=0)
    envs.send([wait()] * 2, range(2))
    while tool.waiting < 2:
        threading.Event().wait(0.002)
    envs.close()
    assert tool.cancelled == 2
    envs.close()
    for call in (envs.reset, envs.async_reset, envs.recv, lambda: envs.step(["x"] * 2), lambda: envs.send(["x"], [0])):
        with pytest.raises(ClosedEnvironmentError):
            call()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs must be at least 1, got 0"),
        ({"autoreset_mode": "Sometimes"}, "autoreset_mode 'Sometimes' is unknown; use one of 'NextStep'"),
        ({"max_episode_steps": 0}, "max_episode_steps must be at least 1"),
        ({"belief": "gut"}, "belief 'gut' is unknown"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ResearchVectorEnv(**arguments)
