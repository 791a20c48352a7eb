"""Running a function over many inputs in several processes, in order and with bounded memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing.connection import wait
from typing import TypeVar

from venus_env.corpus.errors import CorpusError

Item = TypeVar("Item")
Result = TypeVar("Result")


def usable_cores() -> int:
    """Number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Generator[Result, None, None]:
    """Apply a function to items, giving results in the order of the items.

    At most two items per worker are under way at any time. With one worker, or one item, it runs in this process.

    Args:
        function: Picklable where there are several workers.
        items: Inputs; read as they are needed.
        workers: Number of processes. They start afresh (``spawn``), so a script that asks for several needs the usual
            ``if __name__ == "__main__":``.

    Raises:
        CorpusError: A worker was killed.
    """
    items = iter(items)
    head = list(islice(items, 2))
    if workers == 1 or len(head) < 2:
        yield from map(function, chain(head, items))
        return
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_prepare_worker)
    pending: deque[Future[Result]] = deque()
    try:
        for item in chain(head, items):
            pending.append(pool.submit(function, item))
            if len(pending) == 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise CorpusError(
            "a worker process died: out of memory, or an input that crashes its reader; "
            "run again, what is finished is kept; with one worker the crash shows its input"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _prepare_worker() -> None:
    """Leave Ctrl-C to the parent, and end when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
