import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from venus_env.tasks import Task, TaskFileError, load_tasks

SHARED = Path(__file__).resolve().parents[3] / "../shared/data"


def _write(path: Path, rows: list[Any]) -> Path:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def test_embedded_by_split() -> None:
    everything = load_tasks("embedded")
    parts = {split: load_tasks("embedded", split) for split in ("train", "dev", "test")}
    assert sum(map(len, parts.values())) == len(everything)
    assert all(task.split == split for split, tasks in parts.items() for task in tasks)


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_native_rows_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    tasks = load_tasks("embedded", "dev")[:5]
    path = _write(tmp_path / name, [{"schema": "venus.task/1", **task.record()} for task in tasks])
    assert load_tasks(path) == tasks
    assert load_tasks(str(path), "dev") == tasks


def test_titles_only_rows(tmp_path: Path) -> None:
    rows = [
        {"id": "h1", "question": "Q one?", "answer": "yes", "supporting_titles": ["B", "A"], "type": "comparison"},
        "",
        {"question": "Q two?", "answer": ["x", "y"], "source": "s"},
    ]
    one, two = load_tasks(_write(tmp_path / "rows.jsonl", rows))
    assert (one.answers, [step.title for step in one.evidence], one.kind) == (("yes",), ["B", "A"], "comparison")
    assert two == Task(id="rows-3", question="Q two?", answers=("x", "y"), source="s")


def test_verl_rows(tmp_path: Path) -> None:
    row = {
        "data_source": "popqa",
        "prompt": [{"role": "system", "content": "be good"}, {"role": "user", "content": "Capital?"}],
        "reward_model": {"ground_truth": "Bloomsburg<|answer_split|> Eyersburg<|answer_split|>", "style": "rule"},
        "extra_info": {"index": 7, "split": "dev"},
        "agent_name": "anything",
    }
    expected = Task(id="7", question="Capital?", answers=("Bloomsburg", "Eyersburg"), split="dev", source="popqa")
    assert load_tasks(_write(tmp_path / "v.jsonl", [row])) == [expected]
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "v.parquet")
    assert load_tasks(tmp_path / "v.parquet") == [expected]


GOOD = {"id": "a", "question": "Q?", "answers": ["x"]}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([GOOD, {"question": "Q?"}], r"t\.jsonl, row 2: give exactly one of the columns 'answers' and 'answer'"),
        ([{"question": "Q?", "answer": "x", "answers": ["x"]}], "row 1: give exactly one of the columns"),
        ([{"anwsers": ["x"], "question": "Q?"}], "row 1: unknown column 'anwsers'; accepted are venus.task/1"),
        ([{"answers": ["x"]}], "row 1: column 'question' is missing"),
        ([{"question": 3, "answers": ["x"]}], "row 1: column 'question' must be text"),
        ([{"question": " ", "answers": ["x"]}], "row 1: column 'question' must be text that is not blank"),
        ([{"question": "Q?", "answer": 4}], "row 1: column 'answer' must be text or a list of texts, not 4"),
        ([{"question": "Q?", "answers": []}], "row 1: column 'answers': .*at least 1"),
        ([{"question": "Q?", "answers": [" "]}], "row 1: column 'answers': .*blank"),
        ([{**GOOD, "evidence": [{"ttle": "x"}]}], r"row 1: column 'evidence\.0\.title'"),
        ([{**GOOD, "hops": "many"}], "row 1: column 'hops'"),
        ([{**GOOD, "schema": "venus.task/9"}], "row 1: column 'schema' is 'venus.task/9'"),
        ([GOOD, GOOD], "row 2: column 'id': 'a' is already the id of row 1"),
        (["{"], "row 1: not a line of JSON"),
        (["[1]"], "row 1: a row must be an object with named columns, not list"),
        ([{"prompt": "Q?"}], "row 1: column 'prompt' must be a list of messages"),
        ([{"prompt": [{"role": "user", "content": "Q?"}]}], "row 1: column 'reward_model.ground_truth' is missing"),
        (
            [{"prompt": [{"role": "user", "content": "Q?"}], "reward_model": {"ground_truth": "<|answer_split|>"}}],
            "row 1: column 'answers'",
        ),
        ([], "holds no tasks"),
    ],
)
def test_bad_rows_name_file_row_and_column(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(TaskFileError, match=message):
        load_tasks(_write(tmp_path / "t.jsonl", rows))


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(TaskFileError, match=r"no task file at .*none\.jsonl"):
        load_tasks(tmp_path / "none.jsonl")
    with pytest.raises(TaskFileError, match=r"must end in \.jsonl, \.jsonl\.gz or \.parquet"):
        load_tasks(_write(tmp_path / "t.csv", [GOOD]))
    (tmp_path / "broken.jsonl.gz").write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(TaskFileError, match=r"cannot read .*broken"):
        load_tasks(tmp_path / "broken.jsonl.gz")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(TaskFileError, match=r"cannot read .*broken.parquet|needs pyarrow"):
        load_tasks(tmp_path / "broken.parquet")
    with pytest.raises(TaskFileError, match=r"holds no task of split 'tset'; its splits are \{'dev': 1\}"):
        load_tasks(_write(tmp_path / "s.jsonl", [{**GOOD, "split": "dev"}]), "tset")


@pytest.mark.skipif(not SHARED.exists(), reason="needs the project's shared data next to the repository")
def test_real_files() -> None:
    hotpot = load_tasks(SHARED / "wiki7k/questions.jsonl")
    assert len(hotpot) == 78
    assert any(task.evidence and task.kind == "bridge" for task in hotpot)
    parquet = load_tasks(SHARED / "qa/multi_source_dev.parquet")
    assert len(parquet) == 1919
    assert any(task.answers == ("Bloomsburg", "The Only Town in Pennsylvania", "Eyersburg") for task in parquet)
