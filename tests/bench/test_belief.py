import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from bench import belief  # noqa: E402
from bench.belief import Case, bars, request_of  # noqa: E402


def test_boundaries_are_spread_up_to_the_end() -> None:
    request = request_of(Case(2048, 10, 1, 10))
    assert len(request.ids) == request.boundaries[-1] == 2048
    assert np.ptp(np.diff([0, *request.boundaries])) <= 1
    (probe,) = request.probes
    assert len(probe.ids) - probe.start == 5


def test_all_ways_find_the_same() -> None:
    torch.set_num_threads(1)
    belief.start_worker(1)
    request = request_of(Case(64, 5, 1, 5))
    with torch.no_grad():
        expected = belief.naive(belief._model, request)
        for way in (belief.one_pass, belief.cached):
            np.testing.assert_allclose(way(belief._model, request), expected, atol=1e-4)


def test_bars_are_judged_at_their_size_only() -> None:
    row = {"tokens": 8192, "boundaries": 50, "one_pass_time_ratio": 1.2, "one_pass_memory_ratio": 1.6}
    row["naive_over_one_pass"] = 20.0
    assert [bar.record()["passed"] for bar in bars([{**row, "tokens": 2048}, row])] == [True, False, True]


@pytest.mark.slow
def test_a_quick_run_measures_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "belief.json"
    belief.main(["--quick", "--out", str(out)])
    result = json.loads(out.read_text(encoding="utf-8"))
    assert (result["schema"], result["quick"]) == ("venus.bench/1", True)
    (row,) = result["scoring"]
    assert row["largest_difference"] < 1e-4
    assert row["plain_peak_mb"] > 0
    assert "one_pass_time_ratio" in capsys.readouterr().out
