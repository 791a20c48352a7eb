"""Objects that users bring from modules of their own, named ``module:attribute``."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import os
import sys
from types import ModuleType
from typing import Any


def load_object(spec: str, what: str) -> Any:
    """Load the object that ``module:attribute`` names.

    Modules in the working directory are found, too. A class, or a function that makes the object, is called without
    arguments; anything else is returned as it is, callable or not (a tool is an object that can be called).

    Args:
        spec: ``module:attribute``; the attribute may have dots.
        what: What the object is for, as messages name it: ``policy``, ``--judge``.

    Raises:
        ValueError: There is no such module or attribute, or the import or the call fails; the message names it and
            the fix.
    """
    module_name, _, path = spec.partition(":")
    if not module_name or not path or module_name.startswith("."):
        raise ValueError(f"{what} {spec!r}: expected module:attribute, such as my_package.my_module:MyClass")
    found: Any = _import(module_name, f"{what} {spec!r}")
    place = f"module {module_name!r}"
    for name in path.split("."):
        found = _attribute(found, name, f"{what} {spec!r}: {place}")
        place = repr(name)
    if not (inspect.isclass(found) or inspect.isroutine(found) or isinstance(found, functools.partial)):
        return found
    try:
        made = found()
    except Exception as error:  # whatever the user's own code does
        raise ValueError(
            f"{what} {spec!r}: calling {path}() without arguments failed: {type(error).__name__}: {_line(error)}; "
            "name an object, or a function without arguments that makes one"
        ) from error
    if inspect.iscoroutine(made):
        made.close()
        raise ValueError(f"{what} {spec!r}: {path} is a coroutine function; make it a plain function or name an object")
    return made


def _import(name: str, where: str) -> ModuleType:
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # the module may have been written a moment ago
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise ValueError(f"{where}: importing {name!r} failed: {_line(error)}; install it") from error
        raise ValueError(
            f"{where}: there is no module {error.name!r}, neither installed nor in {folder}; write it with dots and "
            "without .py, and run from the folder that holds it"
        ) from error
    except (Exception, SystemExit) as error:  # whatever the user's module does when it is imported
        raise ValueError(f"{where}: importing {name!r} failed: {type(error).__name__}: {_line(error)}") from error


def _attribute(owner: Any, name: str, where: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as error:
        public = [known for known in dir(owner) if not known.startswith("_")]
        near = difflib.get_close_matches(name, public, n=1)
        own = [known for known in public if not _is_imported(owner, known)]
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(own[:20]) or 'no public names'}"
        raise ValueError(f"{where} has no attribute {name!r}; {hint}") from error


def _is_imported(owner: Any, name: str) -> bool:
    """Whether a module has only imported this module, class or function, which is hardly what was meant."""
    value = getattr(owner, name, None)
    defined_here = getattr(value, "__module__", None) == getattr(owner, "__name__", None)
    named = inspect.isclass(value) or inspect.isroutine(value)
    return inspect.ismodule(owner) and (inspect.ismodule(value) or (named and not defined_here))


def _line(error: BaseException) -> str:
    """The message of an error on one line."""
    return " ".join(str(error).split())
