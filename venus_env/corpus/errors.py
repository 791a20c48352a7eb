"""What can go wrong with a corpus, by name."""

from __future__ import annotations


class CorpusError(Exception):
    """A corpus cannot be read, built or opened; the message names the file and the fix."""


class CorpusDamaged(CorpusError):
    """An index exists but must not be used: a file is missing or changed, or another version wrote it."""
