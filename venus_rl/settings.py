"""Settings of a program, defined by a pydantic model: YAML through OmegaConf, ``key=value`` overrides, ``--help``.

An unknown key stops the program and names the nearest valid one. Precedence: defaults < ``--config`` file < command
line.
"""

from __future__ import annotations

import difflib
import inspect
import re
import typing
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo


class ConfigError(ValueError):
    """A configuration that cannot run; the message names the key and the fix."""


_Settings = TypeVar("_Settings", bound=BaseModel)


def load_settings(schema: type[_Settings], path: Path | None, overrides: list[str]) -> _Settings:
    """Merge file and ``key=value`` overrides into a validated configuration.

    Args:
        schema: The pydantic model that defines the keys.
        path: YAML file, or None for the defaults.
        overrides: ``group.key=value`` strings; values are YAML (``null``, ``[1, 2]``, ``1e-4``).

    Raises:
        ConfigError: Unreadable file, unknown key (with the nearest valid one), or invalid value (with its key).
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    merged = OmegaConf.create({})
    try:
        if path is not None:
            if not path.is_file():
                raise ConfigError(f"--config {path}: no such file")
            merged = OmegaConf.load(path)  # type: ignore[assignment]
        for override in overrides:
            if "=" not in override or override.startswith("-"):
                raise ConfigError(f"argument {override!r} is not key=value, e.g. rl.steps=20 (see --help)")
        merged = OmegaConf.merge(merged, OmegaConf.from_dotlist(overrides))  # type: ignore[assignment]
        values = OmegaConf.to_container(merged, resolve=True)
    except (OmegaConfBaseException, YAMLError, OSError, UnicodeDecodeError, IndexError) as error:
        # The last comes from OmegaConf 2.3 for a key such as "[".
        place = f"--config {path}" if path is not None else "arguments"
        raise ConfigError(f"{place}: cannot read the configuration: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"--config {path}: expected a mapping of groups, got {type(values).__name__}")
    known = [key for key, _, _ in describe_keys(schema)]
    _check_keys(schema, values, "", known)
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        lines = [
            f"{'.'.join(str(part) for part in e['loc']) or 'config'}: {e['msg']} (got {e['input']!r})"
            for e in error.errors()
        ]
        raise ConfigError("invalid configuration:\n  " + "\n  ".join(lines)) from error


def describe_keys(schema: type[BaseModel]) -> list[tuple[str, str, str]]:
    """Return ``(key, default, description)`` for every key, in schema order."""
    return list(_walk(schema, ""))


def key_help(schema: type[BaseModel]) -> str:
    """All keys with defaults and meanings, as ``--help`` prints them."""
    rows = describe_keys(schema)
    width = max(len(f"{key}={default}") for key, default, _ in rows)
    lines = [f"  {key + '=' + default:<{min(width, 44)}}  {text}" for key, default, text in rows]
    return "settings (key=default):\n" + "\n".join(lines)


def _walk(model: type[BaseModel], prefix: str) -> typing.Iterator[tuple[str, str, str]]:
    documented = _attribute_docs(model)
    for name, info in model.model_fields.items():
        description = info.description or documented.get(name, "")
        nested = _nested_model(info)
        if nested is not None:
            if info.default is None:  # an optional group such as model.init
                yield f"{prefix}{name}", "null", description
            yield from _walk(nested, f"{prefix}{name}.")
        else:
            default = info.get_default(call_default_factory=True)
            written = list(default) if isinstance(default, tuple) else default  # as YAML has it
            shown = "null" if written is None else str(written).replace("\n", "\\n")
            yield f"{prefix}{name}", shown, description


def _attribute_docs(model: type[BaseModel]) -> dict[str, str]:
    """Descriptions from the ``Attributes:`` sections of a model's docstring and of those it inherits from."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        _, _, section = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")
        entries = re.findall(r"^    (\w+): (.+(?:\n        .+)*)", section, flags=re.MULTILINE)
        found |= {name: " ".join(text.split()) for name, text in entries}
    return found


def _nested_model(info: FieldInfo) -> type[BaseModel] | None:
    for candidate in (info.annotation, *typing.get_args(info.annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _check_keys(model: type[BaseModel], values: dict[Any, Any], prefix: str, known: list[str]) -> None:
    for key, value in values.items():
        full = f"{prefix}{key}"
        if key not in model.model_fields:
            raise ConfigError(f"unknown key '{full}'; {_suggest(full, str(key), known)} (--help lists all keys)")
        info = model.model_fields[key]
        nested = _nested_model(info)
        if nested is not None and isinstance(value, dict):
            _check_keys(nested, value, f"{full}.", known)
        elif nested is not None and value is not None and float not in typing.get_args(info.annotation):
            raise ConfigError(
                f"'{full}' is a group; set one of its keys, e.g. {full}.{next(iter(nested.model_fields))}=…"
            )


def _suggest(full: str, leaf: str, known: list[str]) -> str:
    same_leaf = [key for key in known if key.rsplit(".", 1)[-1] == leaf]
    nearest = difflib.get_close_matches(full, known, n=1, cutoff=0.5) or same_leaf
    nearest = nearest or [key for key in known if difflib.get_close_matches(leaf, [key.rsplit(".", 1)[-1]], cutoff=0.6)]
    return f"did you mean '{nearest[0]}'?" if nearest else "no key is similar"
