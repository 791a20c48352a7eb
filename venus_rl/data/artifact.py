"""Content-addressed results of data stages: no inputs are worked on twice, and no half result is ever seen."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from filelock import FileLock

logger = logging.getLogger(__name__)

_REPORT = "report.json"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A finished result of a stage.

    Attributes:
        path: Its folder; never changed again once it exists.
        report: What the stage reported, also in ``report.json`` there.
        reused: It was there already and nothing had to be done.
    """

    path: Path
    report: dict[str, Any]
    reused: bool


def produce(out: Path, stage: str, inputs: Mapping[str, Any], build: Callable[[Path], Mapping[str, Any]]) -> Artifact:
    """Return the folder that belongs to ``inputs``, building it if it does not exist.

    The folder appears in one step when everything in it is written. Two processes that ask at the same time build once.
    A result whose report says ``complete: false`` is useful, but built again the next time.

    Args:
        out: Where results of this kind live.
        stage: Name of the stage; starts the folder's name.
        inputs: All that the result depends on, as plain JSON values; files by their :func:`file_hash`.
        build: Writes the result into the folder that it is given and returns the report.
    """
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
    folder = out / f"{stage}-{digest[:16]}"
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / f".{folder.name}.lock"):
        if (folder / _REPORT).is_file():
            report = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
            if report.get("complete", True):
                logger.info("%s: reusing %s", stage, folder)
                return Artifact(folder, report, reused=True)
        for left_over in out.glob(f".{folder.name}.*.tmp"):  # a killed run's; we hold the lock
            shutil.rmtree(left_over)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=out))
        try:
            report = {"stage": stage, "inputs": dict(inputs), **build(work)}
            (work / _REPORT).write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            if folder.exists():  # incomplete
                folder.rename(work.with_suffix(".old.tmp"))
            os.replace(work, folder)
            shutil.rmtree(work.with_suffix(".old.tmp"), ignore_errors=True)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
    return Artifact(folder, report, reused=False)


def file_hash(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_hash(*modules: ModuleType) -> str:
    """Hash of the source of modules and whole packages: a result made by other code is another result."""
    digest = hashlib.sha256()
    for module in modules:
        path = Path(str(module.__file__))
        for file in sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]:
            digest.update(f"{module.__name__} {file.relative_to(path.parent)}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def summary(values: Sequence[int]) -> dict[str, float]:
    """Minimum, median, 90th percentile, maximum and mean, for reports."""
    quantiles = np.quantile(values, [0, 0.5, 0.9, 1])
    named = dict(zip(("min", "median", "p90", "max"), map(float, quantiles), strict=True))
    return {**named, "mean": float(np.mean(values))}
