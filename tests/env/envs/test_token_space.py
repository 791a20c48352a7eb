import json
import pickle
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from venus_env.envs.token_space import TokenIds


def ids(*values: int, dtype: Any = np.int64) -> NDArray[Any]:
    return np.array(values, dtype=dtype)


class Echo(gym.Env[NDArray[np.int64], NDArray[np.int64]]):
    """Returns each action's ids in reverse order."""

    def __init__(self) -> None:
        self.observation_space = TokenIds(11, 100)
        self.action_space = TokenIds(11, 100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.int64], dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.integers(11, size=5), {}

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.int64], float, bool, bool, dict[str, Any]]:
        return action[::-1].copy(), 0.0, False, False, {}


def test_samples_are_seeded_and_belong_to_the_space() -> None:
    space, other = TokenIds(50, 40, seed=5), TokenIds(50, 40, seed=5)
    samples = [space.sample() for _ in range(50)]
    for sample, again in zip(samples, [other.sample() for _ in range(50)], strict=True):
        np.testing.assert_array_equal(sample, again)
        assert sample in space
    assert {int(i) for sample in samples for i in sample} == set(range(50))
    assert len({len(sample) for sample in samples}) > 20


def test_samples_of_huge_spaces_stay_short_but_reach_the_minimum() -> None:
    assert max(len(TokenIds(9, 10**7, seed=seed).sample()) for seed in range(50)) <= 64
    assert len(TokenIds(9, 200, min_length=150, seed=0).sample()) == 150


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        (ids(0, 9), True),
        (ids(3, 3, 3), True),
        (ids(), False),
        (ids(1, 2, 3, 4), False),
        (ids(10), False),
        (ids(-1), False),
        (ids(1, dtype=np.int32), False),
        (ids(1, dtype=np.float64), False),
        (ids(1).reshape(1, 1), False),
        (np.int64(1), False),
        ([1, 2], False),
        ("ab", False),
        (None, False),
    ],
)
def test_contains(value: object, inside: bool) -> None:
    assert (value in TokenIds(10, 3, min_length=1)) is inside


def test_the_empty_sequence_belongs_where_the_minimum_allows_it() -> None:
    assert ids() in TokenIds(10, 3)


def test_a_long_context_is_checked_at_once() -> None:
    space = TokenIds(152_000, 300_000)
    context = np.arange(200_000) % 152_000
    started = time.perf_counter()
    assert all(context in space for _ in range(10))
    assert time.perf_counter() - started < 0.5  # one check of each id in Python takes longer than this


def test_jsonable_pickle_equality() -> None:
    space = TokenIds(50, 9, seed=1)
    samples = [space.sample() for _ in range(5)] + [ids()]
    again = space.from_jsonable(json.loads(json.dumps(space.to_jsonable(samples))))
    for sample, back in zip(samples, again, strict=True):
        np.testing.assert_array_equal(sample, back)
        assert back in space
    assert pickle.loads(pickle.dumps(space)) == space == eval(repr(space))
    assert space != TokenIds(50, 10)
    assert space != TokenIds(51, 9)
    assert space != TokenIds(50, 9, min_length=1)
    assert not space.is_np_flattenable


def test_batches() -> None:
    batch = batch_space(TokenIds(10, 9, seed=1), 2)
    assert batch.contains((ids(1), ids(2, 3)))


def test_check_env_with_warnings_as_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(Echo(), skip_render_check=True)


def test_a_vector_environment_takes_and_returns_tuples() -> None:
    envs = SyncVectorEnv([Echo, Echo])
    envs.reset(seed=3)
    observations, *_ = envs.step((ids(1, 2, 3), ids(4)))
    assert isinstance(observations, tuple)
    assert [observation.tolist() for observation in observations] == [[3, 2, 1], [4]]
    assert envs.observation_space.contains(observations)
    envs.action_space.seed(0)
    observations, *_ = envs.step(envs.action_space.sample())
    assert len(observations) == 2
    envs.close()


def test_errors() -> None:
    with pytest.raises(ValueError, match="min_length <= max_length"):
        TokenIds(10, 1, min_length=2)
    with pytest.raises(ValueError, match="vocab_size"):
        TokenIds(0, 1)
    with pytest.raises(ValueError, match="neither a mask"):
        TokenIds(10, 1).sample(mask=1)
