"""Searchable, readable collections of pages, and their indexes on disk."""

from venus_env.corpus.document import Corpus, Hit, Page, Passage
from venus_env.corpus.errors import CorpusDamaged, CorpusError
from venus_env.corpus.local import LocalCorpus
from venus_env.corpus.open import open_corpus

__all__ = ["Corpus", "CorpusDamaged", "CorpusError", "Hit", "LocalCorpus", "Page", "Passage", "open_corpus"]
