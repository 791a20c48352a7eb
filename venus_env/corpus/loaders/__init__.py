"""Readers of everything that a corpus can be built from."""

from venus_env.corpus.loaders.document import URL_BASE, BadInput, Document, MissingExtra, Section
from venus_env.corpus.loaders.plan import FORMATS, Plan, plan_input

__all__ = ["FORMATS", "URL_BASE", "BadInput", "Document", "MissingExtra", "Plan", "Section", "plan_input"]
