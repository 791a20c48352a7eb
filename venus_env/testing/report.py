"""What a conformance check has found: named checks that passed, failed, raised a doubt or did not apply."""

from __future__ import annotations

import asyncio
import inspect
import re
import reprlib
import textwrap
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

DECLARE = "declare it (nondeterministic=True, --nondeterministic)"
"""The way out for what cannot be deterministic, as messages put it."""

UNCOMPARED = "not compared: needs determinism"
"""Why results stay uncompared where equal inputs do not give equal results."""

Status = Literal["passed", "failed", "warning", "skipped"]

_MARKS: dict[Status, str] = {"passed": "✓", "failed": "✗", "warning": "!", "skipped": "-"}
_SHOWN = 4  # names on the line that stands for several skipped checks
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 120


class ConformanceError(AssertionError):
    """Something does not keep its contract; the message is the list of failed checks."""


class Failed(Exception):
    """Ends a check: the contract is broken. The message says what was expected, what came, and the fix."""


class Doubtful(Exception):
    """Ends a check: the contract is kept, but hardly anybody would want this."""


class NotApplicable(Exception):
    """Ends a check: there is nothing to check here; the message says why."""


def expect(condition: bool, message: str) -> None:
    """Fail the check under way unless ``condition`` holds."""
    if not condition:
        raise Failed(message)


def require_object(thing: object, check: str) -> None:
    """Refuse a class where an object of it is meant; it has the same methods, so the checks would mislead.

    Raises:
        TypeError: ``thing`` is a class.
    """
    if isinstance(thing, type):
        raise TypeError(f"{check}: got the class {thing.__name__}; pass an object, such as {thing.__name__}()")


def short(value: object) -> str:
    """A representation of bounded length, for messages."""
    return _REPR.repr(value)


@dataclass(frozen=True, slots=True)
class Check:
    """One check and how it ended.

    Attributes:
        name: What was checked.
        status: ``failed`` breaks the contract, ``warning`` does not, ``skipped`` could not be looked at.
        message: What was expected, what came, and how to fix it; for a passed check a remark, or nothing.
    """

    name: str
    status: Status
    message: str = ""


class Report:
    """Checks of one thing, in the order in which they ran.

    Attributes:
        subject: What was checked.
        checks: The checks.

    Args:
        subject: What is checked.
        timeout_s: Seconds after which an asynchronous check is given up as failed.
    """

    def __init__(self, subject: str, timeout_s: float = 60.0) -> None:
        self.subject = subject
        self.checks: list[Check] = []
        self._timeout_s = timeout_s

    @property
    def ok(self) -> bool:
        """Whether nothing failed; warnings do not count."""
        return not self.named("failed")

    def named(self, status: Status) -> list[str]:
        """Names of the checks that ended with ``status``."""
        return [check.name for check in self.checks if check.status == status]

    def raise_if_failed(self) -> None:
        """Raise for the benefit of a test.

        Raises:
            ConformanceError: A check failed.
        """
        if not self.ok:
            failed = [line for check in self.checks if check.status == "failed" for line in _lines(check)]
            raise ConformanceError("\n".join([self.subject, *failed]))

    def record(self) -> dict[str, Any]:
        """This report as a JSON value."""
        return {"subject": self.subject, "ok": self.ok, "checks": [asdict(check) for check in self.checks]}

    def __str__(self) -> str:
        count = Counter(check.status for check in self.checks)
        total = ", ".join(f"{count[status]} {status}" for status in _MARKS if count[status])
        return "\n".join([self.subject, *_all_lines(self.checks), f"{len(self.checks)} checks: {total}"])

    def run(self, name: str, body: Callable[..., str | None], *args: Any, needs: Iterable[str] = ()) -> None:
        """Run one check on the calling thread.

        Args:
            name: Its name.
            body: Raises :class:`Failed`, :class:`Doubtful` or :class:`NotApplicable`; any other exception is a failure
                of what is checked. May return a remark.
            *args: Arguments of ``body``.
            needs: Checks without whose success this one makes no sense.
        """
        if self._possible(name, needs):
            try:
                self._add(name, "passed", body(*args) or "")
            except Exception as error:
                self._add_error(name, error)

    async def run_async(
        self,
        name: str,
        body: Callable[..., Awaitable[str | None] | str | None],
        *args: Any,
        needs: Iterable[str] = (),
    ) -> None:
        """Run one check that may be a coroutine function; otherwise like :meth:`run`."""
        if self._possible(name, needs):
            try:
                remark = body(*args)
                if inspect.isawaitable(remark):
                    remark = await _within(self._timeout_s, remark)
                self._add(name, "passed", remark or "")
            except Exception as error:
                self._add_error(name, error)

    def _possible(self, name: str, needs: Iterable[str]) -> bool:
        succeeded = {*self.named("passed"), *self.named("warning")}
        missing = [need for need in needs if need not in succeeded]
        if missing:
            self._add(name, "skipped", f"needs {', '.join(missing)}")
        return not missing

    def _add_error(self, name: str, error: Exception) -> None:
        if isinstance(error, Failed):
            self._add(name, "failed", str(error))
        elif isinstance(error, Doubtful):
            self._add(name, "warning", str(error))
        elif isinstance(error, NotApplicable):
            self._add(name, "skipped", str(error))
        else:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno} in {place.name}"
            self._add(name, "failed", f"raised {type(error).__name__}: {short(str(error))[1:-1]} ({where})")

    def _add(self, name: str, status: Status, message: str) -> None:
        self.checks.append(Check(name, status, message))


async def _within(seconds: float, work: Awaitable[str | None]) -> str | None:
    """Await ``work``, or leave it behind: what hangs may not heed a cancellation either."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    expect(bool(done), f"did not finish within {seconds:g} s; find what hangs, or allow more (timeout_s=, in Python)")
    expect(not task.cancelled(), "ended as cancelled, though nobody had cancelled it")
    return task.result()


def _all_lines(checks: Sequence[Check]) -> Iterator[str]:
    """Checks that were skipped in a row for one reason share a line, so that they do not bury what failed."""
    for (status, message), group in groupby(checks, key=lambda check: (check.status, check.message)):
        run = list(group)
        if status == "skipped" and len(run) > 1:
            reason = re.sub(r"^needs ", "need ", " ".join(message.split()))
            names = ", ".join([check.name for check in run[:_SHOWN]] + ["…"] * (len(run) > _SHOWN))
            yield f"  {_MARKS[status]} {len(run)} skipped ({reason}): {names}"
        else:
            for check in run:
                yield from _lines(check)


def _lines(check: Check) -> list[str]:
    message = textwrap.indent(check.message, "      ").splitlines() if check.message else []
    return [f"  {_MARKS[check.status]} {check.name}", *message]
