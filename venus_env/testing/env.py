"""``check_research_env``: Gymnasium's own checks, and what a research environment promises beyond them."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from venus_env.envs.portal import portal
from venus_env.policies.base import Policy, next_turn
from venus_env.policies.random import RandomPolicy
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS, Message
from venus_env.testing.examples import HOSTILE_TEXTS
from venus_env.testing.report import Doubtful, Failed, NotApplicable, Report, expect, short

_INFO_KEYS = ("task_id", "new_messages", "turn", "end", "forced", "score", "reward_terms", "usage")
_EPISODES = 3
_OPENINGS = 8
_MAX_STEPS = 1000
_MALFORMED = "A turn without an action."

Step = tuple[Any, float, bool, bool, dict[str, Any]]


def check_research_env(
    env: str | gym.Env[Any, Any], *, policy: Policy | None = None, seed: int = 0, **kwargs: Any
) -> Report:
    """Check a research environment.

    Args:
        env: An id, or an environment, which is played, reset and in the end closed. Without a spec, that is, not made
            by ``gymnasium.make``, it is checked in its own render mode only.
        policy: Plays it; random searches and visits by default. It must give equal turns on equal conversations.
        seed: Seeds episodes.
        **kwargs: Arguments for ``gymnasium.make``, with an id.

    Raises:
        TypeError: ``kwargs`` with an environment.
    """
    if isinstance(env, str):
        env = gym.make(env, **kwargs)
    elif kwargs:
        raise TypeError(f"{sorted(kwargs)} are arguments of gymnasium.make: pass an id instead of an environment")
    checks = _EnvChecks(env.unwrapped, policy or RandomPolicy(seed), seed)
    report = Report(f"env {env.spec.id if env.spec else type(env.unwrapped).__name__}")
    with contextlib.redirect_stdout(io.StringIO()):  # render mode human prints
        checks.run(report)
    return report


class _EnvChecks:
    def __init__(self, env: Any, policy: Policy, seed: int) -> None:
        self.env = env
        self.policy = policy
        self.seed = seed
        self.played: list[tuple[Any, list[Step]]] = []  # the task (None if unknown) and its transitions

    def run(self, report: Report) -> None:
        report.run("infos", self.infos)
        report.run("episodes", self.episodes, needs=("infos",))
        for check in (self.spaces, self.json_infos, self.endings, self.seeds, self.secrets):
            report.run(check.__name__.replace("_", " "), check, needs=("episodes",))
        report.run("step after end", self.step_after_end, needs=("infos",))
        report.run("action type", self.action_type, needs=("infos",))
        for label, text in HOSTILE_TEXTS.items():
            report.run(f"hostile action: {label}", self.hostile, text, needs=("infos",))
        report.run("pickle", self.copied, _pickled, "pickled", needs=("seeds",))
        report.run("deepcopy", self.copied, copy.deepcopy, "deep-copied", needs=("seeds",))
        report.run("state", self.state, needs=("seeds",))
        report.run("spec", self.spec)
        report.run("check_env", self.check_env)
        report.run("close", self.close)

    def infos(self) -> None:
        for info in (self._reset(self.seed)[1], self.env.step(_MALFORMED)[4]):
            missing = [key for key in _INFO_KEYS if key not in info]
            expect(not missing, f"info lacks {missing}; the docstring of ResearchEnv says what they hold")
            messages = info["new_messages"]
            expect(
                isinstance(messages, list) and bool(messages) and all({"role", "content"} <= set(m) for m in messages),
                f"info['new_messages'] must list the chat messages added, got {short(messages)}",
            )

    def episodes(self) -> str:
        for number in range(_EPISODES):
            start = self._start(self.seed + number)
            self.played.append((getattr(self.env, "task", None), [start, *self._play(self.env, _messages([start]))]))
        start = self._start(self.seed)
        malformed = self._steps(_MALFORMED for _ in range(_MAX_STEPS))  # to see an episode that is truncated
        expect(_ended(malformed[-1]), f"{_MAX_STEPS} malformed turns did not end an episode; limit them")
        self.played.append((getattr(self.env, "task", None), [start, *malformed]))
        return ", ".join(f"{steps[-1][4]['end']} after {len(steps) - 1} turns" for _, steps in self.played)

    def spaces(self) -> None:
        for observation, *_ in self._transitions():
            expect(
                observation in self.env.observation_space,
                f"observation {short(observation)} is not in {self.env.observation_space}",
            )

    def json_infos(self) -> None:
        for step in self._transitions():
            try:
                _canonical(step)
            except (TypeError, ValueError) as error:
                raise Failed(
                    f"a transition is no JSON value ({error}); keep observations, rewards and infos to texts, numbers, "
                    f"bools, None, lists, dicts and dataclasses: {short(step)}"
                ) from error

    def endings(self) -> None:
        for _, reward, terminated, truncated, info in self._transitions():
            end, score = info["end"], info["score"]
            flags = f"end {end!r} with terminated={terminated}, truncated={truncated}"
            expect(terminated == (end == "answered"), f"{flags}: an episode terminates exactly when the agent answers")
            expect(truncated == (end not in ("running", "answered")), f"{flags}: every other ending truncates")
            expect(math.isfinite(reward), f"reward {reward} is not finite")
            terms = sum(info["reward_terms"].values())
            expect(
                math.isclose(reward, terms, abs_tol=1e-6), f"reward {reward} is not the sum of reward_terms ({terms})"
            )
            if end == "running":
                expect(score is None, f"a running episode has nothing to grade, got score {score}")
            elif end in INFRASTRUCTURE_ENDS:
                expect(
                    score is None and reward == 0, f"{end} is no verdict: expected score None and reward 0, got {score}"
                )
                raise Doubtful(f"an episode ended as {end}: the infrastructure behind the environment is not well")
            else:
                expect(isinstance(score, float) and 0 <= score <= 1, f"{end}: score must be in [0, 1], got {score!r}")

    def seeds(self) -> None:
        if self.env.spec is not None and self.env.spec.nondeterministic:
            raise NotApplicable("registered as nondeterministic")
        for number, (_, steps) in enumerate(self.played[:_EPISODES]):
            start = self._start(self.seed + number)
            again = [start, *self._play(self.env, _messages([start]))]
            advice = "draw everything random from self.np_random, and keep clocks and counters out of infos"
            self._same(again, steps, f"seed {self.seed + number}, played a second time,", advice)

    def secrets(self) -> str:
        """Before anything was read no answer is in sight, and no info but the messages ever holds one."""
        if not hasattr(self.env, "task"):
            raise NotApplicable("the environment has no attribute 'task', so its accepted answers are unknown")
        openings = []
        for number in range(_OPENINGS):
            observation, info = self._reset(self.seed + number)
            openings.append((self.env.task, observation, info))
        prompts = {info["new_messages"][0]["content"] for _, _, info in openings}
        # A prompt that is the same for different tasks tells nothing about any of them.
        public = prompts if len(prompts) == 1 and len({task.id for task, _, _ in openings}) > 1 else set()
        for task, observation, info in openings:
            texts = [text for text in _texts([observation, info]) if text not in public]
            self._expect_no_secret(task, texts, "reset")
        for task, steps in self.played:
            for step in steps[1:]:
                info = {key: value for key, value in step[4].items() if key != "new_messages"}
                info["turn"] = replace(info["turn"], arguments=None, error=None)  # the agent's own words
                self._expect_no_secret(task, _texts(info), "step")
        return f"{len(openings)} openings"

    def step_after_end(self) -> None:
        self._reset(self.seed)
        self._steps(_MALFORMED for _ in range(_MAX_STEPS))
        try:
            self.env.step(_MALFORMED)
        except ResetNeeded:
            return
        raise Failed("step() after the end of an episode must raise gymnasium.error.ResetNeeded")

    def action_type(self) -> None:
        for action in (None, b"bytes", 3, ["text"]):
            self._reset(self.seed)
            try:
                self.env.step(action)
            except TypeError:
                continue
            raise Failed(f"step({action!r}) must raise TypeError: an action is a text")

    def hostile(self, text: str) -> None:
        self._reset(self.seed)
        step = self.env.step(text)
        expect(step[0] in self.env.observation_space, f"observation {short(step[0])} is not in the observation space")
        _canonical(step).encode()

    def copied(self, copier: Callable[[Any], Any], how: str) -> None:
        begun = self._begin()
        try:
            other = copier(self.env)
        except Exception as error:
            raise Failed(
                f"it cannot be {how} in the middle of an episode ({type(error).__name__}: {error}), which worker "
                "processes and tree search need"
            ) from error
        steps = self._play(self.env, _messages(begun))
        again = self._steps(_actions(steps), other)
        advice = "a copy must keep the episode, the random stream and all arguments"
        self._same(again, steps, f"a {how} environment", advice)
        self._same(_openings(other), _openings(self.env), f"the next episodes of a {how} environment", advice)

    def state(self) -> None:
        if not (hasattr(self.env, "get_state") and hasattr(self.env, "set_state")):
            raise NotApplicable("the environment has no get_state and set_state")
        begun = self._begin()
        state = _pickled(self.env.get_state())
        steps = self._play(self.env, _messages(begun))
        following = _openings(self.env)
        fresh = copy.deepcopy(self.env)
        for other, how in ((self.env, "set_state on the same environment"), (fresh, "set_state on a copy")):
            other.set_state(state)
            self._same(self._steps(_actions(steps), other), steps, how, "the state must hold the whole episode")
            self._same(_openings(other), following, f"what follows {how}", "the state must hold the random stream")

    def spec(self) -> None:
        spec = self.env.spec
        if spec is None:
            raise NotApplicable("the environment has no spec; make it with gymnasium.make to check that, too")
        try:
            text = spec.to_json()
        except (TypeError, ValueError) as error:
            raise NotApplicable(f"it holds objects, which no JSON can name ({error})") from error
        expect(EnvSpec.from_json(text).to_json() == text, f"the spec changes on its way through JSON: {text}")
        made = EnvSpec.from_json(text).make().unwrapped
        start = made.reset(seed=self.seed)
        expect(
            _canonical(start) == _canonical(self._reset(self.seed)),
            "an environment made from the JSON of the spec starts otherwise; all that matters must be in its kwargs",
        )
        made.close()

    def check_env(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check_env(self.env, skip_render_check=self.env.spec is None)
        # Gymnasium's are UserWarnings; DeprecationWarnings of libraries that load meanwhile are nobody's business here.
        found = dict.fromkeys(str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))
        expect(not found, "\n".join(found))

    def close(self) -> None:
        self.env.close()
        self.env.close()

    def _reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed)
        return observation, info

    def _start(self, seed: int) -> Step:
        observation, info = self._reset(seed)
        return observation, 0.0, False, False, info

    def _begin(self) -> list[Step]:
        """An episode in which one turn has been played and the next one is due."""
        for seed in range(self.seed, self.seed + _OPENINGS):
            start = self._start(seed)
            step = self.env.step(self._act(_messages([start])))
            if not _ended(step):
                return [start, step]
        raise NotApplicable(
            "the policy ends every episode in its first turn; give one that goes on (policy=, in Python)"
        )

    def _play(self, env: Any, messages: list[Message]) -> list[Step]:
        """Let the policy finish the episode; a policy reads the messages that the infos have brought."""
        steps: list[Step] = []
        while not steps or not _ended(steps[-1]):
            expect(len(steps) < _MAX_STEPS, f"an episode did not end within {_MAX_STEPS} steps; set a limit of turns")
            steps.append(env.step(self._act(messages)))
            messages += steps[-1][4]["new_messages"]
        return steps

    def _act(self, messages: Sequence[Message]) -> str:
        return portal().run(next_turn(self.policy, tuple(messages)))

    def _steps(self, actions: Iterator[str], env: Any = None) -> list[Step]:
        steps: list[Step] = []
        for action in actions:
            steps.append((env or self.env).step(action))
            if _ended(steps[-1]):
                break
        return steps

    def _transitions(self) -> Iterator[Step]:
        return (step for _, steps in self.played for step in steps)

    @staticmethod
    def _same(got: Sequence[Step], wanted: Sequence[Step], how: str, advice: str) -> None:
        for number, (step, expected) in enumerate(zip(got, wanted, strict=False)):
            got_parts, wanted_parts = _parts(step), _parts(expected)
            for part in {**wanted_parts, **got_parts}:
                value, other = got_parts.get(part), wanted_parts.get(part)
                expect(
                    _canonical(value) == _canonical(other),
                    f"{how} differs in {part} of step {number}: {short(value)} instead of {short(other)}; {advice}",
                )
        expect(len(got) == len(wanted), f"{how} takes {len(got)} steps instead of {len(wanted)}; {advice}")

    @staticmethod
    def _expect_no_secret(task: Any, texts: Sequence[str], where: str) -> None:
        answers = [rf"(?<!\w){re.escape(answer)}(?!\w)" for answer in _secret(task.answers, task)]
        sentences = [re.escape(sentence) for sentence in _secret([step.sentence for step in task.evidence], task)]
        for pattern in [*sentences, *answers]:
            for text in texts:
                shown = re.search(pattern, text.replace(task.question, ""))
                if shown:
                    around = shown.string[max(0, shown.start() - 40) : shown.end() + 40]
                    raise Failed(
                        f"{where} shows {shown[0]!r}, an answer or evidence of task {task.id!r}: …{around!r}…; a "
                        "policy must find it through the tools only"
                    )


def _secret(texts: Sequence[str], task: Any) -> list[str]:
    """Texts that can be recognised, and are not in the question anyway."""
    return [text for text in texts if len(text) >= 3 and text not in task.question]


def _openings(env: Any) -> list[Step]:
    """The next episodes, drawn from the environment's random stream as it is."""
    resets = [env.reset() for _ in range(_OPENINGS)]
    return [(observation, 0.0, False, False, info) for observation, info in resets]


def _ended(step: Step) -> bool:
    return step[2] or step[3]


def _parts(step: Step) -> dict[str, Any]:
    """A transition by the names of what it holds."""
    parts = dict(zip(("observation", "reward", "terminated", "truncated"), step[:4], strict=True))
    return parts | {f"info[{key!r}]": value for key, value in step[4].items()}


def _messages(steps: Sequence[Step]) -> list[Message]:
    return [message for step in steps for message in step[4]["new_messages"]]


def _actions(steps: Sequence[Step]) -> Iterator[str]:
    """What the agent wrote in these steps."""
    return (step[4]["new_messages"][0]["content"] for step in steps)


def _texts(value: Any) -> list[str]:
    """All texts in a JSON value; records count as mappings."""
    if isinstance(value, str):
        return [value]
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [text for item in items for text in _texts(item)]


def _canonical(value: Any) -> str:
    return json.dumps(value, default=_as_dict, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _as_dict(value: Any) -> dict[str, Any]:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))
