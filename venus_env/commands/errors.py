"""What a command does about input that it cannot work with: one line that names the fix, and exit status 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from venus_env.corpus.errors import CorpusError


class CommandError(Exception):
    """Input that a command cannot work with; the message names it and the fix."""


@contextmanager
def named_errors() -> Iterator[None]:
    """Turn the errors that wrong input leads to into a :class:`CommandError` of one line.

    Only for code that fails in these ways because of what the user gave: elsewhere a traceback says more.
    """
    try:
        yield
    except BrokenPipeError:  # the reader of our output has seen enough: the main program's affair
        raise
    except ValidationError as error:
        raise CommandError(f"{error.title}: {first_problem(error)}") from error
    except (CorpusError, ImportError, OSError, ValueError) as error:
        raise CommandError(" ".join(f"{type(error).__name__}: {error}".split())) from error


def first_problem(error: ValidationError) -> str:
    """Name the first field that is wrong, and what is wrong with it."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    return f"{field}: {first['msg']}, got {first['input']!r}" if field else first["msg"]
