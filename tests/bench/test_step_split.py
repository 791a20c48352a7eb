from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.step_split import main, report


def test_parts_of_a_step_and_what_is_left_add_up(tmp_path: Path) -> None:
    row = {"step": 1, "timing_s/step": 10.0, "timing_s/gen": 5.0, "timing_s/update_actor": 3.0, "perf/throughput": 42.0}
    for stage, metrics in (("rl", row), ("sft", {"step": 1, "train/global_tokens": 600})):
        (tmp_path / stage).mkdir()
        (tmp_path / stage / "metrics.jsonl").write_text(json.dumps(metrics) + "\n")
    (tmp_path / "sft" / "finished.json").write_text('{"seconds": 30.0}')
    text = "\n".join(report(tmp_path))
    assert "1 steps, 600 tokens, 20 tokens/s over its 30 s" in text
    shares = {" ".join(line.split()[:-3]): line.split()[-1] for line in text.splitlines() if line.endswith("%)")}
    assert shares["rollouts"] == "(50%)"
    assert shares["update"] == "(30%)"
    assert shares["everything else"] == "(20%)"


def test_a_folder_without_metrics_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "holds no metrics" in capsys.readouterr().err
