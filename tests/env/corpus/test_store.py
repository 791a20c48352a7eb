from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from venus_env.corpus.document import Page, Passage
from venus_env.corpus.store import PassageStore, StoreWriter


def make(directory: Path, urls: list[str]) -> tuple[list[Passage], PassageStore]:
    passages = [Passage(str(row), url, f"title {url}", f"text {row} é\n") for row, url in enumerate(urls)]
    directory.mkdir(parents=True, exist_ok=True)
    writer = StoreWriter(directory)
    for passage in passages:
        writer.add(passage)
    writer.close()
    return passages, PassageStore(directory)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["https://a/x", "https://a/y", "http://A/x/", "b", "c c"]), min_size=1, max_size=12))
def test_every_row_and_page_comes_back(tmp_path_factory, urls: list[str]) -> None:  # type: ignore[no-untyped-def]
    passages, store = make(tmp_path_factory.mktemp("store"), urls)
    assert list(store.passages()) == passages
    for url in urls:
        own = tuple(passage for passage in passages if passage.url == url)
        assert store.page(url) == Page(url, own[0].title, own)
    for row, passage in enumerate(passages):
        first = store.passage(store.first_row(int(store.page_of[row])))
        assert first == next(other for other in passages if other.url == passage.url)
    assert store.page("https://a/z") is None


def test_other_spellings_find_the_page_only_when_no_page_is_spelt_so(tmp_path: Path) -> None:
    _, store = make(tmp_path, ["https://a/x_y", "https://a/z/", "https://a/z"])
    for spelling in ("http://a/x y", "https://A/x_y#part", "<https://a/x_y>"):
        page = store.page(spelling)
        assert page is not None
        assert page.url == "https://a/x_y"
    exact = store.page("https://a/z")
    assert exact is not None
    assert exact.url == "https://a/z"


def test_titles_match_word_by_word(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path)
    for number, title in enumerate(["Ed Wood", "Ed Wood (film)", "São Paulo", "ed wood!"]):
        writer.add(Passage(str(number), f"u{number}", title, "text"))
    writer.close()
    store = PassageStore(tmp_path)
    assert store.titled("ED  wood") == [0, 3]
    assert store.titled("sao paulo") == [2]
    assert store.titled("Ed") == []


def test_content_hash_depends_on_content_and_order_only(tmp_path: Path) -> None:
    hashes = []
    for name, order in (("a", "xy"), ("b", "xy"), ("c", "yx")):
        (tmp_path / name).mkdir()
        writer = StoreWriter(tmp_path / name)
        for url in order:
            writer.add(Passage(url, url, "t", "text"))
        hashes.append(writer.close())
    assert hashes[0] == hashes[1] != hashes[2]
