"""A run folder: where each stage writes, which stages are finished, and with what they were made.

::

    RUN/config.yaml            the resolved configuration
    RUN/model/                 the policy that training started from
    RUN/data/                  oracle-*/trajectories.jsonl, sft-*/sft.parquet, each with its report.json
    RUN/sft/  RUN/rl/          checkpoints/, model/, metrics.jsonl, log.txt (rl also trajectories/)
    RUN/eval/                  one card and one trajectory file per evaluated checkpoint
    RUN/result.json  RUN/curve.png

A stage is finished when its folder holds ``finished.json``. That file names the fingerprint of everything the stage
depended on; asking for the same stage with other settings is refused instead of mixing two runs in one folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from venus_env.evaluation.card import write_text_atomic
from venus_rl.config import Config, ConfigError

MARKER = "finished.json"


def fingerprint(*parts: Any) -> str:
    """Short hash of JSON-able values."""
    text = json.dumps(parts, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class RunFolder:
    """Paths and stage markers of one run.

    Args:
        config: The run's configuration; ``config.run.dir`` is made if absent.

    Attributes:
        lock: File descriptor of the lock inside of :meth:`locked`, else None.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.root = config.run.dir
        self.lock: int | None = None
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"run.dir={self.root}: cannot make this folder ({error.strerror})") from error

    @contextmanager
    def locked(self, patience_s: float = 30.0) -> Iterator[None]:
        """Keep other commands out of the folder.

        What a killed command left running ends within seconds and holds the lock until then, so this waits a little.

        Args:
            patience_s: How long to wait.

        Raises:
            ConfigError: Another command is working in the folder.
        """
        with (self.root / ".lock").open("a") as file:
            deadline = time.monotonic() + patience_s
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise ConfigError(
                            f"run.dir={self.root}: another command is working in this folder; "
                            "wait until it has ended, or choose another run.dir"
                        ) from None
                    time.sleep(0.2)
            self.lock = file.fileno()
            try:
                yield
            finally:
                self.lock = None

    def stage(self, name: str) -> Path:
        """Folder of a stage, made if absent."""
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def save_config(self) -> None:
        """Write the resolved configuration as YAML and as the JSON that stage processes read."""
        from omegaconf import OmegaConf

        values = self.config.model_dump(mode="json")
        write_text_atomic(self.root / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(values)))
        write_text_atomic(self.root / "config.json", json.dumps(values, indent=1))

    def finished(self, name: str, key: str) -> dict[str, Any] | None:
        """Return what :meth:`finish` stored for stage ``name``, or None when it is still to be done.

        Args:
            name: Stage folder.
            key: Fingerprint of what the stage depends on.

        Raises:
            ConfigError: The folder holds this stage, finished or begun, with other settings.
        """
        for file in (MARKER, "begun.json"):
            path = self.root / name / file
            if path.exists():
                stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
                if stored["fingerprint"] != key:
                    raise ConfigError(
                        f"{self.root / name} was made with other settings: choose another run.dir, "
                        f"or delete that folder to make the stage '{name}' anew"
                    )
                if file == MARKER:
                    return stored
        return None

    def begin(self, name: str, key: str) -> Path:
        """Mark stage ``name`` as begun and return its folder."""
        path = self.stage(name)
        write_text_atomic(path / "begun.json", json.dumps({"fingerprint": key}))
        return path

    def finish(self, name: str, key: str, seconds: float, **facts: Any) -> dict[str, Any]:
        """Mark stage ``name`` as finished; ``facts`` are kept beside the fingerprint and the seconds it took."""
        stored = {
            "fingerprint": key,
            "seconds": round(seconds, 1),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            **facts,
        }
        write_text_atomic(self.root / name / MARKER, json.dumps(stored, indent=1))
        return stored
