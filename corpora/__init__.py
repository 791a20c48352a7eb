"""Corpora that ship with Venus as compressed text: ``embedded``, the default world of the environment, and ``full``.

``full`` is larger and harder. What is under a share-alike licence stands in files of its own there; both files
together are the corpus.
"""

from importlib.resources import files
from pathlib import Path

EMBEDDED = Path(str(files("corpora") / "embedded"))
"""Folder of the embedded corpus: ``passages.jsonl.gz``, ``tasks.jsonl.gz``, ``README.md``, ``SOURCES.md``."""

FULL = Path(str(files("corpora") / "full"))
"""Folder of the full corpus: as above, with ``passages-sharealike.jsonl.gz`` and ``tasks-sharealike.jsonl.gz``."""

SHIPPED = {"embedded": EMBEDDED, "full": FULL}
"""Folders by the name that ``corpus=`` and ``tasks=`` take."""
