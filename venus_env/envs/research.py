"""The Gymnasium environment: answer a question by searching and reading."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import gymnasium as gym

from corpora import SHIPPED
from venus_env.beliefs.base import Belief, open_belief
from venus_env.corpus import Corpus, open_corpus
from venus_env.envs.portal import portal
from venus_env.envs.slot import EnvState, EpisodeSource, Observation, ObservationKind, Slot
from venus_env.envs.transcript import transcript
from venus_env.protocol.prompt import PromptStyle
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.rewards.compose import RewardConfig
from venus_env.rewards.judge import Judge
from venus_env.session import ResearchSession
from venus_env.setting import EnvConfig, Setting, split_tasks
from venus_env.tasks.loaders import load_tasks
from venus_env.tasks.task import Task
from venus_env.tools.base import Tool

T = TypeVar("T")


class ResearchEnv(gym.Env[Observation, str]):
    r"""Answer a question by searching a corpus and reading its pages.

    ## Description
    The agent is given a question and works on it in turns. In each turn it thinks, then either calls a tool or gives
    its final answer. It has seen enough when the accepted answer has become likely given what it has read, and every
    turn that makes it likelier earns a reward: the *information gain* of IGPO (arXiv:2510.14967). Everything runs
    offline by default: a corpus of a few thousand pages and questions about them ship with the package.

    ```python
    import gymnasium as gym, venus_env
    env = gym.make("VenusResearch-v0")
    obs, info = env.reset(seed=7)
    ```

    ## Action Space
    A text, `UnicodeText`. A turn is a thought followed by one action, a tool call or the answer:

    ```text
    <think>Where was Ada Lovelace born?</think>
    <tool_call>{"name": "search", "arguments": {"query": ["Ada Lovelace birthplace"]}}</tool_call>
    ```

    What may follow the thought, and what it leads to:

    - `<tool_call>{"name": "search", "arguments": {"query": [str, …]}}</tool_call>`: titles, urls and snippets of the
      best pages for each query.
    - `<tool_call>{"name": "visit", "arguments": {"url": [str, …], "goal": str}}</tool_call>`: what these pages say that
      bears on the goal.
    - `<answer>…</answer>`: the end of the episode.

    Any other text is a malformed turn: the reply says what is wrong, and the turn counts. Reading is lenient about
    layout and strict about content:

    - The first pair of each tag counts wherever it stands, inside the thought too: of several tool calls only the first
      runs, and a turn with both a call and an answer is malformed.
    - A thought that is never closed ends where the action begins; one that is never opened starts the turn. Whatever
      follows a `<tool_response>` that the agent wrote itself is not read.
    - A call that cannot be read, or lacks an argument, does not run; nothing is guessed.
    - A call that repeats an earlier one is answered with the earlier result. It counts as a turn.
    - A turn that repeats the same text over and over is malformed, whatever it holds.
    - An empty text is a malformed turn; one of 100 KB is a turn like any other, and may fill the context.
    - Lone surrogates, which UTF-8 cannot encode, are outside the space; they become U+FFFD.

    ## Observation Space
    A text, `UnicodeText`: what the agent has not read yet. After `reset` it is the question; after a step it is the
    reply, wrapped in `<tool_response>…</tool_response>`; it is empty when the episode ends without one. Policies that
    want the whole conversation, system prompt included, find what was added in `info["new_messages"]`; with
    `observation="messages"` that is the observation itself, a tuple of `{"role": str, "content": str}`, and all
    observations joined are the conversation. Tool text cannot imitate the protocol: tags and special tokens in it are
    broken up invisibly.

    ## Rewards
    The sum of `info["reward_terms"]`, in which a term that does not apply is absent:

    - `information_gain` (tool turns): S_t − S_{t−1}, where S is the mean log-probability that the belief gives to the
      tokens of the accepted answer (the likeliest, if there are several) after reading everything so far.
    - `outcome` (the answer): word F1 against the accepted answers, or a judge's verdict, in [0, 1].
    - `format` (any turn): −1 for a turn that is not laid out as above. It replaces the other terms of the turn.

    If a tool, the belief or the judge breaks down, the reward is 0 and `info["score"]` is None: such an episode says
    nothing about the agent and should be left out of averages.

    ## Starting State
    A task drawn uniformly from the split, or the one named by `options={"task_id": …}`.

    ## Episode End
    - Termination: the agent has answered.
    - Truncation: anything else, named by `info["end"]`:

    | `info["end"]`     | Why                                                    | `info["score"]`    |
    |-------------------|--------------------------------------------------------|--------------------|
    | `answered`        | The agent has answered: terminated                     | the answer's grade |
    | `turn_limit`      | `max_turns` turns, or `max_tool_calls` calls           | 0.0                |
    | `context_limit`   | The conversation has reached `max_context_tokens`      | 0.0                |
    | `time_limit`      | `time_limit_s` seconds since the start                 | 0.0                |
    | `malformed_limit` | `max_malformed` malformed turns in a row (five)        | 0.0                |
    | `tool_failure`    | A tool raised, or took longer than `tool_timeout_s`    | None               |
    | `judge_failure`   | The belief or the judge raised                         | None               |
    | `aborted`         | The step was cancelled, or whoever drives gave up      | None               |

    Before a limit of turns, context or time cuts an episode off, the last reply asks for a final answer and leaves one
    turn for it; `info["forced"]` names the limit. An answer given then ends the episode as `answered`.

    ## Information
    `reset` and `step` return fresh objects under the same keys:

    | Key            | Content                                                                                      |
    |----------------|----------------------------------------------------------------------------------------------|
    | `task_id`      | Id of the task                                                                               |
    | `new_messages` | Chat messages added: system prompt and question, then the agent's turn and the reply          |
    | `turn`         | The `Turn` (kind, tool, arguments, …): an object, no dict; None after `reset`                 |
    | `end`          | How the episode ended; `running` until then                                                   |
    | `forced`       | The limit that made the environment ask for a final answer, or None                          |
    | `score`        | Exact match of the answer, 0.0 or 1.0, or a judge's verdict; None with nothing to grade      |
    | `reward_terms` | The parts of the reward                                                                      |
    | `usage`        | Turns, tool calls, repeated calls, malformed turns, context tokens and more so far            |

    Accepted answers and evidence are in none of them. `env.unwrapped.trajectory` is the full record for training and
    evaluation, and `env.unwrapped.task` the task itself. `get_state` and `set_state` go back to an earlier turn; copies
    (pickle, deepcopy) go on with the episode.

    ## Arguments
    Names, paths or objects; copies of the environment (pickle, deepcopy, worker processes) open paths again.

    - `corpus`: `"embedded"`, a passage file, the folder of an index, or a `Corpus`.
    - `tasks`, `split`: `"embedded"` or a task file, and the part of it to draw from (None: all of it); or a list of
      `Task`, taken as it is.
    - `tools`: a list of tools in place of `search` and `visit`.
    - `rewards`: a `RewardConfig` or a dict of its fields.
    - `belief`: `"lexical"` (a language model over the words read so far), `"hf:FOLDER_OR_NAME"`, `"server:URL"`, a
      `Belief`, or None for no information gain.
    - `judge`: a `Judge` that grades answers for both outcome and score, in place of comparing texts.
    - `prompt`: `"full"`, or `"compact"` for very small models.
    - `tool_style`: layout of what the tools return, `"full"` or `"compact"`; follows the prompt if None.
    - `current_date`: the date in the prompt; None leaves it out.
    - `max_turns`, `max_context_tokens`: budgets.
    - `top_k`, `snippet_words`, `visit_tokens`: pages per search, words per snippet, tokens per page read.
    - `episode`: a dict of further fields of `EpisodeConfig`, for example `{"turn_jitter": 5, "time_limit_s": 60}`.
    - `clock`: a function that gives seconds, for `time_limit_s`.
    - `count_tokens`: a function that gives the length of a text in tokens, for the budgets; estimated if None.
    - `observation`: `"text"` or `"messages"`.
    - `render_mode`: `"ansi"` (`render()` returns the conversation as text), `"html"` (as a page, with rewards and
      ending) or `"human"` (prints it as it goes).

    ## Version History
    - v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "html", "human"], "render_fps": 1}  # noqa: RUF012 (as gym.Env)

    def __init__(
        self,
        *,
        corpus: str | Path | Corpus = "embedded",
        tasks: str | Path | Sequence[Task] = "embedded",
        split: str | None = "train",
        tools: Sequence[Tool] | None = None,
        rewards: RewardConfig | Mapping[str, Any] | None = None,
        belief: str | Belief | None = "lexical",
        judge: Judge | None = None,
        prompt: PromptStyle = "full",
        tool_style: Literal["full", "compact"] | None = None,
        current_date: str | None = "2026-03-01",
        max_turns: int = 20,
        max_context_tokens: int = 261_000,
        top_k: int = 10,
        snippet_words: int = 40,
        visit_tokens: int = 1000,
        episode: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        count_tokens: Callable[[str], int] | None = None,
        observation: ObservationKind = "text",
        render_mode: str | None = None,
    ) -> None:
        # Absolute, so that a copy in another process opens the same files.
        corpus, tasks = _absolute(corpus), _absolute(tasks)
        self._arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        _check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        _check_choice("observation", observation, get_args(ObservationKind))
        self.render_mode = render_mode
        config = EnvConfig(
            prompt=prompt,
            tool_style=tool_style or prompt,
            current_date=current_date,
            max_turns=max_turns,
            max_context_tokens=max_context_tokens,
            top_k=top_k,
            snippet_words=snippet_words,
            visit_tokens=visit_tokens,
            rewards=RewardConfig.model_validate(rewards or {}),
            **(episode or {}),
        )
        opened = _open_tasks(tasks, split)
        setting = Setting.open(config, corpus=open_corpus(corpus))
        if tools is not None:
            setting = Setting(config, setting.corpus, tuple(tools))
        self.source = EpisodeSource(
            setting, opened, open_belief(belief, setting.corpus), judge, clock, count_tokens, observation
        )
        self.observation_space = self.source.observation_space()
        self.action_space = self.source.action_space()
        self._slot = Slot(self.source)

    @property
    def config(self) -> EnvConfig:
        """Rules, tools and rewards."""
        return self.source.setting.config

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks that episodes are drawn from."""
        return self.source.tasks

    @property
    def session(self) -> ResearchSession:
        """The episode under way."""
        return self._slot.session

    @property
    def task(self) -> Task:
        """The current task, accepted answers and evidence included: for oracles and tests, never for a policy."""
        return self.session.task

    @property
    def messages(self) -> list[Message]:
        """The conversation so far, as a chat policy reads it; the episode's own list, not a copy."""
        return self.session.messages

    @property
    def trajectory(self) -> Trajectory:
        """The whole record so far."""
        return self.session.trajectory()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seeds the choice of tasks and everything random in the episodes.
            options: ``{"task_id": id}`` chooses the task.

        Raises:
            ValueError: An option is unknown, or names no task.
            EpisodeFailedToStart: The belief failed on the question.
        """
        super().reset(seed=seed)
        observation, info = portal().run(self._slot.reset(self.np_random, options))
        self._show(info["new_messages"])
        return observation, info

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play one turn.

        Raises:
            TypeError: ``action`` is no text.
            ResetNeeded: There is no episode, or it has ended.
        """
        transition = portal().run(self._slot.step(action))
        self._show(transition[-1]["new_messages"])
        return transition

    def get_state(self) -> EnvState:
        """Return the state between two turns, for :meth:`set_state`; tree search and resuming are made of the two."""
        generator = None if self._np_random is None else dict(self._np_random.bit_generator.state)
        return EnvState(np_random=generator, session=self._slot.get_state())

    def set_state(self, state: EnvState) -> None:
        """Go on from ``state``, which can be used any number of times, also in another process.

        From there on the same actions lead to the same transitions, and the same tasks are drawn after the episode.

        Args:
            state: Taken from an environment with the same tools and rules.

        Raises:
            ValueError: The state was taken under other rules, or with other tools.
        """
        self._slot.set_state(state.session)
        if state.np_random is None:
            self._np_random, self._np_random_seed = None, None
        else:
            self.np_random.bit_generator.state = state.np_random

    def count_with(self, count_tokens: Callable[[str], int]) -> None:
        """Measure the budgets of the episodes to come in the tokens that ``count_tokens`` counts in a text."""
        self._arguments["count_tokens"] = count_tokens
        self.source = replace(self.source, count_tokens=count_tokens)
        self._slot.source = self.source

    def render(self) -> str | None:  # type: ignore[override]
        """Show the conversation so far.

        Returns:
            In mode ``ansi`` text for a terminal, in mode ``html`` a page of its own; in mode ``human``, which prints as
            it goes, None.
        """
        if self.render_mode is None:
            gym.logger.warn("render() does nothing without a render_mode; pass render_mode='ansi', 'html' or 'human'")
        return self._slot.render(self.render_mode)

    def close(self) -> None:
        """Forget the episode; may be called more than once."""
        self._slot.clear()

    def __getstate__(self) -> dict[str, Any]:
        """State of a copy: its arguments, its random stream and, between two turns, its episode."""
        kept = ("_np_random", "_np_random_seed", "spec")
        return {
            "arguments": self._arguments,
            "attributes": {name: getattr(self, name) for name in kept},
            "session": self._slot.get_state(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["arguments"])  # type: ignore[misc]
        self.__dict__.update(state["attributes"])
        self._slot.set_state(state["session"])

    def _show(self, new_messages: list[Message]) -> None:
        if self.render_mode == "human":
            print(transcript(new_messages), flush=True)


def _check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        raise ValueError(f"{name} {value!r} is unknown; use one of {', '.join(map(repr, choices))}")


def _absolute(spec: T) -> T | str:
    return str(Path(spec).absolute()) if isinstance(spec, str | Path) and spec not in SHIPPED else spec


def _open_tasks(tasks: str | Path | Sequence[Task], split: str | None) -> list[Task]:
    if not isinstance(tasks, str | Path):
        if not tasks:
            raise ValueError("tasks is an empty list; an environment needs at least one task")
        return list(tasks)
    loaded = load_tasks(tasks)
    return loaded if split is None else split_tasks(loaded, split, tasks)
