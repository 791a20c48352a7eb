import contextlib
import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

import venus_env  # noqa: F401 (registers the environment)
from tests.env.protocol.tools import Lookup, Read
from tests.env.testing.reports import assert_clean, assert_first
from venus_env.corpus import Corpus, open_corpus
from venus_env.envs.research import ResearchEnv
from venus_env.policies import OraclePolicy
from venus_env.tasks.loaders import load_tasks
from venus_env.tasks.task import Evidence, Task
from venus_env.testing import check_research_env

TASKS = [
    Task(
        id="lund",
        question="In which country is Lund?",
        answers=("Sweden",),
        evidence=(Evidence(url="https://x/lund", title="Lund", sentence="Lund lies in Scania."),),
    ),
    Task(id="malmo", question="Which city does Malmö face?", answers=("Copenhagen",)),
]


class Small(ResearchEnv):
    """A sound environment; the wrong ones below differ from it in one way."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{"tasks": TASKS, "tools": [Lookup(), Read()], "belief": None, "max_turns": 6, **arguments})


@pytest.fixture(scope="module", autouse=True)
def opened() -> Corpus:
    """Environments share an open corpus as long as somebody holds it."""
    return open_corpus("embedded")


class LacksKeys(Small):
    def step(self, action: str) -> Any:
        *rest, info = super().step(action)
        return (*rest, {key: value for key, value in info.items() if key != "usage"})


class NeverEnds(Small):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(episode={"max_malformed": 10_000}, **{**arguments, "max_turns": 10_000})


class BytesObservation(Small):
    def step(self, action: str) -> Any:
        observation, *rest = super().step(action)
        return (observation.encode(), *rest)


class SetInInfo(Small):
    def step(self, action: str) -> Any:
        *rest, info = super().step(action)
        return (*rest, {**info, "seen": {action}})


class TruncatesAnswers(Small):
    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, False, terminated or truncated, info


class TerminatesAtLimits(Small):
    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, False, info


class ScoresAsItGoes(Small):
    def step(self, action: str) -> Any:
        *rest, info = super().step(action)
        return (*rest, {**info, "score": info["score"] or 0.0})


class HidesAReward(Small):
    def step(self, action: str) -> Any:
        observation, reward, *rest = super().step(action)
        return (observation, reward + 0.1, *rest)


class FailureIsZero(Small):
    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        if info["end"] == "malformed_limit":
            info |= {"end": "tool_failure", "score": 0.0, "reward_terms": {}}
            reward = 0.0
        return observation, reward, terminated, truncated, info


class Breaks(FailureIsZero):
    def step(self, action: str) -> Any:
        *rest, info = super().step(action)
        return (*rest, info | {"score": None} if info["end"] == "tool_failure" else info)


class HasAClock(Small):
    def step(self, action: str) -> Any:
        *rest, info = super().step(action)
        return (*rest, {**info, "time": time.perf_counter()})


class IgnoresSeeds(Small):
    numbers = itertools.count()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=next(self.numbers), options=options)


class ShowsTheAnswer(Small):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        observation, info = super().reset(seed=seed, options=options)
        return observation, {**info, "hint": f"It starts like {self.task.answers[0]}."}


class ShowsTheEvidence(Small):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        observation, info = super().reset(seed=seed, options=options)
        info["new_messages"][0]["content"] += "".join(step.sentence for step in self.task.evidence)
        return observation, info


class ShowsTheAnswerLater(Small):
    def step(self, action: str) -> Any:
        *rest, info = super().step(action)
        return (*rest, {**info, "accepted": list(self.task.answers)})


class StepsOn(Small):
    def step(self, action: str) -> Any:
        with contextlib.suppress(ResetNeeded):
            self.last = super().step(action)
        return self.last


class TakesAnything(Small):
    def step(self, action: Any) -> Any:
        return super().step(str(action))


class HatesUnicode(Small):
    def step(self, action: str) -> Any:
        if isinstance(action, str) and "🧪" in action:
            action.encode("ascii")
        return super().step(action)


class Unpicklable(Small):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "lock": self.lock}


class CopiesForget(Small):
    def __deepcopy__(self, memo: Any) -> Any:
        other = CopiesForget()
        other.reset(seed=1)
        return other


class ForgetsTheStream(Small):
    def set_state(self, state: Any) -> None:
        super().set_state(state)
        self.np_random.random(3)


class Warns(Small):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        gym.logger.warn("this is odd")
        return super().reset(seed=seed, options=options)


class ClosesOnce(Small):
    closed = False

    def close(self) -> None:
        assert not self.closed
        self.closed = True


@pytest.mark.filterwarnings("ignore:.*this is odd")
@pytest.mark.parametrize(
    ("env", "failing", "message"),
    [
        (LacksKeys, "infos", r"info lacks \['usage'\]"),
        (NeverEnds, "episodes", "1000 malformed turns did not end an episode"),
        (BytesObservation, "spaces", "is not in UnicodeText"),
        (SetInInfo, "json infos", "set is no JSON value"),
        (TruncatesAnswers, "endings", "exactly when the agent answers"),
        (TerminatesAtLimits, "endings", "exactly when the agent answers"),
        (ScoresAsItGoes, "endings", "nothing to grade"),
        (HidesAReward, "endings", "not the sum of reward_terms"),
        (FailureIsZero, "endings", "tool_failure is no verdict"),
        (HasAClock, "seeds", r"differs in info\['time'\] of step 1"),
        (IgnoresSeeds, "seeds", "self.np_random"),
        (ShowsTheAnswer, "secrets", "reset shows '(Sweden|Copenhagen)'"),
        (ShowsTheEvidence, "secrets", "reset shows 'Lund lies in Scania.'"),
        (ShowsTheAnswerLater, "secrets", "step shows"),
        (StepsOn, "step after end", "must raise gymnasium.error.ResetNeeded"),
        (TakesAnything, "action type", r"step\(None\) must raise TypeError"),
        (HatesUnicode, "hostile action: unicode", "UnicodeEncodeError"),
        (Unpicklable, "pickle", "cannot be pickled in the middle"),
        (CopiesForget, "deepcopy", "a deep-copied environment differs"),
        (ForgetsTheStream, "state", "what follows set_state on the same environment differs"),
        (Warns, "check_env", "this is odd"),
        (ClosesOnce, "close", "AssertionError"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_a_wrong_environment_fails_where_it_is_wrong(env: type[Small], failing: str, message: str) -> None:
    assert_first(check_research_env(env()), "failed", failing, message)


def test_an_environment_whose_infrastructure_is_down_is_warned_of() -> None:
    report = check_research_env(Breaks())
    assert report.ok, str(report)
    assert_first(report, "warning", "endings", "ended as tool_failure")


class Moody(Small):
    """Is what its spec says, as long as nobody changes the spec."""

    def __init__(self, mood: str = "calm", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.mood = mood

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        observation, info = super().reset(seed=seed, options=options)
        return observation, {**info, "mood": self.mood}


def test_the_spec_must_say_everything() -> None:
    gym.register("VenusMoody-v0", f"{__name__}:Moody")
    try:
        env = gym.make("VenusMoody-v0")
    finally:
        gym.registry.pop("VenusMoody-v0")
    assert env.unwrapped.spec is not None
    env.unwrapped.spec.kwargs["mood"] = "wild"
    assert_first(check_research_env(env), "failed", "spec", "starts otherwise")


def test_a_nondeterministic_environment_is_not_compared() -> None:
    env = gym.make("VenusResearch-v0", tasks=TASKS, tools=[Lookup(), Read()], belief=None)
    assert env.unwrapped.spec is not None
    env.unwrapped.spec.nondeterministic = True
    report = check_research_env(env)
    assert report.ok, str(report)
    assert {"seeds", "pickle", "deepcopy", "state"} < set(report.named("skipped"))


def test_a_spec_that_holds_objects_is_left_alone() -> None:
    report = check_research_env("VenusResearch-v0", tasks=TASKS, tools=[Lookup(), Read()], belief=None)
    assert report.ok, str(report)
    assert_first(report, "skipped", "spec", "holds objects")


def test_sound_environments() -> None:
    report = check_research_env(Small())
    assert report.named("failed") == report.named("warning") == []
    assert report.named("skipped") == ["spec"]
    report = check_research_env(Small(observation="messages", render_mode="human"))
    assert report.named("failed") == report.named("warning") == []


def test_the_registered_environment_on_a_few_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(json.dumps(task.record()) for task in load_tasks("embedded", "dev")[:20]))
    assert_clean(check_research_env("VenusResearch-v0", tasks=str(file), split="dev"))
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_the_registered_environment() -> None:
    assert_clean(check_research_env("VenusResearch-v0"))


def test_another_policy_plays() -> None:
    class Always:
        def act(self, messages: Any) -> str:
            return "<think>t</think>\n<answer>x</answer>"

    report = check_research_env(Small(), policy=Always())
    assert report.ok
    assert "answered after 1 turns, answered after 1 turns" in str(report)
    assert "3 skipped (the policy ends every episode in its first turn; give one that goes on" in str(report)


def test_arguments_need_an_id() -> None:
    with pytest.raises(TypeError, match=r"\['max_turns'\] are arguments of gymnasium.make"):
        check_research_env(Small(), max_turns=3)


def test_the_oracle_is_no_policy_for_this() -> None:
    report = check_research_env(Small(), policy=OraclePolicy())  # type: ignore[arg-type]
    assert_first(report, "failed", "episodes", "act")
