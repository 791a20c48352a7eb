from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from venus_env.corpus.errors import CorpusError
from venus_env.corpus.workers import ordered_map, usable_cores


def square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def die(number: int) -> int:
    if number == 3:
        os._exit(9)
    return number


def test_order_is_kept_and_input_is_read_as_needed() -> None:
    drawn = []

    def numbers() -> Iterator[int]:
        for number in range(30):
            drawn.append(number)
            yield number

    results = ordered_map(square, numbers(), 2)
    first = next(results)
    assert first[0] == 0
    assert len(drawn) <= 5
    assert [value for value, _ in results] == [number**2 for number in range(1, 30)]


def test_one_worker_or_one_item_needs_no_process() -> None:
    assert list(ordered_map(square, [3, 4], 1)) == [(9, os.getpid()), (16, os.getpid())]
    assert list(ordered_map(square, [3], 8)) == [(9, os.getpid())]
    assert list(ordered_map(square, [], 8)) == []
    assert usable_cores() >= 1


def test_a_killed_worker_is_named() -> None:
    with pytest.raises(CorpusError, match="a worker process died"):
        list(ordered_map(die, range(8), 2))


def test_errors_of_the_function_come_through() -> None:
    with pytest.raises(ZeroDivisionError):
        list(ordered_map(divmod_by, [1, 0], 2))


def divmod_by(number: int) -> int:
    return 1 // number
