"""The Gymnasium environment: answer a question by searching and reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeVar

import gymnasium as gym
from gymnasium.error import ResetNeeded

from venus_env.beliefs.base import Belief, open_belief
from venus_env.corpus import Corpus, open_corpus
from venus_env.envs.portal import portal
from venus_env.envs.spaces import UnicodeText
from venus_env.envs.transcript import transcript
from venus_env.protocol.prompt import PromptStyle
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.rewards.compose import RewardConfig
from venus_env.session import ResearchSession
from venus_env.setting import EnvConfig, Setting, split_tasks
from venus_env.tasks.loaders import load_tasks
from venus_env.tasks.task import Task
from venus_env.tools.base import Tool

T = TypeVar("T")

_MAX_CHARACTERS = 10_000_000


class ResearchEnv(gym.Env[str, str]):
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

    Any other text is a malformed turn: the reply says what is wrong, and the turn counts. A call that repeats an
    earlier one is answered with the earlier result.

    ## Observation Space
    A text, `UnicodeText`: what the agent has not read yet. After `reset` it is the question; after a step it is the
    reply, wrapped in `<tool_response>…</tool_response>`; it is empty when the episode ends without one. Policies that
    want the whole conversation, system prompt included, find what was added in `info["new_messages"]`. Tool text cannot
    imitate the protocol: tags and special tokens in it are broken up invisibly.

    ## Rewards
    The sum of `info["reward_terms"]`, in which a term that does not apply is absent:

    - `information_gain` (tool turns): S_t − S_{t−1}, where S is the mean log-probability that the belief gives to the
      tokens of the accepted answer (the likeliest, if there are several) after reading everything so far.
    - `outcome` (the answer): word F1 against the accepted answers, in [0, 1].
    - `format` (any turn): −1 for a turn that is not laid out as above. It replaces the other terms of the turn.

    If a tool or the belief breaks down, the reward is 0 and `info["score"]` is None: such an episode says nothing about
    the agent and should be left out of averages.

    ## Starting State
    A task drawn uniformly from the split, or the one named by `options={"task_id": …}`.

    ## Episode End
    - Termination: the agent has answered.
    - Truncation: anything else, named by `info["end"]`: `turn_limit`, `context_limit`, `time_limit`,
      `malformed_limit` (five malformed turns in a row), or a breakdown (`tool_failure`, `judge_failure`, `aborted`).

    Before a limit cuts an episode off, the last reply asks for a final answer and leaves one turn for it.

    ## Information
    `reset` and `step` return fresh objects under the same keys:

    | Key            | Content                                                                                      |
    |----------------|----------------------------------------------------------------------------------------------|
    | `task_id`      | Id of the task                                                                               |
    | `new_messages` | Chat messages added: system prompt and question, then the agent's turn and the reply          |
    | `turn`         | Record of the turn (kind, tool, arguments, form, …); None after `reset`                       |
    | `end`          | How the episode ended; `running` until then                                                   |
    | `forced`       | The limit that made the environment ask for a final answer, or None                          |
    | `score`        | Exact match of the answer, 0.0 or 1.0; None while there is nothing to grade                  |
    | `reward_terms` | The parts of the reward                                                                      |
    | `usage`        | Turns, tool calls, repeated calls, malformed turns and context tokens so far                  |

    Accepted answers and evidence are in none of them. `env.unwrapped.trajectory` is the full record for training and
    evaluation, and `env.unwrapped.task` the task itself.

    ## Arguments
    Names, paths or objects; copies of the environment (pickle, deepcopy, worker processes) open paths again.

    - `corpus`: `"embedded"`, a passage file, the folder of an index, or a `Corpus`.
    - `tasks`, `split`: `"embedded"` or a task file, and the part of it to draw from (None: all of it); or a list of
      `Task`, taken as it is.
    - `tools`: a list of tools in place of `search` and `visit`.
    - `rewards`: a `RewardConfig` or a dict of its fields.
    - `belief`: `"lexical"` (a language model over the words read so far), any other spec of `open_belief`, a `Belief`,
      or None for no information gain.
    - `prompt`: `"full"`, or `"compact"` for very small models.
    - `tool_style`: layout of what the tools return, `"full"` or `"compact"`; follows the prompt if None.
    - `current_date`: the date in the prompt; None leaves it out.
    - `max_turns`, `max_context_tokens`: budgets. Tokens are estimated.
    - `top_k`, `snippet_words`, `visit_tokens`: pages per search, words per snippet, tokens per page read.
    - `episode`: a dict of further fields of `EpisodeConfig`, for example `{"turn_jitter": 5}`.
    - `render_mode`: `"ansi"` (`render()` returns the conversation as text) or `"human"` (prints it as it goes).

    ## Version History
    - v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "render_fps": 1}  # noqa: RUF012 (gym.Env has it so)

    def __init__(
        self,
        *,
        corpus: str | Path | Corpus = "embedded",
        tasks: str | Path | Sequence[Task] = "embedded",
        split: str | None = "train",
        tools: Sequence[Tool] | None = None,
        rewards: RewardConfig | Mapping[str, Any] | None = None,
        belief: str | Belief | None = "lexical",
        prompt: PromptStyle = "full",
        tool_style: Literal["full", "compact"] | None = None,
        current_date: str | None = "2026-03-01",
        max_turns: int = 20,
        max_context_tokens: int = 261_000,
        top_k: int = 10,
        snippet_words: int = 40,
        visit_tokens: int = 1000,
        episode: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        # Absolute, so that a copy in another process opens the same files.
        corpus, tasks = _absolute(corpus), _absolute(tasks)
        self._arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode {render_mode!r} is unknown; use None, 'ansi' or 'human'")
        self.render_mode = render_mode
        self.tasks = _open_tasks(tasks, split)
        self._index = {task.id: task for task in self.tasks}
        self.config = EnvConfig(
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
        self.setting = Setting.open(self.config, corpus=open_corpus(corpus))
        if tools is not None:
            self.setting = Setting(self.config, self.setting.corpus, tuple(tools))
        self.belief = open_belief(belief, self.setting.corpus)
        self.observation_space = UnicodeText(_MAX_CHARACTERS)
        self.action_space = UnicodeText(_MAX_CHARACTERS)
        self._session: ResearchSession | None = None

    @property
    def session(self) -> ResearchSession:
        """The episode under way."""
        if self._session is None:
            raise ResetNeeded("call reset() first")
        return self._session

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

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seeds the choice of tasks and everything random in the episodes.
            options: ``{"task_id": id}`` chooses the task.
        """
        super().reset(seed=seed)
        unknown = set(options or {}) - {"task_id"}
        if unknown:
            raise ValueError(f"reset: unknown options {sorted(unknown)}; the only one is 'task_id'")
        # Both draws happen whether or not a task is named, so that naming one changes nothing else.
        drawn = self.tasks[int(self.np_random.integers(len(self.tasks)))]
        episode_seed = int(self.np_random.integers(2**31))
        task_id = (options or {}).get("task_id")
        if task_id is not None and task_id not in self._index:
            raise ValueError(
                f"reset: there is no task {task_id!r} among the {len(self.tasks)} tasks of this environment"
            )
        task = drawn if task_id is None else self._index[task_id]
        session = self.setting.session(task, episode_seed, belief=self.belief)
        opening = portal().run(session.start())
        if session.done:
            raise RuntimeError(f"the episode could not start ({session.episode.end}); the log tells why")
        self._session = session
        self._show(opening)
        return opening[-1]["content"], self._info(opening, None, {})

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn."""
        if not isinstance(action, str):
            raise TypeError(f"an action is the text of a turn, a str; got {type(action).__name__}")
        if self.session.done:
            raise ResetNeeded(f"the episode has ended ({self.session.episode.end}); call reset()")
        outcome = portal().run(self.session.step(action))
        self._show(outcome.new_messages)
        reply = outcome.new_messages[-1]
        observation = reply["content"] if reply["role"] == "user" else ""
        terminated = outcome.end == "answered"
        info = self._info(outcome.new_messages, asdict(outcome.turn), outcome.reward_terms)
        return observation, outcome.reward, terminated, outcome.done and not terminated, info

    def render(self) -> str | None:  # type: ignore[override]
        """Return the conversation so far as text in mode ``ansi``; mode ``human`` prints as it goes."""
        if self.render_mode is None:
            gym.logger.warn("render() does nothing without a render_mode; pass render_mode='ansi' or 'human' to make()")
        return transcript(self.messages) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Forget the episode; may be called more than once."""
        self._session = None

    def __getstate__(self) -> dict[str, Any]:
        """State of a copy: its arguments and its random stream. It has no episode under way until it is reset."""
        kept = ("_arguments", "_np_random", "_np_random_seed", "spec")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["_arguments"])  # type: ignore[misc]
        self.__dict__.update(state)

    def _info(
        self, new_messages: list[Message], turn: dict[str, Any] | None, reward_terms: dict[str, float]
    ) -> dict[str, Any]:
        return {
            "task_id": self.session.task.id,
            "new_messages": new_messages,
            "turn": turn,
            "end": self.session.episode.end,
            "forced": self.session.episode.forced,
            "score": self.session.score,
            "reward_terms": reward_terms,
            "usage": asdict(self.session.episode.usage),
        }

    def _show(self, new_messages: list[Message]) -> None:
        if self.render_mode == "human":
            print(transcript(new_messages), flush=True)


def _absolute(spec: T) -> T | str:
    return str(Path(spec).absolute()) if isinstance(spec, str | Path) and spec != "embedded" else spec


def _open_tasks(tasks: str | Path | Sequence[Task], split: str | None) -> list[Task]:
    if not isinstance(tasks, str | Path):
        if not tasks:
            raise ValueError("tasks is an empty list; an environment needs at least one task")
        return list(tasks)
    loaded = load_tasks(tasks)
    return loaded if split is None else split_tasks(loaded, split, tasks)
