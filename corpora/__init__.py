"""Corpora that ship with Venus as compressed text; ``embedded`` is the default world of the environment."""

from importlib.resources import files
from pathlib import Path

EMBEDDED = Path(str(files("corpora") / "embedded"))
"""Folder of the embedded corpus: ``passages.jsonl.gz``, ``tasks.jsonl.gz``, ``README.md``, ``SOURCES.md``."""
