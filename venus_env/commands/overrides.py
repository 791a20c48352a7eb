"""Settings from the command line: ``key=value`` pairs over a pydantic model."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from venus_env.commands.errors import CommandError, first_problem

M = TypeVar("M", bound=BaseModel)


def apply_overrides(model: M, pairs: Sequence[str], option: str) -> M:
    """Return a copy of ``model`` with settings replaced.

    Args:
        model: The settings so far.
        pairs: ``key=value``, nested keys with dots; values are read as the type of their field, ``null`` as None.
        option: Name of the command-line option, for messages.

    Raises:
        CommandError: A pair has no ``=``, there is no such key (a close one is named, or else all), or a value does not
            fit.
    """
    values = model.model_dump()
    known = list(_keys(type(model)))
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CommandError(f"{option} {pair}: expected KEY=VALUE")
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"the nearest one is {near[0]!r}" if near else f"the settings are {', '.join(known)}"
            raise CommandError(f"{option} {pair}: there is no setting {key!r}; {hint}")
        group = values
        *parents, name = key.split(".")
        for parent in parents:
            group = group[parent]
        group[name] = None if value == "null" else value
    try:
        return type(model).model_validate(values)
    except ValidationError as error:
        raise CommandError(f"{option} {first_problem(error)}") from error


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name
