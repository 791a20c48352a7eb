import json
from pathlib import Path

import pytest

from bench import env_throughput
from bench.env_throughput import Bar, bars, table

SECTIONS = ["overhead", "growth", "tokenisation", "slow_tools", "memory", "retrieval"]


@pytest.mark.parametrize(
    ("bar", "passed"),
    [
        (Bar("a", 1.0, 1.0), True),
        (Bar("a", 1.1, 1.0), False),
        (Bar("a", 50.0, 50.0, at_least=True), True),
        (Bar("a", 49.0, 50.0, at_least=True), False),
    ],
)
def test_bars_are_judged(bar: Bar, passed: bool) -> None:
    assert bar.record()["passed"] is passed


def test_only_what_was_measured_is_judged() -> None:
    assert bars({}) == []
    overhead = [{"episodes": n, "belief": None, "p95_ms": 0.5 * n / 64} for n in (1, 64, 256)]
    assert [bar["measured"] for bar in bars({"overhead": overhead})] == [0.5]


def test_tables_align() -> None:
    lines = table([{"name": "x", "value": 1.23456, "ok": False}, {"name": None, "value": 10, "ok": True}]).splitlines()
    assert lines == ["name  value   ok", "   x  1.235   NO", "None     10  yes"]


def test_an_unknown_section_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        env_throughput.main(["--only", "speed"])
    assert "invalid choice: 'speed'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_quick_run_measures_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results" / "env.json"
    env_throughput.main(["--quick", "--seed", "3", "--out", str(out)])
    result = json.loads(out.read_text(encoding="utf-8"))
    assert (result["schema"], result["quick"], result["seed"]) == ("venus.bench/1", True, 3)
    assert [section for section in result if section in SECTIONS] == SECTIONS
    assert all(isinstance(row["steps_per_s"], float) for name in ("overhead", "retrieval") for row in result[name])
    assert len(result["bars"]) == 6
    assert result["machine"]["packages"]["numpy"]
    assert [path.name for path in out.parent.iterdir()] == ["env.json"]
    printed = capsys.readouterr().out
    assert all(f"\n{section}\n" in printed for section in [*SECTIONS, "bars"])
