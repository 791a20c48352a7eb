"""Writes the embedded corpus, its questions and its provenance; the same packages and seed give the same text."""

from __future__ import annotations

import gzip
import json
import logging
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Any

from venus_env.tasks.task import Task
from venus_env.tasks.world.elements import chemistry
from venus_env.tasks.world.export import passages
from venus_env.tasks.world.geography import geography
from venus_env.tasks.world.graph import World
from venus_env.tasks.world.questions import SPLITS, assign_splits, choose_tasks
from venus_env.tasks.world.readme import readme, sources
from venus_env.tasks.world.sources import read_packages, versions

SOURCE = "venus-world"

logger = logging.getLogger(__name__)


def real_world(seed: int) -> World:
    """The world of real facts from the installed packages, with splits assigned."""
    raw = read_packages()
    places = geography(raw)
    home_of = {item.entity.name: str(item.home) for item in places if item.entity.kind == "country"}
    chemicals = chemistry(raw, home_of)
    taken = {item.entity.name.casefold() for item in chemicals}
    countries = [item for item in places if item.entity.kind == "country"]
    others = [item for item in places if item.entity.kind != "country" and item.entity.name.casefold() not in taken]
    rng = random.Random(f"{seed}/splits")
    return World(assign_splits([*countries, *chemicals, *others], rng), seed)


def build(out: FilePath, seed: int = 0) -> dict[str, Any]:
    """Write ``passages.jsonl.gz``, ``tasks.jsonl.gz``, ``README.md`` and ``SOURCES.md`` into ``out``.

    Returns:
        Counts of what was written.
    """
    world = real_world(seed)
    tasks: list[Task] = []
    for split in SPLITS:
        tasks += choose_tasks(world, split, random.Random(f"{seed}/questions/{split}"), SOURCE)
    out.mkdir(parents=True, exist_ok=True)
    pages = passages(world)
    lengths = [len(page.text.split()) for page in pages]
    _write(out / "passages.jsonl.gz", ({k: v for k, v in asdict(page).items() if v is not None} for page in pages))
    _write(out / "tasks.jsonl.gz", (task.record() for task in tasks))
    counts = {
        "pages": len(pages),
        "words": [min(lengths), max(lengths)],
        "kinds": dict(sorted(Counter(entity.kind for entity in world.entities.values()).items())),
        "tasks": {split: sum(task.split == split for task in tasks) for split in SPLITS},
        "hops": {
            split: dict(sorted(Counter(task.hops for task in tasks if task.split == split).items())) for split in SPLITS
        },
    }
    (out / "README.md").write_text(readme(counts, tasks[0], world.text(tasks[0].evidence[0].title)), encoding="utf-8")
    (out / "SOURCES.md").write_text(sources(versions(), seed), encoding="utf-8")
    logger.info("wrote %s: %s", out, json.dumps(counts))
    return counts


def _write(path: FilePath, rows: Iterable[dict[str, Any]]) -> None:
    """Write gzipped JSON lines without name or time in the header, so that equal rows give equal bytes."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=9, mtime=0) as file:
        file.write(text.encode("utf-8"))
