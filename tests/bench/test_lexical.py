from __future__ import annotations

from itertools import islice

from bench.lexical import mixture, spans
from venus_env.corpus.document import Passage

PAGES = [
    Passage(id=name, url=f"https://a/{name}", title=name, text=f"{name} has a mill in Kent. Its hall is old. So is it.")
    for name in ("Ashford", "Bolton", "Crewe", "Derby", "Ely", "Frome", "Goole")
]


def test_the_mixture_is_seeded_distinct_and_grows_its_vocabulary() -> None:
    made = list(mixture(PAGES, 70, seed=1))
    assert made == list(mixture(PAGES, 70, seed=1))
    assert list(islice(mixture(PAGES, 10**9, seed=1), 70)) == made
    assert made != list(mixture(PAGES, 70, seed=2))
    assert len({passage.text for passage in made}) > 60
    first, every = ({word for one in part for word in one.text.split()} for part in (made[:7], made))
    assert len(every) > 1.5 * len(first)


def test_spans_stand_in_a_passage() -> None:
    texts = [" ".join(page.text.split()) for page in PAGES]
    for span in spans(PAGES, 5, seed=0):
        assert any(span in text for text in texts)
