from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from venus_env.tokens import Renderer
from venus_rl.data.build import SFT_FILE, build_sft
from venus_rl.data.normalise import ReadReport, read_conversations
from venus_rl.data.sources import find_files

SFT = Path(__file__).resolve().parents[3] / "../shared/data/trajectories/sft"


def rows(count: int, extra_turns: int = 0) -> list[dict[str, Any]]:
    made = []
    for number in range(count):
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": f"Question {number}?"}]
        for turn in range(extra_turns):
            messages.append({"role": "assistant", "content": f"<think>{turn}</think>\n<tool_call>{{}}</tool_call>"})
            messages.append({"role": "user", "content": "<tool_response>\nThe Elbe.\n</tool_response>"})
        messages.append({"role": "assistant", "content": f"<think>t</think>\n<answer>{number}</answer>"})
        made.append({"question": f"Question {number}?", "messages": messages, "gt": str(number)})
    return made


def write(path: Path, content: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, content)))
    return path


def test_rows_hold_the_rendered_conversations(tmp_path: Path, chatml_tokenizer: Any) -> None:
    source = write(tmp_path / "a.jsonl", rows(3, extra_turns=2))
    built = build_sft([source], chatml_tokenizer, tmp_path / "out", max_tokens=1000, progress=False)
    table = pyarrow.parquet.read_table(built.path / SFT_FILE).to_pylist()
    renderer = Renderer(chatml_tokenizer)
    expected = [renderer.encode(r.messages) for r in read_conversations(find_files([source]), ReadReport())]
    assert [r["input_ids"] for r in table] == [c.ids for c in expected]
    assert [r["loss_mask"] for r in table] == [c.mask for c in expected]
    assert [(r["turns"], r["tokens"], r["source"]) for r in table] == [
        (3, len(c.ids), f"a.jsonl:{i}") for i, c in enumerate(expected, start=1)
    ]
    report = built.report
    assert (report["rows"], report["kept"], report["dropped"]) == (3, 3, {})
    assert report["turns"] == {"min": 3, "median": 3, "p90": 3, "max": 3, "mean": 3}
    assert report["total_tokens"] == sum(len(c.ids) for c in expected)
    assert report["loss_token_share"] == sum(sum(c.mask) for c in expected) / report["total_tokens"]


def test_over_long_trajectories_are_dropped_and_counted_never_cut(tmp_path: Path, chatml_tokenizer: Any) -> None:
    short, long = rows(2), rows(1, extra_turns=9)
    source = write(tmp_path / "a.jsonl", [*short, *long, {**short[0], "messages": short[0]["messages"][:2]}])
    built = build_sft([source], chatml_tokenizer, tmp_path / "out", max_tokens=80, progress=False)
    assert built.report["kept"] == 2
    assert built.report["dropped"] == {"over_long": 1, "too_short": 1}
    assert pyarrow.parquet.read_table(built.path / SFT_FILE).num_rows == 2
    with pytest.raises(ValueError, match=r"no trajectory is left of 4 rows.*over_long"):
        build_sft([source], chatml_tokenizer, tmp_path / "out", max_tokens=5, progress=False)


def test_work_is_redone_only_when_something_changed(
    tmp_path: Path, chatml_tokenizer: Any, thinking_tokenizer: Any
) -> None:
    source = write(tmp_path / "a.jsonl", rows(1))
    out = tmp_path / "out"
    first = build_sft([source], chatml_tokenizer, out, max_tokens=100, progress=False)
    assert build_sft([source], chatml_tokenizer, out, max_tokens=100, progress=False).reused
    assert not build_sft([source], chatml_tokenizer, out, max_tokens=99, progress=False).reused
    assert not build_sft([source], thinking_tokenizer, out, max_tokens=100, progress=False).reused
    write(source, rows(2))
    changed = build_sft([source], chatml_tokenizer, out, max_tokens=100, progress=False)
    assert not changed.reused
    assert changed.path != first.path


@pytest.mark.skipif(not SFT.is_dir(), reason="needs ../shared/data/trajectories/sft")
def test_real_expert_trajectories(tmp_path: Path, thinking_tokenizer: Any) -> None:
    built = build_sft([SFT], thinking_tokenizer, tmp_path, max_tokens=400_000, progress=False)
    assert built.report["kept"] == 7
    assert (built.report["turns"]["min"], built.report["turns"]["max"]) == (18, 49)
    for row in pyarrow.parquet.read_table(built.path / SFT_FILE).to_pylist():
        messages = json.loads((SFT / row["source"].partition(":")[0]).read_text(encoding="utf-8"))["messages"]
        trained = [i for i, m in zip(row["input_ids"], row["loss_mask"], strict=True) if m]
        texts = [m["content"].removeprefix("<think>\n") + "<|im_end|>" for m in messages if m["role"] == "assistant"]
        assert thinking_tokenizer.decode(trained) == "".join(texts)
