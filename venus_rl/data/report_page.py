"""What a run of the pipeline did, as one HTML page: no scripts, no files beside it, readable in the dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from venus_env.viewer.page import STYLE

_STYLE = """
table { border-collapse: collapse; font-size: .9rem; } td, th { padding: .1rem .9rem .1rem 0; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } h2 { font-size: 1.05rem; margin: 0 0 .4rem; }
text { font: 9px system-ui, sans-serif; fill: var(--soft); } .bar { fill: var(--gain); }
section svg { height: auto; }
"""
_TITLES = {
    "before": "Turns before: trajectories as read",
    "after": "Turns after: trajectories that are kept",
    "written": "Turns as written: copies included",
}
_BARS = 24
_WIDTH, _HEIGHT = 640.0, 110.0


def page(report: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Lay out the report of :func:`venus_rl.data.pipeline.clean`.

    Args:
        report: Its counts.
        files: What was read.

    Returns:
        A whole HTML document.
    """
    rows = report["rows"]
    facts = {
        "Rows read": rows["read"],
        "Kept": rows["kept"],
        "Rejected": rows["rejected"],
        "Written with copies": rows["written"],
        "Files": len(files),
    }
    widest = max((int(turns) for histogram in report["turns"].values() for turns in histogram), default=0)
    sections = [_section(title, _chart(report["turns"][name], widest, title)) for name, title in _TITLES.items()]
    reasons = [
        (f"{stage}: {reason}", number)
        for stage, counts in report["rejected"].items()
        for reason, number in counts.items()
    ]
    sections.append(_section("Rejected rows by stage and reason", _table(reasons) or "<p>None.</p>"))
    for stage, counts in report["stages"].items():
        title = "Tools that the kept trajectories call" if stage == "tools" else f"Stage {stage}"
        sections.append(_section(title, _table(counts.items()) or "<p>Nothing to do.</p>"))
    if report["tokens"]:
        numbers = [(name, round(value)) for name, value in report["tokens"].items()]
        sections.append(_section("Tokens of a kept trajectory", _table(numbers)))
    buckets = [
        (f"{name}, {label} turns", number)
        for name, counts in report["buckets"].items()
        for label, number in counts.items()
    ]
    sections.append(_section("Buckets of turns", _table(buckets)))
    sections.append(_section("Rows by file", _table(report["files"].items())))
    shown = "".join(f"<div><dt>{name}</dt><dd>{number:,}</dd></div>" for name, number in facts.items())
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>SFT data</title>\n'
        f"<style>{STYLE}{_STYLE}</style></head>\n<body>\n<h1>SFT data</h1>\n<dl>{shown}</dl>\n"
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _table(rows: Any) -> str:
    cells = "".join(f'<tr><td>{escape(str(name))}</td><td class="n">{number:,}</td></tr>' for name, number in rows)
    return f"<table>{cells}</table>" if cells else ""


def _chart(histogram: Mapping[str, int], widest: int, title: str) -> str:
    """Bars of equal width over turns; the same axis in every chart, so that they can be compared."""
    step = widest // _BARS + 1
    bars = [0] * (widest // step + 1)
    for turns, number in histogram.items():
        bars[int(turns) // step] += number
    tallest, width = max(bars), _WIDTH / len(bars)
    if not tallest:
        return "<p>None.</p>"
    drawn = []
    for place, number in enumerate(bars):
        height = (_HEIGHT - 26) * number / tallest
        name = f"{place * step}–{place * step + step - 1}" if step > 1 else str(place)
        x, top = place * width, _HEIGHT - 14 - height
        drawn.append(
            f'<rect class="bar" x="{x + 0.1 * width:.1f}" y="{top:.1f}" width="{0.8 * width:.1f}" '
            f'height="{height:.1f}"><title>{name} turns: {number:,}</title></rect>'
        )
        if number:
            drawn.append(f'<text x="{x + width / 2:.1f}" y="{top - 3:.1f}" text-anchor="middle">{number:,}</text>')
        if place % 4 == 0:
            drawn.append(f'<text x="{x:.1f}" y="{_HEIGHT - 3}">{place * step}</text>')
    base = f'<line x1="0" y1="{_HEIGHT - 14}" x2="{_WIDTH}" y2="{_HEIGHT - 14}"/>'
    opened = f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{escape(title)}">'
    return f"{opened}{base}{''.join(drawn)}</svg>"
