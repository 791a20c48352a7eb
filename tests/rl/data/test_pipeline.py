from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.env.policies.test_openai import Endpoint, completion
from tests.rl.data.vectors import cleaning
from venus_env.protocol.trajectory import Trajectory
from venus_rl.data.artifact import Artifact
from venus_rl.data.conversation import RowError
from venus_rl.data.normalise import ReadReport, default_prompt, normalise, normalise_as_reference, read_conversations
from venus_rl.data.options import CleanConfig
from venus_rl.data.pipeline import CLEAN_FILE, PAGE_FILE, REJECTED_FILE, STATS_FILE, clean

SHARED = Path(__file__).resolve().parents[3] / "../shared/data/trajectories"
ROWS = cleaning("normalize_row")


def call(name: str, query: str) -> list[dict[str, str]]:
    body = json.dumps({"name": name, "arguments": {"query": [query]}})
    return [
        {"role": "assistant", "content": f"<think>t</think>\n<tool_call>{body}</tool_call>"},
        {"role": "user", "content": "<tool_response>\nfound\n</tool_response>"},
    ]


def row(number: int, turns: int = 1, answer: str = "Elbe", *, extra: list[dict[str, str]] | None = None) -> Any:
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": f"Q{number}"}]
    for turn in range(turns - 1):
        messages += call("search", f"{number} {turn}")
    messages += [*(extra or []), {"role": "assistant", "content": f"<think>t</think>\n<answer>{answer}</answer>"}]
    return {"question": f"Q{number}", "messages": messages, "gt": "Elbe"}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(path: Path, out: Path, **options: Any) -> Artifact:
    return clean([path], CleanConfig(**options), out, progress=False)


def table(made: Artifact, name: str = CLEAN_FILE) -> list[dict[str, Any]]:
    return list(pyarrow.parquet.read_table(made.path / name).to_pylist())


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize("vector", ROWS.values(), ids=ROWS)
def test_rows_of_the_reference(vector: dict[str, Any], reference: bool) -> None:
    given, expected = vector["input"], vector["output"]
    read = normalise_as_reference if reference else normalise
    if expected["row"] is None:
        with pytest.raises(RowError) as raised:
            read(given["row"], "a:1", "a, row 1", given["system_prompt"], given["mode"])
        assert raised.value.reason == expected["reason"]
    else:
        made = read(given["row"], "a:1", "a, row 1", given["system_prompt"], given["mode"])
        assert made.question == expected["row"]["question"]
        assert list(made.messages) == expected["row"]["messages"]
        assert made.answers == (expected["row"]["gt"],)


def test_every_row_is_in_the_output_or_rejected(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        row(0),
        row(1, 3, extra=call("scholar", "x")),
        row(2, 3, extra=call("search", "2 0")),
        {"no": "messages"},
        row(3)["messages"],
        {**row(4), "gt": ""},
        {**row(5), "messages": row(5)["messages"][:-1]},
    )
    with path.open("ab") as file:
        file.write(b'{"question": "\xff"}\n{"question": ')
    made = run(path, tmp_path / "out")
    report = made.report
    rejected = table(made, REJECTED_FILE)
    assert report["rows"] == {"read": 9, "kept": 3, "rejected": 6, "written": 3}
    assert len({r["source"] for r in table(made)}) + len(rejected) == 9
    assert Counter((r["stage"], r["reason"]) for r in rejected) == {
        ("read", "unreadable"): 2,
        ("normalise", "unknown_shape"): 2,
        ("normalise", "missing_question_or_gt"): 1,
        ("validate", "too_short"): 1,
    }
    assert report["rejected"]["read"] == {"unreadable": 2}
    assert all(str(path) in r["detail"] for r in rejected)
    assert json.loads(rejected[0]["row"]) == {"no": "messages"}
    assert report["stages"]["prune"] == {"trajectories": 1, "turns_removed": 1, "replies_removed": 1, "tool:scholar": 1}
    assert report["stages"]["dedup"] == {"trajectories": 1, "turns_removed": 1, "replies_removed": 1, "tool:search": 1}
    assert report["stages"]["tools"] == {"search": 4}
    assert report["turns"]["after"] == {"1": 1, "3": 2}
    assert {"clean.parquet", "rejected.parquet", "stats.json", "report.html"} == set(report["sha256"])
    assert json.loads((made.path / STATS_FILE).read_text())["rows"] == report["rows"]


def test_stages_can_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", row(0, 2, extra=call("scholar", "x") + call("search", "0 0")))
    assert table(run(path, tmp_path, tools=None, deduplicate=False))[0]["turns"] == 4
    assert table(run(path, tmp_path, deduplicate=False))[0]["turns"] == 3
    assert table(run(path, tmp_path))[0]["turns"] == 2
    broken = {**row(1), "messages": [*row(1)["messages"][:2], {"role": "assistant", "content": "Elbe"}]}
    path = write(tmp_path / "b.jsonl", broken)
    assert run(path, tmp_path).report["rejected"] == {"validate": {"assistant_missing_think": 1}}
    assert table(run(path, tmp_path, validate_turns=False))[0]["messages"] == broken["messages"]


def test_long_trajectories_are_repeated_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *(row(n, turns) for n, turns in enumerate([1, 2, 3, 4, 5, 6] * 5)))
    options = {"thresholds": [2, 4], "multipliers": [1, 2, 5]}
    made = run(path, tmp_path, **options)
    rows = table(made)
    assert made.report["rows"]["written"] == len(rows) == 5 * (2 + 4 + 10)
    assert made.report["buckets"]["resampled"] == {"0-2": 10, "3-4": 20, ">4": 50}
    assert all(a["source"] != b["source"] for a, b in pairwise(rows))
    assert [r["source"] for r in table(run(path, tmp_path / "again", **options))] == [r["source"] for r in rows]
    assert [r["source"] for r in table(run(path, tmp_path, seed=1, **options))] != [r["source"] for r in rows]
    plain = table(run(path, tmp_path, shuffle=False, **options))
    assert [(r["source"], r["copy"]) for r in plain[2:4]] == [("a.jsonl:3", 0), ("a.jsonl:3", 1)]
    reference = table(run(path, tmp_path, reference=True, **options))
    assert list(reference[0]) == ["question", "messages", "gt"]
    assert [r["question"] for r in reference] == [r["question"] for r in plain]


def test_the_output_is_an_input(tmp_path: Path) -> None:
    made = run(write(tmp_path / "a.jsonl", {**row(0), "gt": ["Elbe", "Labe"]}), tmp_path)
    (read,) = read_conversations([made.path / CLEAN_FILE], ReadReport())
    assert (read.question, read.answers) == ("Q0", ("Elbe", "Labe"))
    assert list(read.messages) == row(0)["messages"]


def test_the_prompt_of_the_row_or_of_the_template(tmp_path: Path) -> None:
    bare = {**row(0), "messages": row(0)["messages"][1:]}
    path = write(tmp_path / "a.jsonl", row(1), bare)
    (tmp_path / "prompt.txt").write_text("T")

    def prompts(**options: Any) -> list[str]:
        return [r["messages"][0]["content"] for r in table(run(path, tmp_path, shuffle=False, **options))]

    assert prompts() == ["S", default_prompt()]
    assert prompts(current_date="2026-03-01") == ["S", default_prompt("2026-03-01")]
    assert prompts(prompt_file=tmp_path / "prompt.txt") == ["S", "T"]
    assert prompts(prompt_file=tmp_path / "prompt.txt", prompt_from="template") == ["T", "T"]


def test_workers_give_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *(row(n, n % 4) for n in range(40)), {"bad": 1})
    one = clean([path], CleanConfig(), tmp_path / "one", progress=False)
    two = clean([path], CleanConfig(), tmp_path / "two", workers=2, progress=False)
    assert one.report == two.report


def test_work_is_redone_only_when_something_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", row(0))
    assert not run(path, tmp_path).reused
    assert run(path, tmp_path).reused
    assert not run(path, tmp_path, seed=7).reused
    write(path, row(1))
    assert not run(path, tmp_path).reused


def test_matching_answers(tmp_path: Path) -> None:
    unknown = {"messages": row(3)["messages"], "finished": True}
    path = write(tmp_path / "a.jsonl", row(0), row(1, answer="the Elbe"), row(2, answer="Rhine"), unknown)
    exact = run(path, tmp_path, correctness="exact")
    assert exact.report["rejected"] == {"correctness": {"wrong": 2, "no_answers": 1}}
    assert exact.report["complete"]
    f1 = run(path, tmp_path, correctness="f1", f1_threshold=0.6, undecided="keep")
    assert f1.report["rejected"] == {"correctness": {"wrong": 1}}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


def test_a_judge_that_fails_is_asked_again_by_the_next_run_only_for_what_is_open(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    path = write(tmp_path / "a.jsonl", *(row(n, answer=f"river {n}") for n in range(6)), row(6))

    def reply(number: int, body: Any) -> Any:
        asked = int(body["messages"][1]["content"].partition('"Q')[2][0])
        return [completion("correct: yes"), completion("correct: no"), (500, "down", {})][asked % 3]

    def judged(**options: Any) -> Artifact:
        judge = {"url": endpoint.url, "model": "m", "attempts": 1, **options}
        return run(path, tmp_path / "out", correctness="llm", judge=judge)

    endpoint.reply = reply
    first = judged()
    assert first.report["rejected"] == {"correctness": {"wrong": 2, "undecided": 2}}
    assert {r["source"] for r in table(first)} == {"a.jsonl:1", "a.jsonl:4", "a.jsonl:7"}
    assert not first.report["complete"]
    details = [r["detail"] for r in table(first, REJECTED_FILE) if r["reason"] == "undecided"]
    assert all("HTTP 500" in detail for detail in details)
    endpoint.requests.clear()
    endpoint.reply = lambda number, body: completion("correct: yes")
    second = judged(max_requests=1)
    assert len(endpoint.requests) == 1
    assert second.report["rejected"] == {"correctness": {"wrong": 2, "undecided": 1}}
    third = judged()
    assert len(endpoint.requests) == 2
    assert third.path == first.path
    assert third.report["rows"]["kept"] == 5
    assert judged().reused
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.endswith(".tmp")]


def test_the_page_shows_the_report(tmp_path: Path, chatml_tokenizer: Any) -> None:
    chatml_tokenizer.save_pretrained(tmp_path / "tokenizer")
    path = write(tmp_path / "a<b>.jsonl", row(0, 3), row(1, 70), {"no": 1})
    made = run(path, tmp_path, tokenizer=str(tmp_path / "tokenizer"))
    shown = (made.path / PAGE_FILE).read_text(encoding="utf-8")
    assert shown.startswith("<!doctype html>")
    assert shown.count("<svg") == 3
    assert "normalise: unknown_shape" in shown
    assert "a&lt;b&gt;.jsonl" in shown
    assert "http" not in shown
    assert made.report["tokens"]["max"] > made.report["tokens"]["min"] > 0
    empty = run(write(tmp_path / "c.jsonl", {"no": 1}), tmp_path)
    assert empty.report["rows"] == {"read": 1, "kept": 0, "rejected": 1, "written": 0}
    assert (empty.path / PAGE_FILE).is_file()
    assert table(empty) == []


def test_a_recorded_trajectory_is_read(tmp_path: Path) -> None:
    recorded = Trajectory(
        task={"question": "Q0", "answers": ["Elbe", "Labe"]}, messages=row(0)["messages"], turns=[], end="answered"
    )
    made = run(write(tmp_path / "a.jsonl", recorded.record()), tmp_path, correctness="exact")
    assert [r["gt"] for r in table(made)] == ["Elbe<|answer_split|>Labe"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data/trajectories")
def test_real_trajectories(tmp_path: Path) -> None:
    made = clean([SHARED], CleanConfig(), tmp_path, progress=False)
    assert made.report["rows"] == {"read": 12, "kept": 12, "rejected": 0, "written": 17}
