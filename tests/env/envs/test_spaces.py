import copy
import json
import pickle

import gymnasium as gym
import pytest
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Dict, Sequence, Text
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector.utils import (
    batch_differing_spaces,
    batch_space,
    concatenate,
    create_empty_array,
    create_shared_memory,
    iterate,
)
from hypothesis import given
from hypothesis import strategies as st

from venus_env.envs.spaces import UnicodeText

HUGE = UnicodeText(10_000_000)


def test_samples_are_seeded_and_belong_to_the_space() -> None:
    space, other = UnicodeText(40, seed=5), UnicodeText(40)
    other.seed(5)
    samples = [space.sample() for _ in range(50)]
    assert samples == [other.sample() for _ in range(50)]
    assert samples != [UnicodeText(40, seed=6).sample() for _ in range(50)]
    assert len(set(samples)) > 40
    assert all(sample in space for sample in samples)
    scripts = {len(char.encode()) for sample in samples for char in sample}
    assert scripts == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("space", "shortest", "longest"),
    [(UnicodeText(0, seed=0), 0, 0), (UnicodeText(200, min_length=150, seed=0), 150, 150), (HUGE, 0, 64)],
)
def test_samples_keep_to_the_bounds_and_stay_short(space: UnicodeText, shortest: int, longest: int) -> None:
    lengths = [len(space.sample()) for _ in range(50)]
    assert shortest <= min(lengths)
    assert max(lengths) <= longest


@given(st.text())
def test_holds_any_text_that_utf8_can_encode_and_survives_json(text: str) -> None:
    assert text in HUGE  # st.text() leaves out surrogates
    assert HUGE.from_jsonable(json.loads(json.dumps(HUGE.to_jsonable([text, ""])))) == [text, ""]


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        ("", False),
        ("a", True),
        ("\0", True),
        ("日本語", True),
        ("👩‍🔬", True),  # one sign, three code points
        ("abcd", False),
        ("\ud800", False),
        ("a\udfff", False),
        (b"a", False),
        (None, False),
        (["a"], False),
    ],
)
def test_contains(value: object, inside: bool) -> None:
    assert (value in UnicodeText(3, min_length=1)) is inside


def test_copies_are_equal_and_go_on_with_the_same_stream() -> None:
    space = UnicodeText(9, min_length=1, seed=1)
    space.sample()
    copies = [pickle.loads(pickle.dumps(space)), copy.deepcopy(space)]
    following = space.sample()
    for other in copies:
        assert other == space
        assert other.sample() == following
    assert eval(repr(space)) == space


@pytest.mark.parametrize(
    "other", [UnicodeText(10), UnicodeText(9, min_length=1), Text(9, min_length=0, charset=" "), 9]
)
def test_spaces_that_differ(other: object) -> None:
    assert UnicodeText(9) != other
    assert other != UnicodeText(9)


def test_gymnasium_batches_it() -> None:
    batch = batch_space(HUGE, 2)
    texts = concatenate(HUGE, ["é", ""], create_empty_array(HUGE, 2))
    assert texts in batch
    assert list(iterate(batch, texts)) == ["é", ""]
    assert create_empty_array(UnicodeText(9, min_length=2), 2) in batch_space(UnicodeText(9, min_length=2), 2)
    assert ("日", "abcd") in batch_differing_spaces([UnicodeText(1), UnicodeText(4)])


def test_flattens_to_itself() -> None:
    assert not HUGE.is_np_flattenable
    space = Sequence(Dict(role=UnicodeText(16), content=HUGE))
    messages = ({"role": "user", "content": "日本語"},)
    assert unflatten(space, flatten(space, messages)) == messages
    assert flatten(HUGE, "日") == unflatten(HUGE, "日") == "日"
    assert flatten_space(HUGE) == HUGE
    with pytest.raises(ValueError, match="no fixed length"):
        flatdim(HUGE)


def test_shared_memory_is_refused_with_advice() -> None:
    with pytest.raises(CustomSpaceError, match="shared_memory=False"):
        create_shared_memory(HUGE, 2)


class Echo(gym.Env[str, str]):
    observation_space = action_space = HUGE


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_an_async_vector_environment_with_shared_memory_gives_the_same_advice() -> None:
    with pytest.raises(ValueError, match="shared_memory=False"):
        gym.vector.AsyncVectorEnv([Echo])


@pytest.mark.parametrize(("bounds", "message"), [((1, 2), "less than or equal"), ((1, -1), "non-negative")])
def test_bounds_that_make_no_sense(bounds: tuple[int, int], message: str) -> None:
    longest, shortest = bounds
    with pytest.raises(ValueError, match=message):
        UnicodeText(longest, min_length=shortest)


@pytest.mark.parametrize("argument", ["mask", "probability"])
def test_masks_are_refused(argument: str) -> None:
    with pytest.raises(ValueError, match="neither a mask"):
        UnicodeText(1).sample(**{argument: (1, None)})
