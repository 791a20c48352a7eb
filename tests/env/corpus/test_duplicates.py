from __future__ import annotations

import random

import numpy as np
import pytest

from venus_env.corpus.duplicates import Duplicate, find_duplicates, join_sketches, sketch

RNG = random.Random(1)
VOCABULARY = [f"word{n}" for n in range(2000)]


def text(length: int = 300) -> str:
    return " ".join(RNG.choices(VOCABULARY, k=length))


def jaccard(one: str, other: str) -> float:
    first, second = ({tuple(words[n : n + 5]) for n in range(len(words) - 4)} for words in (one.split(), other.split()))
    return len(first & second) / len(first | second)


def edited(original: str, edits: int) -> str:
    words = original.split()
    for place in RNG.sample(range(len(words)), edits):
        words[place] = "edited"
    return " ".join(words)


def test_exact_duplicates_differ_in_case_and_punctuation_only() -> None:
    found = find_duplicates(sketch(["Silk, in Lyon!", "Other", "silk in LYON", "🙂", "silk in lyon.", "🙃", "🙂"]))
    assert found == [Duplicate(2, 0, "exact", 1.0), Duplicate(4, 0, "exact", 1.0), Duplicate(6, 3, "exact", 1.0)]


@pytest.mark.parametrize(("edits", "near"), [(1, True), (3, True), (30, False), (100, False)])
def test_near_duplicates_follow_the_true_jaccard_index(edits: int, near: bool) -> None:
    originals = [text() for _ in range(40)]
    copies = [edited(one, edits) for one in originals]
    found = {one.number: one for one in find_duplicates(sketch(originals + copies))}
    assert (len(found) == 40) is near
    assert (len(found) == 0) is not near
    for number, duplicate in found.items():
        assert (duplicate.of, duplicate.kind) == (number - 40, "near")
        assert duplicate.similarity == pytest.approx(jaccard(originals[number - 40], copies[number - 40]), abs=0.2)


def test_originals_are_never_duplicates_themselves() -> None:
    chain = [text()]
    for _ in range(30):
        chain.append(edited(chain[-1], 2))
    found = find_duplicates(sketch(chain))
    assert found
    assert not {one.of for one in found} & {one.number for one in found}


def test_unrelated_and_short_texts_are_let_be() -> None:
    assert find_duplicates(sketch([text(60) for _ in range(3000)])) == []
    assert find_duplicates(sketch(["the city lies on a river in France", "the city lies on a river in Spain"])) == []
    assert find_duplicates(sketch([])) == []


def test_sketches_join_and_long_texts_are_sketched_in_blocks() -> None:
    texts = [text(), text(30_000), ""]
    whole = sketch(texts)
    joined = join_sketches([sketch(texts[:1]), sketch([]), sketch(texts[1:])])
    for name in ("exact", "minima", "bands"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(joined, name))
