import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.env.protocol.tools import Lookup
from venus_env.testing import (
    Check,
    ConformanceError,
    Report,
    check_belief,
    check_corpus,
    check_judge,
    check_policy,
    check_tool,
)
from venus_env.testing.report import Doubtful, Failed, NotApplicable, expect, short


def raising(error: Exception) -> Any:
    def body() -> None:
        raise error

    return body


def full_report() -> Report:
    report = Report("a thing")
    report.run("good", lambda: "a remark")
    report.run("bad", raising(Failed("expected 1\ngot 2")))
    report.run("odd", raising(Doubtful("hardly")))
    report.run("absent", raising(NotApplicable("nothing here")))
    report.run("crash", raising(KeyError("x")))
    report.run("after bad", lambda: None, needs=("good", "bad"))
    report.run("after odd", lambda: None, needs=("good", "odd"))
    return report


def test_every_ending_of_a_check() -> None:
    report = full_report()
    assert not report.ok
    assert {check.name: check.status for check in report.checks} == {
        "good": "passed",
        "bad": "failed",
        "odd": "warning",
        "absent": "skipped",
        "crash": "failed",
        "after bad": "skipped",
        "after odd": "passed",
    }
    assert report.checks[0] == Check("good", "passed", "a remark")
    assert "raised KeyError: 'x' (test_report.py:" in report.checks[4].message
    assert report.checks[5].message == "needs bad"


def test_text_and_record() -> None:
    report = full_report()
    lines = str(report).splitlines()
    assert lines[:5] == ["a thing", "  ✓ good", "      a remark", "  ✗ bad", "      expected 1"]
    assert "  ! odd" in lines
    assert lines[-1] == "7 checks: 2 passed, 2 failed, 1 warning, 2 skipped"
    record = json.loads(json.dumps(report.record()))
    assert record["ok"] is False
    assert record["checks"][2] == {"name": "odd", "status": "warning", "message": "hardly"}


def test_checks_skipped_in_a_row_for_one_reason_share_a_line() -> None:
    report = Report("a thing")
    report.run("bad", raising(Failed("no")))
    for name in "abcde":
        report.run(name, lambda: None, needs=("bad",))
    report.run("f", raising(NotApplicable("nothing here")))
    report.run("good", lambda: None)
    report.run("g", lambda: None, needs=("bad",))
    report.run("h", lambda: None, needs=("bad",))
    assert str(report).splitlines()[3:-1] == [
        "  - 5 skipped (need bad): a, b, c, d, …",
        "  - f",
        "      nothing here",
        "  ✓ good",
        "  - 2 skipped (need bad): g, h",
    ]
    assert [check["name"] for check in report.record()["checks"]] == ["bad", *"abcdef", "good", "g", "h"]
    assert report.record()["checks"][1]["message"] == "needs bad"


def test_raising_lists_the_failures_only() -> None:
    with pytest.raises(
        ConformanceError, match=r"^a thing\n  ✗ bad\n      expected 1\n      got 2\n  ✗ crash"
    ) as caught:
        full_report().raise_if_failed()
    assert "odd" not in str(caught.value)
    sound = Report("a thing")
    sound.run("odd", raising(Doubtful("hardly")))
    sound.raise_if_failed()


async def test_what_hangs_is_left_behind() -> None:
    async def stubborn() -> None:
        for _ in range(3):
            try:
                await asyncio.sleep(0.2)
            except asyncio.CancelledError:
                continue

    async def cancelled() -> None:
        raise asyncio.CancelledError

    report = Report("a thing", timeout_s=0.05)
    await report.run_async("hangs", stubborn)
    await report.run_async("cancelled", cancelled)
    assert report.named("failed") == ["hangs", "cancelled"]
    assert "did not finish within 0.05 s" in report.checks[0].message


def test_messages_are_bounded() -> None:
    assert len(short("x" * 100_000)) < 200
    assert len(short({str(number): "x" * 1000 for number in range(1000)})) < 1000
    expect(True, "not raised")


async def test_checks_work_inside_a_running_loop() -> None:
    assert check_tool(Lookup(), [{"query": ["lund"]}]).ok


@pytest.mark.parametrize("check", [check_tool, check_corpus, check_belief, check_judge, check_policy])
def test_a_class_is_refused(check: Any) -> None:
    with pytest.raises(TypeError, match=r"got the class Lookup; pass an object, such as Lookup\(\)"):
        check(Lookup)


def test_importing_the_checks_loads_nothing_heavy() -> None:
    heavy = "torch transformers faiss bm25s pandas omegaconf verl ray"
    code = f"import sys, venus_env.testing.cli; print([m for m in {heavy.split()} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
