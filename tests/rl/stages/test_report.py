from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from venus_env.evaluation.card import ResultCard, make_card, write_card
from venus_env.evaluation.metrics import Estimate
from venus_env.protocol.trajectory import Trajectory
from venus_env.setting import Setting
from venus_rl.config import Config
from venus_rl.run_folder import RunFolder
from venus_rl.stages import report


def episode(task: str, answer: str, hops: int | None, end: str = "answered") -> Trajectory:
    return Trajectory.model_validate(
        {
            "task": {"id": task, "question": "q?", "answers": ["right"], "hops": hops},
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": "q?"},
                {"role": "assistant", "content": f"<think>t</think>\n<answer>{answer}</answer>"},
            ],
            "turns": [{"index": 0, "kind": "answer", "format_ok": answer == "right", "message_index": 2}],
            "end": end,
            "score": 1.0 if answer == "right" else 0.0,
        }
    )


@pytest.fixture
def card(make_config: Callable[..., Config], setting: Setting) -> Callable[..., ResultCard]:
    def make(*episodes: Trajectory, **baselines: Estimate) -> ResultCard:
        config = make_config()
        return make_card(
            episodes,
            policy={"checkpoint": "x"},
            seed=0,
            samples=1,
            corpus_hash="c",
            tools=setting.tools,
            config=config.env,
            rewards=config.env.rewards,
            baselines=baselines,
            notes={"split": "test"},
        )

    return make


def cells(table: str) -> dict[str, list[str]]:
    rows = [line.rstrip() for line in table.splitlines() if line.strip()]
    return {row[:32].strip(): row[32:].replace(" ±", "±").split() for row in rows[1:]}


def test_table_shows_all_checkpoints_and_what_they_lack(card: Callable[..., ResultCard]) -> None:
    half = Estimate(mean=0.5, standard_error=0.25, questions=4)
    before = card(episode("a", "wrong", 1), episode("b", "wrong", 1))
    after = card(episode("a", "right", 1), episode("b", "wrong", 2), closed_book=half)
    text = report.table({"initial": before, "rl": after})
    assert text.splitlines()[1] == "2 questions, split test"
    shown = cells(text)
    # EM of 1 and 0: mean 0.5, standard error sqrt(0.5 / 2) = 0.5.
    assert shown["success (exact match)"] == ["0.000±0.000", "0.500±0.500"]
    assert shown["1 hop"] == ["0.000±0.000", "1.000"]
    assert shown["2 hops"] == ["-", "0.000"]
    assert shown["word F1"] == ["0.000±0.000", "0.500±0.500"]
    assert shown["turns"] == ["1.00", "1.00"]
    assert shown["visits"] == ["0.00", "0.00"]
    assert shown["format errors"] == ["1.00", "0.50"]
    assert shown["information-gain coverage"] == ["-", "-"]
    assert shown["for comparison: closed book"] == ["-", "0.500±0.250"]


def test_table_counts_episodes_that_the_infrastructure_lost(card: Callable[..., ResultCard]) -> None:
    lost = card(episode("a", "right", 1), episode("b", "", 1, end="tool_failure"))
    shown = cells(report.table({"rl": lost}))
    assert shown["not graded"] == ["1"]
    assert shown["success (exact match)"] == ["1.000"]


def test_table_of_nothing_says_so() -> None:
    assert "no evaluation" in report.table({})


def write_metrics(root: Path, stage: str, rows: list[dict[str, Any]]) -> None:
    (root / stage).mkdir(exist_ok=True)
    (root / stage / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_run_writes_result_curve_and_the_lines_to_go_on_with(
    make_config: Callable[..., Config],
    setting: Setting,
    card: Callable[..., ResultCard],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = RunFolder(make_config(rl={"steps": 3}))
    write_card(card(episode("a", "right", 1)), folder.root / "eval" / "rl.json")
    write_metrics(folder.root, "sft", [{"step": 1, "train/loss": 2.0}, {"step": 2, "train/loss": 1.0}])
    write_metrics(folder.root, "rl", [{"step": 1, "episode/score": 0.5, "turn/format_error": 0.1}, {"step": 2}])
    (folder.root / "rl" / "model").mkdir()
    folder.finish("rl", "k", 4.0, steps=3)
    result = report.run(folder, setting, seconds=7.26)
    assert result == json.loads((folder.root / "result.json").read_text(encoding="utf-8"))
    assert result["schema"] == "venus.result/1"
    assert result["seconds"] == {"last_command": 7.3, "rl": 4.0}
    assert result["evaluations"]["rl"]["scores"]["exact_match"]["mean"] == 1.0
    assert Config.model_validate(result["config"]) == folder.config
    assert (folder.root / "curve.png").read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert report.table({"rl": ResultCard.model_validate(result["evaluations"]["rl"])}) in out
    assert f"--config {folder.root / 'config.yaml'} rl.steps=6" in out
    assert f"run.dir={folder.root}-grpo rl.algorithm=grpo" in out
    assert f"from_pretrained({str(folder.root / 'rl' / 'model')!r})" in out


@pytest.mark.parametrize(("made", "named"), [([], None), (["sft"], "sft"), (["sft", "rl"], "rl")])
def test_only_a_policy_that_exists_is_offered_for_loading(
    make_config: Callable[..., Config],
    setting: Setting,
    capsys: pytest.CaptureFixture[str],
    made: list[str],
    named: str | None,
) -> None:
    folder = RunFolder(make_config(rl={"steps": 0}))
    for name in made:
        (folder.root / name / "model").mkdir(parents=True)
    report.run(folder, setting, seconds=0)
    out = capsys.readouterr().out
    assert ("load it:" in out) == (named is not None)
    if named:
        assert str(folder.root / named / "model") in out
    assert "rl.steps=2" in out
