"""Everything an episode needs besides its task: corpus, tools, rules, rewards. Put together here and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from venus_env.beliefs.base import Belief
from venus_env.corpus import open_corpus
from venus_env.corpus.batching import BatchingCorpus
from venus_env.corpus.document import Corpus
from venus_env.protocol.config import EpisodeConfig
from venus_env.rewards.compose import RewardConfig
from venus_env.rewards.judge import Judge
from venus_env.seeding import derive_seed
from venus_env.session import ResearchSession, SessionState
from venus_env.tasks.loaders import load_tasks
from venus_env.tasks.task import Task
from venus_env.tools.base import Tool
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool

_TEST_SHARE = 4  # one in four tasks of a file without splits


class EnvConfig(EpisodeConfig):
    """An environment: rules of an episode, and the corpus, tools and rewards around it.

    Attributes:
        corpus: ``embedded``, ``full``, a passage file (.jsonl, .jsonl.gz) or an index folder.
        tasks: ``embedded``, ``full`` or a task file (.jsonl, .jsonl.gz, .parquet).
        tool_style: Layout of tool results: ``full`` is the method's, ``compact`` saves tokens for very small models.
        top_k: Search results per query.
        snippet_words: Words per search result.
        visit_tokens: Tokens that one visited page may fill.
        rewards: What is rewarded.
    """

    corpus: str = "embedded"
    tasks: str = "embedded"
    tool_style: Literal["full", "compact"] = "full"
    top_k: int = Field(10, ge=1)
    snippet_words: int = Field(40, ge=1)
    visit_tokens: int = Field(1000, ge=16)
    rewards: RewardConfig = RewardConfig()


@dataclass(frozen=True)
class Setting:
    """An opened :class:`EnvConfig`; any number of sessions share it.

    Attributes:
        config: As given.
        corpus: The opened corpus.
        tools: Search and visit over it.
    """

    config: EnvConfig
    corpus: Corpus
    tools: tuple[Tool, ...]

    @classmethod
    def open(cls, config: EnvConfig, *, corpus: Corpus | None = None) -> Setting:
        """Open the corpus (building its index if there is none) and make the tools.

        Args:
            config: The environment.
            corpus: An opened corpus, used in place of ``config.corpus``.
        """
        corpus = corpus if corpus is not None else open_corpus(config.corpus)
        search = SearchTool(
            BatchingCorpus(corpus),  # what many episodes search for at the same time is one search
            config.top_k,
            config.snippet_words,
            style="compact" if config.tool_style == "compact" else "json",
        )
        visit = VisitTool(corpus, config.visit_tokens, style=config.tool_style)
        return cls(config, corpus, (search, visit))

    def session(
        self,
        task: Task,
        seed: int | None = None,
        *,
        belief: Belief | None = None,
        judge: Judge | None = None,
        count_tokens: Callable[[str], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        state: SessionState | None = None,
    ) -> ResearchSession:
        """Make a session of one task; arguments as of :class:`ResearchSession`."""
        return ResearchSession(
            task,
            self.tools,
            config=self.config,
            rewards=self.config.rewards,
            belief=belief,
            judge=judge,
            seed=seed,
            count_tokens=count_tokens,
            clock=clock,
            state=state,
        )

    def tasks(self, split: str | None, count: int | None = None) -> list[Task]:
        """Return the tasks of one split.

        A file whose tasks name no split is divided by a hash of their ids: a quarter is ``test``, the rest ``train``.

        Args:
            split: Name of the split; None for all tasks of the file.
            count: How many of them, drawn by :func:`draw_tasks`; None for all of them, in file order.

        Raises:
            ValueError: The file has no task of that split, or fewer than ``count``.
        """
        tasks = load_tasks(self.config.tasks)
        if split is not None:
            tasks = split_tasks(tasks, split, self.config.tasks)
        return tasks if count is None else draw_tasks(tasks, count)


def draw_tasks(tasks: Sequence[Task], count: int) -> list[Task]:
    """Draw ``count`` tasks: the same ones every time, whoever plays them; a larger ``count`` adds to them.

    Files are often sorted by kind, so their first tasks are no fair choice; the order here is that of a hash of the id.

    Raises:
        ValueError: ``count`` is less than 1, or there are fewer tasks.
    """
    if not 1 <= count <= len(tasks):
        raise ValueError(f"count must be from 1 to {len(tasks)}, the number of tasks to draw from, got {count}")
    return sorted(tasks, key=lambda task: derive_seed("order", task.id))[:count]


def split_tasks(tasks: list[Task], split: str, source: str | Path) -> list[Task]:
    """Select the tasks of one split; see :meth:`Setting.tasks`."""
    named = any(task.split for task in tasks)
    splits = [task.split if named else _hashed_split(task) for task in tasks]
    selected = [task for task, own in zip(tasks, splits, strict=True) if own == split]
    if not selected:
        known = ", ".join(sorted({own for own in splits if own}))
        how = (
            "" if named else f" (its {len(tasks)} tasks name no split: a hash of the id makes one in four a test task)"
        )
        raise ValueError(f"{source} has no task of split {split!r}; it has {known}{how}")
    return selected


def _hashed_split(task: Task) -> str:
    return "test" if derive_seed("split", task.id) % _TEST_SHARE == 0 else "train"
