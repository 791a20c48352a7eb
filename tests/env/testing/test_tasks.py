import json
from pathlib import Path
from typing import Any

import pytest

from tests.env.testing.reports import assert_clean, assert_first
from tests.env.testing.test_corpus import Small
from venus_env.corpus import open_corpus
from venus_env.tasks.task import Evidence, Task
from venus_env.testing import check_tasks


def task(number: int = 0, **fields: Any) -> Task:
    sound: dict[str, Any] = {
        "id": f"t{number}",
        "question": f"In which country is Lund ({number})?",
        "answers": ("Sweden",),
        "evidence": (Evidence(url="https://x/lund", title="Lund", sentence="Lund is a city in\nsouthern Sweden."),),
        "split": "train",
    }
    return Task(**{**sound, **fields})


@pytest.mark.parametrize(
    ("tasks", "failing", "message"),
    [
        ([], "load", "there are no tasks"),
        ([task(0), task(1, id="t0")], "ids", "t0 occur more than once"),
        ([task(0), task(1, question=task(0).question.upper(), split="test")], "questions", "in one split only"),
        ([task(evidence=(Evidence(url="https://x/no", title="No"),))], "evidence pages", "1 of 1 .* https://x/no"),
        (
            [task(evidence=(Evidence(url="https://x/lund", title="Lund", sentence="In Sweden."),))],
            "evidence sentences",
            "t0: 'In Sweden.'",
        ),
    ],
)
def test_wrong_tasks_fail_where_they_are_wrong(tasks: list[Task], failing: str, message: str) -> None:
    assert_first(check_tasks(tasks, Small()), "failed", failing, message)


@pytest.mark.parametrize(
    ("tasks", "doubtful", "message"),
    [
        ([task(0), task(1, split=None)], "splits", "1 tasks name no split"),
        ([task(0), task(1, question=task(0).question)], "questions", "1 of 2 questions repeat"),
        ([task(answers=("yes",))], "answers in evidence", "1 of 1 tasks .* t0"),
    ],
)
def test_doubtful_tasks_are_warned_of(tasks: list[Task], doubtful: str, message: str) -> None:
    report = check_tasks(tasks, Small())
    assert report.ok
    assert_first(report, "warning", doubtful, message)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps({"id": "x", "question": "why?"}))
    assert_first(check_tasks(file), "failed", "load", "row 1: give exactly one of the columns")


def test_evidence_is_looked_for_where_there_is_a_corpus_and_an_address() -> None:
    assert set(check_tasks([task()]).named("skipped")) == {
        "evidence pages",
        "evidence sentences",
        "answers in evidence",
    }
    titles = [task(evidence=(Evidence(title="Lund"),))]
    assert_first(check_tasks(titles, Small()), "skipped", "evidence pages", "no task names the url")
    half = [task(evidence=(Evidence(url="https://x/lund", title="Lund"), Evidence(title="Sweden")))]
    assert check_tasks(half, Small()).named("skipped") == ["evidence sentences", "answers in evidence"]


def test_the_embedded_tasks() -> None:
    assert_clean(check_tasks([task()], Small()))
    report = check_tasks("embedded", open_corpus("embedded"))
    assert_clean(report)
    assert "train 4000, dev 400, test 800" in str(report)
