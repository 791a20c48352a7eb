from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from bench.belief_turns import KINDS, group, label_turns
from bench.belief_validity import BEGIN, END, auc, draws, main, markdown, mean, with_tables
from tests.env.beliefs.test_evidence import turn
from venus_env.protocol.trajectory import Trajectory, TurnRecord
from venus_env.tasks.task import Task

TASK = Task(id="t", question="Who is the mayor of Lyon?", answers=("Ann Lee", "A. Lee"))


def test_labels() -> None:
    hits = [{"title": "Lyon", "url": "https://w.org/Lyon", "snippet": "Ann Lee is the mayor."}]
    exchanges = [
        ("search", {"query": ["Ann Lee"]}, json.dumps([{"query": "Ann Lee", "web_page_info_list": []}])),
        ("visit", {"url": ["https://w.org/Rome"], "goal": "Ann Lee?"}, "What Ann Lee? as it is: Rome is old."),
        ("visit", {"url": ["w.org/Lyon"], "goal": "mayor"}, "Lyon is old."),
        ("visit", {"url": ["https://w.org/Lyon"], "goal": "mayor"}, "Its mayor is Ann Lee."),
        ("search", {"query": ["Lyon"]}, json.dumps([{"query": "Lyon", "web_page_info_list": hits}])),
        ("visit", {"url": ["https://w.org/Lyon"], "goal": "mayor"}, "Its mayor is Ann Lee."),
        ("visit", {"url": ["https://w.org/Oslo"], "goal": "mayor"}, "Ann Lee was here."),
    ]
    messages = [{"role": "system", "content": "."}, {"role": "user", "content": TASK.question}]
    turns = []
    for index, (tool, arguments, reply) in enumerate(exchanges):
        turns.append(
            TurnRecord(
                index=index, kind="tool", format_ok=True, message_index=len(messages), tool=tool, arguments=arguments
            )
        )
        messages += turn(tool, arguments, reply)  # type: ignore[arg-type]
    turns.append(TurnRecord(index=7, kind="answer", format_ok=True, message_index=len(messages)))
    played = Trajectory(task=TASK.record(), messages=messages, turns=turns, end="answered")  # type: ignore[arg-type]
    labels = label_turns(played, TASK, ["https://w.org/Lyon"])
    assert labels == [KINDS[6], KINDS[3], KINDS[2], KINDS[0], KINDS[6], KINDS[1], KINDS[4], None]


def test_groups() -> None:
    assert group(TASK) == "plain"
    assert group(Task(id="q", question="Is it Ann Lee or Bo?", answers=("Ann Lee",))) == "answer in the question"
    assert group(Task(id="q", question="Is it so?", answers=("Yes", "true"))) == "judgement"


def test_auc_and_means_by_hand() -> None:
    drawn = draws(3, seed=0)
    assert drawn[0].tolist() == [1, 1, 1]
    assert (drawn.sum(axis=1) == 3).all()
    up, down = np.array([2.0, 1.0]), np.array([1.0, 0.0, 3.0])
    found = auc((up, np.array([0, 1])), (down, np.array([0, 1, 2])), drawn)
    assert found is not None
    assert found[0] == pytest.approx((2 + 1.5) / 6, abs=1e-4)  # two and one of three below, and a tie
    assert found[1] <= found[0] <= found[2]
    assert mean(down, np.array([0, 1, 2]), drawn) == pytest.approx([4 / 3, 0.0, 3.0], abs=0.4)
    assert auc((up, np.array([0, 1])), (np.array([]), np.array([], np.int64)), drawn) is None
    assert mean(np.array([]), np.array([], np.int64), drawn) is None


def test_tables_take_their_place_in_a_document() -> None:
    assert with_tables(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="no place for the tables"):
        with_tables("a", "new")


def test_document_shows_the_results_that_are_filed() -> None:
    root = Path(__file__).parents[2]
    result = json.loads((root / "bench/results/belief_validity.json").read_text(encoding="utf-8"))
    assert f"{BEGIN}\n{markdown(result)}\n{END}" in (root / "docs/information_gain.md").read_text(encoding="utf-8")


def test_a_small_study_repeats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name for name in ("one.json", "two.json")]
    for file in files:
        main(["--sets", "embedded", "--beliefs", "lexical", "--questions", "3", "--out", str(file)])
    assert files[0].read_bytes() == files[1].read_bytes()
    assert "gold page" in capsys.readouterr().out
