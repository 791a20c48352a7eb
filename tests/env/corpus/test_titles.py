from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from venus_env.corpus import LocalCorpus
from venus_env.corpus.build import build_index
from venus_env.corpus.lexical import open_lexical
from venus_env.corpus.store import PassageStore
from venus_env.corpus.titles import named_pages

TITLES = ["New York", "York", "The Who", "Duke of York", "São Paulo", "Film"]


@pytest.fixture(params=["bm25s", "tantivy"])
def named(
    write: Callable[..., Path], tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[[str], dict[str, float]]:
    rows = [
        {"id": title, "url": f"https://a/{title}", "title": title, "text": f"{title} in a film."} for title in TITLES
    ]
    build_index(write(rows), tmp_path / "index", lexical=request.param)
    data = tmp_path / "index" / LocalCorpus(tmp_path / "index").manifest.data
    store, lexical = PassageStore(data), open_lexical(request.param, data)
    return lambda query: {TITLES[page]: share for page, share in named_pages(query, store, lexical).items()}


def test_a_whole_title_has_the_whole_share(named: Callable[[str], dict[str, float]]) -> None:
    assert named("new york") == {"New York": 1.0}
    assert named("SAO PAULO?") == {"São Paulo": 1.0}
    assert named("the who") == {"The Who": 1.0}


def test_longer_titles_hide_those_inside_and_rare_words_weigh_more(
    named: Callable[[str], dict[str, float]],
) -> None:
    assert set(named("who was Duke of York in that film")) == {"Duke of York", "Film"}
    found = named("a film about New York")
    assert set(found) == {"New York", "Film"}
    assert found["New York"] > 0.5 > found["Film"]
    assert sum(found.values()) == pytest.approx(1.0)


def test_nothing_is_named_by_words_of_a_title_apart(named: Callable[[str], dict[str, float]]) -> None:
    assert named("Paulo Sao") == {}
    assert named("") == {}
    assert named("!?") == {}
    assert named("unknown words only") == {}


def test_far_down_a_long_text_nothing_is_named(named: Callable[[str], dict[str, float]]) -> None:
    assert named("word " * 190 + "new york") != {}
    assert named("word " * 300 + "new york") == {}
