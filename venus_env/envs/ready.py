"""Coroutines under way, and what has become of them in the order in which they finished."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Work = Mapping[int, Callable[[], Coroutine[Any, Any, T]]]
"""What to run, by number. Functions, so that nothing half made is left over if it never comes to run."""


class ReadyQueue(Generic[T]):
    """Runs numbered coroutines and hands out the finished ones, longest-waiting first. For use on one event loop."""

    def __init__(self) -> None:
        self._running: dict[int, asyncio.Task[T]] = {}
        self._ready: deque[tuple[int, asyncio.Task[T]]] = deque()
        self._wanted = 0
        self._enough: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """Coroutines that are running, or finished and not taken yet."""
        return len(self._running) + len(self._ready)

    async def start(self, work: Work[T]) -> None:
        """Set coroutines running; each number at most once at a time."""
        for number, run in work.items():
            task = asyncio.create_task(run())
            self._running[number] = task
            task.add_done_callback(partial(self._finished, number))

    async def take(self, at_least: int, timeout_s: float | None = None) -> list[tuple[int, asyncio.Task[T]]]:
        """Wait until ``at_least`` have finished, or all if there are fewer, and take all that have.

        A failed one comes alone, so that raising its error loses nothing: the others stay for the next call, and one
        call may give fewer than were asked for.

        Raises:
            TimeoutError: None has finished within ``timeout_s`` seconds.
        """
        self._wanted = min(at_least, len(self))
        if len(self._ready) < self._wanted:
            self._enough = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._enough
            except TimeoutError:
                if not self._ready:
                    raise
            finally:
                self._enough = None
        taken: list[tuple[int, asyncio.Task[T]]] = []
        while self._ready:
            failed = error_of(self._ready[0][1]) is not None
            if failed and taken:
                break
            taken.append(self._ready.popleft())
            if failed:
                break
        return taken

    async def run_all(self, work: Work[T]) -> dict[int, asyncio.Task[T]]:
        """Run coroutines and wait for every one of them, failed ones included."""
        await self.start(work)
        done: dict[int, asyncio.Task[T]] = {}
        while len(done) < len(work):
            done.update(await self.take(len(work) - len(done)))
        return done

    async def cancel(self) -> None:
        """Cancel what is running, wait until it has stopped, and forget what has finished."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        self._ready.clear()

    def _finished(self, number: int, task: asyncio.Task[T]) -> None:
        del self._running[number]
        self._ready.append((number, task))
        if self._enough is not None and len(self._ready) >= self._wanted and not self._enough.done():
            self._enough.set_result(None)


def error_of(task: asyncio.Task[Any]) -> BaseException | None:
    """Why a finished task failed, None if it did not."""
    if task.cancelled():
        return RuntimeError("cancelled by something that it called, perhaps a tool")
    return task.exception()
