import asyncio
import os
import threading
import time

import pytest

from venus_env.envs.portal import portal


async def double(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


def test_one_portal_serves_the_process() -> None:
    assert portal() is portal()
    assert portal().run(double(2)) == 4


async def test_works_while_a_loop_is_running() -> None:
    assert portal().run(double(3)) == 6


def test_exceptions_come_through() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        portal().run(fail())


def test_refuses_to_wait_for_itself() -> None:
    async def nested() -> int:
        return portal().run(double(1))

    with pytest.raises(RuntimeError, match="ResearchSession"):
        portal().run(nested())


def test_many_threads() -> None:
    results: list[int] = []
    threads = [threading.Thread(target=lambda i=i: results.append(portal().run(double(i)))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 2, 4, 6, 8, 10, 12, 14]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_gets_a_loop_of_its_own() -> None:
    portal().run(double(1))
    child = os.fork()
    if child == 0:
        os._exit(portal().run(double(21)))
    deadline = time.monotonic() + 10
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 42
