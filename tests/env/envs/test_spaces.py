import json
import pickle

import pytest
from gymnasium.vector.utils import batch_space

from venus_env.envs.spaces import UnicodeText


def test_samples_are_seeded_and_belong_to_the_space() -> None:
    space, other = UnicodeText(40, seed=5), UnicodeText(40, seed=5)
    samples = [space.sample() for _ in range(50)]
    assert samples == [other.sample() for _ in range(50)]
    assert len(set(samples)) > 40
    assert all(sample in space for sample in samples)
    scripts = {len(char.encode()) for sample in samples for char in sample}
    assert scripts == {1, 2, 3, 4}


def test_samples_of_huge_spaces_stay_short_but_reach_the_minimum() -> None:
    assert max(len(UnicodeText(10**7, seed=seed).sample()) for seed in range(50)) <= 64
    assert len(UnicodeText(200, min_length=150, seed=0).sample()) == 150


@pytest.mark.parametrize(
    ("value", "inside"),
    [("", False), ("a", True), ("日本語", True), ("abcd", False), ("\ud800", False), (b"a", False), (None, False)],
)
def test_contains(value: object, inside: bool) -> None:
    assert (value in UnicodeText(3, min_length=1)) is inside


def test_jsonable_pickle_equality() -> None:
    space = UnicodeText(9, seed=1)
    texts = [space.sample() for _ in range(5)]
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(texts)))) == texts
    assert pickle.loads(pickle.dumps(space)) == space == eval(repr(space))
    assert space != UnicodeText(10)
    assert not space.is_np_flattenable


def test_batches() -> None:
    batch = batch_space(UnicodeText(9, seed=1), 3)
    assert batch.contains(tuple("abc"))


def test_errors() -> None:
    with pytest.raises(ValueError, match="min_length <= max_length"):
        UnicodeText(1, min_length=2)
    with pytest.raises(ValueError, match="neither a mask"):
        UnicodeText(1).sample(mask=1)
