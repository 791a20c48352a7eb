import random
import re

import pytest

from venus_env.tasks.world.full.kinds import KINDS
from venus_env.tasks.world.full.schema import LITERALS, Kind, expand, wordings

SNIPPET_WORDS = 40


def test_expand_chooses_alternatives_and_fills_slots() -> None:
    seen = {expand("{s} [lies|is] in [old |]{v}.", random.Random(seed), s="Avon", v="Baria") for seed in range(40)}
    assert seen == {f"Avon {verb} in {old}Baria." for verb in ("lies", "is") for old in ("old ", "")}
    assert wordings("{s} [lies|is] in [old |]{v}.") == 4
    assert expand("The area [of it|] is {v}.", random.Random(1), v="3") in ("The area of it is 3.", "The area is 3.")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_tables_are_whole(kind: Kind) -> None:
    for name, relation in kind.relations.items():
        assert relation.name == name
        assert relation.target in LITERALS or relation.target in KINDS
        for text in relation.sentences:
            assert "{v}" in text
            assert expand(text, random.Random(0), s="X", v="Y").endswith(".")
        if relation.of:
            # Questions nest: at least one phrase must be able to hold another one.
            assert any(text.endswith("{x}") for text in relation.of), relation
            assert relation.held, relation
            assert not set(relation.held) & set(relation.of)
            assert relation.its
            assert sum(map(wordings, relation.sentences)) >= 2 or kind.name in ("scientist", "franchise")
        assert all(text.count("{x}") == 1 for text in (*relation.of, *relation.held))
        assert not relation.plural or relation.plural.endswith("{x}")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_introductions_are_longer_than_a_snippet(kind: Kind) -> None:
    def shortest(text: str) -> int:
        return len(re.sub(r"\[([^\]]*)\]", lambda m: min(m[1].split("|"), key=lambda t: len(t.split())), text).split())

    words = min(map(shortest, kind.leads)) + min(map(shortest, kind.seconds))
    # A name of one word is followed by the heading of a section and the first word of a sentence.
    assert words >= SNIPPET_WORDS - 2
