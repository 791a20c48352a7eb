"""A way from synchronous code to async tools that also works where an event loop is already running (Jupyter)."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

_PATIENCE_S = 5.0  # for a cancelled step to stop; code that swallows its cancellation may never


class LoopPortal:
    """An event loop in a background thread. Use :func:`portal`: one loop serves a whole process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="venus-env-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` on the background loop and wait for its result.

        Raises:
            RuntimeError: Called from the background loop itself, which would wait for ever.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(
                "a synchronous environment cannot be stepped from inside its own tools; drive a ResearchSession instead"
            )
        over = threading.Event()

        async def until_over() -> T:
            try:
                return await coroutine
            finally:
                over.set()

        future = asyncio.run_coroutine_threadsafe(until_over(), self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():  # Ctrl-C must not leave the step running behind the caller's back
                future.cancel()
                over.wait(_PATIENCE_S)
            raise

    def _serve(self) -> None:
        """Run the loop for good: asyncio leaves it when a task raises one of these, having handed the error on."""
        while True:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                logger.exception("code on the event loop of the environments tried to stop the process")


_portal: LoopPortal | None = None
_lock = threading.Lock()


def portal() -> LoopPortal:
    """Return this process's portal, made on first use so that importing and forking cost nothing."""
    global _portal
    with _lock:
        if _portal is None:
            _portal = LoopPortal()
        return _portal


def _forget() -> None:
    """Start over in a forked child: threads do not survive a fork, and the lock may have been held."""
    global _portal, _lock
    _portal = None
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
