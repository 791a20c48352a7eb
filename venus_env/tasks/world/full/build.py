"""Writes the full world: passages, tasks, provenance; the same packages and seed give the same bytes."""

from __future__ import annotations

import gzip
import json
import logging
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from venus_env.corpus import open_corpus
from venus_env.corpus.rows import passage_record
from venus_env.tasks.task import Task
from venus_env.tasks.world.difficulty import measure
from venus_env.tasks.world.full.choose import choose_tasks
from venus_env.tasks.world.full.readme import counts, readme, sources
from venus_env.tasks.world.full.world import World, real_world
from venus_env.tasks.world.questions import SPLITS
from venus_env.tasks.world.sources import BASEBALL, PACKAGES, versions

PASSAGES = ("passages.jsonl.gz", "passages-sharealike.jsonl.gz")
TASKS = ("tasks.jsonl.gz", "tasks-sharealike.jsonl.gz")
"""Files of the corpus and of the questions; in the second of each stands all that is under a share-alike licence."""

ORACLE_EPISODES = 500
"""Test questions that the oracle plays in each of its styles."""

logger = logging.getLogger(__name__)


def build_full(out: Path, seed: int = 0, *, measured: bool = True) -> dict[str, Any]:
    """Write passages, tasks, ``SOURCES.md`` and, from measurements, ``difficulty.json`` and ``README.md`` into ``out``.

    Args:
        out: Folder to write to.
        seed: Fixes splits, wording and the choice of questions.
        measured: Measure the questions; that takes longer than to make them.

    Returns:
        Counts of what was written.

    Raises:
        MissingSource: A fact package is not installed.
    """
    world = real_world(seed)
    logger.info("%d pages; choosing questions", len(world.pages))
    tasks = []
    for split in tqdm(SPLITS, desc="questions", unit="split", disable=None):
        tasks += choose_tasks(world, split, seed)
    tasks = write(out, world, tasks)
    (out / "SOURCES.md").write_text(sources(versions((*PACKAGES, BASEBALL)), seed), encoding="utf-8")
    held = counts(world, tasks)
    if measured:
        figures = {"seed": seed, "counts": held, **_measure(out, tasks, seed)}
        (out / "difficulty.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        (out / "README.md").write_text(readme(figures), encoding="utf-8")
    return held


def _measure(out: Path, tasks: list[Task], seed: int) -> dict[str, Any]:
    """Index the passages in a temporary folder and measure the test questions on them."""
    train, test = ([task for task in tasks if task.split == split] for split in ("train", "test"))
    with tempfile.TemporaryDirectory() as folder:
        joined = Path(folder) / "full.jsonl.gz"
        joined.write_bytes(b"".join((out / name).read_bytes() for name in PASSAGES))
        corpus = open_corpus(joined, cache_dir=folder)
        return measure(corpus, train, test, oracle_episodes=ORACLE_EPISODES, seed=seed)


def write(out: Path, world: World, tasks: Iterable[Task]) -> list[Task]:
    """Write the files of a world; returns the tasks in the order of the files.

    A task is share-alike if any page of its gold path is, since its evidence quotes that page.
    """
    out.mkdir(parents=True, exist_ok=True)
    shared = {page.url for page in world.pages.values() if page.sharealike}
    by_licence: tuple[list[Task], list[Task]] = ([], [])
    for task in tasks:
        by_licence[any(step.url in shared for step in task.evidence)].append(task)
    for sharealike in (False, True):
        pages = (page for page in world.pages.values() if page.sharealike == sharealike)
        records = (passage_record(passage) for page in pages for passage in page.passages())
        write_rows(out / PASSAGES[sharealike], records)
        write_rows(out / TASKS[sharealike], (task.record() for task in by_licence[sharealike]))
    return [*by_licence[0], *by_licence[1]]


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write gzipped JSON lines without name or time in the header, so that equal rows give equal bytes."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=9, mtime=0) as file:
        file.write(text.encode("utf-8"))
