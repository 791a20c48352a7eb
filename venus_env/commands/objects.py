"""Policies, judges and beliefs that users bring from modules of their own, named ``module:attribute``."""

from __future__ import annotations

from typing import Any

from venus_env.beliefs.base import Belief, open_belief
from venus_env.beliefs.errors import BeliefError
from venus_env.commands.errors import CommandError
from venus_env.corpus.document import Corpus
from venus_env.plugins import load_object


def load_as(spec: str, option: str, *protocols: type) -> Any:
    """Load an object that satisfies one of ``protocols``; see :func:`venus_env.plugins.load_object`.

    Args:
        spec: ``module:attribute``: the object, its class, or a function that makes it.
        option: Name of the command-line option, for messages.
        *protocols: Runtime-checkable protocols.

    Raises:
        CommandError: There is no such object, or it is something else.
    """
    try:
        found = load_object(spec, option)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if not isinstance(found, protocols):
        wanted = " or ".join(protocol.__name__ for protocol in protocols)
        raise CommandError(f"{option} {spec!r}: this is {type(found).__name__}, which is no {wanted}")
    return found


def load_belief(name: str, corpus: Corpus | None = None) -> Belief | None:
    """Make the belief that ``--belief`` names.

    Args:
        name: ``none``, ``module:attribute``, or a spec of :func:`venus_env.beliefs.base.open_belief`.
        corpus: Background of the lexical belief.

    Raises:
        CommandError: There is no such object, it is no belief, or its server cannot be used.
        ValueError: The spec is unknown.
    """
    if name == "none":
        return None
    if ":" in name and not name.startswith(("hf:", "server:")):
        belief: Belief = load_as(name, "--belief", Belief)
        return belief
    opened = open_belief(name, corpus)
    # A model that cannot be loaded or reached is refused now, and not as a failure of every episode.
    if opened is not None and name.startswith("hf:"):
        opened.scorer()  # type: ignore[attr-defined]
    elif opened is not None and name.startswith("server:"):
        try:
            opened.reach()  # type: ignore[attr-defined]
        except BeliefError as error:
            raise CommandError(f"--belief {name}: {error}") from error
    return opened
