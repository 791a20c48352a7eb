from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from venus_env.protocol.trajectory import Trajectory
from venus_rl.data.conversation import ConversationRow
from venus_rl.data.normalise import ReadReport, conversation_problem, read_conversations
from venus_rl.data.sources import find_files

SHARED = Path(__file__).resolve().parents[3] / "../shared/data/trajectories"

MESSAGES: list[Any] = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "Which river?"},
    {"role": "assistant", "content": "<think>t</think>\n<answer>Elbe</answer>"},
]
EXPERT = {"question": "Which river?", "messages": MESSAGES, "gt": "Elbe<|answer_split|> the Elbe "}


def read(*sources: Path) -> tuple[list[ConversationRow], ReadReport]:
    report = ReadReport()
    return list(read_conversations(find_files(sources), report)), report


def write(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_three_shapes_become_one(tmp_path: Path) -> None:
    trajectory = Trajectory(
        task={"id": "1", "question": "Which river?", "answers": ["Elbe", "the Elbe"]},
        messages=MESSAGES,
        turns=[],
        end="answered",
    )
    write(tmp_path / "a.jsonl", EXPERT)
    write(tmp_path / "b.json", {"request_id": "x", "messages": MESSAGES, "finished": True})
    write(tmp_path / "c.jsonl", json.loads(trajectory.model_dump_json(by_alias=True)))
    (expert, rollout, recorded), report = read(tmp_path)
    assert expert == ConversationRow("Which river?", ("Elbe", "the Elbe"), tuple(MESSAGES), "a.jsonl:1")
    assert rollout == ConversationRow("Which river?", (), tuple(MESSAGES), "b.json:1")
    assert (recorded.question, recorded.answers, recorded.messages) == (
        expert.question,
        expert.answers,
        expert.messages,
    )
    assert (report.rows, dict(report.dropped)) == (3, {})


def test_lists_compressed_lines_and_parquet(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    write(tmp_path / "a.json", [EXPERT, {**EXPERT, "gt": ["x", "y"]}])
    with gzip.open(tmp_path / "b.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps(EXPERT) + "\n\n")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([EXPERT, EXPERT]), tmp_path / "c.parquet")
    (tmp_path / "notes.txt").write_text("not data")
    rows, _ = read(tmp_path)
    assert [row.source for row in rows] == ["a.json:1", "a.json:2", "b.jsonl.gz:1", "c.parquet:1", "c.parquet:2"]
    assert rows[1].answers == ("x", "y")
    assert all(row.messages == tuple(MESSAGES) for row in rows)


def test_files_folders_and_patterns_are_found_once_and_sorted(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    b, a = write(tmp_path / "sub" / "b.json", EXPERT), write(tmp_path / "a.json", EXPERT)
    assert find_files([tmp_path, a, str(tmp_path / "**" / "*.json")]) == [a, b]
    with pytest.raises(FileNotFoundError, match="nothing"):
        find_files([tmp_path / "nothing*"])


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (MESSAGES, None),
        (MESSAGES[:2], "too_short"),
        ([*MESSAGES, MESSAGES[1]], "ends_on_user"),
        ([*MESSAGES, MESSAGES[2]], "bad_role_at_3"),
        ([MESSAGES[1], *MESSAGES[1:]], "bad_role_at_0"),
        ([*MESSAGES[:2], {"role": "assistant", "content": None}], "non_text_content"),
    ],
)
def test_unusable_conversations_have_a_reason(messages: list[Any], reason: str | None) -> None:
    assert conversation_problem(messages) == reason


def test_dropped_rows_are_counted(tmp_path: Path) -> None:
    write(
        tmp_path / "a.jsonl",
        EXPERT,
        {**EXPERT, "messages": MESSAGES[:2]},
        {**EXPERT, "messages": [*MESSAGES, MESSAGES[1]]},
    )
    rows, report = read(tmp_path)
    assert (len(rows), report.rows, dict(report.dropped)) == (1, 3, {"too_short": 1, "ends_on_user": 1})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"question": 1', "line 1: not valid JSON"),
        ('{"prompt": "x", "text": "y"}', "row 1: no list of messages.*prompt, text"),
        ("[1]", "row 1: expected an object, found list"),
        ('{"messages": [], "gt": 5}', "'gt' must be a string or a list"),
        ('{"schema": "venus.trajectory/1"}', "row 1: not a valid venus.trajectory/1"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.jsonl").write_text(content)
    with pytest.raises(ValueError, match=rf"bad\.jsonl, {message}" if "gt" not in message else message):
        read(tmp_path)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data/trajectories")
def test_real_trajectories() -> None:
    expert, report = read(SHARED / "sft")
    assert (len(expert), dict(report.dropped)) == (7, {})
    assert all(row.answers and row.question == row.messages[1]["content"] for row in expert)
    turns = [sum(m["role"] == "assistant" for m in row.messages) for row in expert]
    assert (min(turns), max(turns)) == (18, 49)
    rollouts, report = read(SHARED / "rollouts")
    assert report.rows == len(rollouts) == 5
    assert all(row.answers == () for row in rollouts)
