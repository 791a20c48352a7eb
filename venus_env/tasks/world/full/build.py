"""Writes the full world: passages, tasks, provenance; the same packages and seed give the same bytes."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from venus_env.corpus.rows import passage_record
from venus_env.tasks.task import Task
from venus_env.tasks.world.full.choose import choose_tasks
from venus_env.tasks.world.full.world import World, real_world
from venus_env.tasks.world.questions import SPLITS

PASSAGES = ("passages.jsonl.gz", "passages-sharealike.jsonl.gz")
TASKS = ("tasks.jsonl.gz", "tasks-sharealike.jsonl.gz")
"""Files of the corpus and of the questions; in the second of each stands all that is under a share-alike licence."""

logger = logging.getLogger(__name__)


def build_full(out: Path, seed: int = 0) -> tuple[World, list[Task]]:
    """Write passages and tasks into ``out``.

    Returns:
        The world and its tasks, in the order of the files.

    Raises:
        MissingSource: A fact package is not installed.
    """
    world = real_world(seed)
    logger.info("%d pages; choosing questions", len(world.pages))
    tasks = [
        task for split in tqdm(SPLITS, desc="questions", unit="split", disable=None) for task in choose_tasks(world, split, seed)
    ]
    return world, write(out, world, tasks)


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
