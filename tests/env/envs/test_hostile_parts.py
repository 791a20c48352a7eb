"""Tools, beliefs and judges that do their worst: their own episode ends, everything else goes on."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator

from venus_env.envs.research import ResearchEnv
from venus_env.envs.slot import EnvState
from venus_env.envs.vector import ResearchVectorEnv
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.turns import Message, ToolResult
from venus_env.tasks.task import Task

TASK = Task(id="lund", question="In which country is Lund?", answers=("Sweden",))


class Anything(BaseModel):
    payload: Any


class Hostile:
    name: ClassVar[str] = "t"
    aliases: ClassVar[tuple[str, ...]] = ()
    description: ClassVar[str] = "Do something."

    def __init__(self, result: Any = None, arguments: type[BaseModel] = Anything) -> None:
        self.result = result
        self.arguments = arguments

    async def __call__(self, arguments: Any) -> ToolResult:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result if self.result is not None else ToolResult(repr(arguments))


def make(tool: Hostile, **arguments: Any) -> ResearchEnv:
    env = ResearchEnv(**{"tasks": [TASK], "tools": [tool], "belief": None, **arguments})
    env.reset(seed=0)
    return env


def call(payload: Any = 1) -> str:
    return render_call("t", "t", {"payload": payload})


def raw(arguments: str) -> str:
    return f'<think>t</think>\n<tool_call>{{"name": "t", "arguments": {arguments}}}</tool_call>'


@pytest.mark.parametrize(
    "result",
    [
        SystemExit(2),
        asyncio.CancelledError(),
        TimeoutError("dns of my server"),
        ToolResult(None),  # type: ignore[arg-type]
        ToolResult(123),  # type: ignore[arg-type]
        ToolResult("x", urls=(1,)),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_whatever_a_tool_does_ends_its_own_episode_only(result: Any) -> None:
    env = make(Hostile(result))
    *_, truncated, info = env.step(call())
    assert (truncated, info["end"], info["score"]) == (True, "tool_failure", None)
    if isinstance(result, TimeoutError):
        assert info["turn"].error == "tool 't' failed: TimeoutError: dns of my server"
    envs = ResearchVectorEnv(2, tasks=[TASK], tools=[Hostile(result)], belief=None)
    envs.reset(seed=0)
    *_, infos = envs.step([call(), render_answer("t", "Sweden")])
    assert infos["end"].tolist() == ["tool_failure", "answered"]


def test_the_loop_outlives_what_stops_a_process() -> None:
    env = make(Hostile(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        env.step(call())
    assert env.trajectory.end == "aborted"
    healthy = make(Hostile())
    done = threading.Event()
    threading.Thread(target=lambda: (healthy.step(call()), done.set()), daemon=True).start()
    assert done.wait(20)


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()], ids=repr)
def test_beliefs_and_judges_fail_alone_too(error: BaseException) -> None:
    class Worst:
        asked = 0

        async def grade(self, *_: Any) -> float:
            raise error

        def open(self, question: str, answers: Sequence[str]) -> "Worst":
            return self

        async def update(self, messages: Sequence[Message]) -> list[float]:
            self.asked += 1
            if self.asked > 1:
                raise error
            return [-1.0]

        async def score(self, *_: Any) -> list[list[float]]:
            raise error

    assert make(Hostile(), judge=Worst()).step(render_answer("t", "Sweden"))[4]["end"] == "judge_failure"
    assert make(Hostile(), belief=Worst()).step(call())[4]["end"] == "judge_failure"


def test_a_validator_that_raises_anything_is_the_tools_failure() -> None:
    class Checked(BaseModel):
        payload: int

        @field_validator("payload")
        @classmethod
        def check(cls, payload: int) -> int:
            raise KeyError(payload)

    info = make(Hostile(arguments=Checked)).step(call())[4]
    assert (info["end"], info["turn"].error) == ("tool_failure", "tool 't' cannot check arguments: KeyError: 1")


@pytest.mark.parametrize("depth", [99, 101, 300, 5_000])
def test_nesting_has_a_limit_below_that_of_any_writer(depth: int) -> None:
    env = make(Hostile())
    info = env.step(raw('{"payload": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"))[4]
    assert info["turn"].kind == ("tool" if depth < 100 else "malformed")
    assert EnvState.model_validate_json(env.get_state().model_dump_json()) == env.get_state()
    env.trajectory.model_dump_json()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "[1, NaN]"])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    info = make(Hostile()).step(raw(f'{{"payload": {number}}}'))[4]
    assert info["turn"].kind == "malformed"
    assert "is no number in JSON" in info["turn"].error


def test_lone_surrogates_of_a_tool_reach_no_record() -> None:
    env = make(Hostile(ToolResult("a \ud800 b", urls=("https://x/\udfff",))))
    env.step(call())
    assert EnvState.model_validate_json(env.get_state().model_dump_json()) == env.get_state()


def test_arguments_by_every_name_that_the_model_takes() -> None:
    class Aliased(BaseModel):
        q: str = Field(validation_alias=AliasChoices("query", "q"))

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        q: str

    for name in ("q", "query"):
        assert make(Hostile(arguments=Aliased)).step(render_call("t", "t", {name: "x"}))[4]["turn"].kind == "tool"
    info = make(Hostile(arguments=Open)).step(render_call("t", "t", {"q": "x", "more": 1}))[4]
    assert info["turn"].arguments == {"q": "x", "more": 1}


def test_numpy_numbers_leave_plain_ones() -> None:
    class Float32:
        def open(self, question: str, answers: Sequence[str]) -> "Float32":
            return self

        async def update(self, messages: Sequence[Message]) -> list[Any]:
            return [np.float32(-len(messages))]

        async def score(self, *_: Any) -> list[list[float]]:
            raise NotImplementedError

    info = make(Hostile(), belief=Float32()).step(call())[4]
    assert type(info["reward_terms"]["information_gain"]) is float


def test_names_that_no_call_can_use_are_refused() -> None:
    tool = Hostile()
    tool.name = "my calc!"  # type: ignore[misc]
    with pytest.raises(ValueError, match="'my calc!' is no name for a tool"):
        make(tool)


def test_budgets_that_leave_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="max_tool_calls=0"):
        make(Hostile(), episode={"max_tool_calls": 0, "force_final_answer": False})
