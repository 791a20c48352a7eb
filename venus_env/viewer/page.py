"""One episode as one HTML page: no scripts, no files beside it, readable in the dark."""

from __future__ import annotations

import json
import re
from html import escape

from venus_env.protocol.parser import Call, parse_turn, repair_turn
from venus_env.protocol.prompt import restore, unwrap_tool_response
from venus_env.protocol.trajectory import Trajectory, TurnRecord

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #656b73; --line: #dcdfe3; --card: #fff; --ground: #f4f5f7;
        --good: #2c7a4b; --bad: #b3372f; --gain: #2f6db3; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6e9; --soft: #9aa1aa; --line: #363b42; --card: #1f2328; --ground: #15181c;
          --good: #6cc28f; --bad: #ec8079; --gain: #7ab0ec; } }
body { margin: 0 auto; max-width: 54rem; padding: 1.5rem; background: var(--ground); color: var(--ink);
       font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; } dl { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; margin: 0 0 1rem; }
dt { color: var(--soft); font-size: .8rem; } dd { margin: 0; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
          padding: .7rem 1rem; margin: .8rem 0; }
header { display: flex; gap: .8rem; align-items: baseline; flex-wrap: wrap; } header b { flex: 1; }
.term, .note { font-size: .85rem; color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); }
.thought { color: var(--soft); white-space: pre-wrap; margin: .4rem 0; }
pre { white-space: pre-wrap; font: .85rem/1.45 ui-monospace, monospace; margin: .4rem 0; }
details { border-top: 1px solid var(--line); margin-top: .5rem; padding-top: .4rem; } summary { cursor: pointer; }
svg { width: 100%; height: 7rem; }
.information_gain { fill: var(--gain); } .format { fill: var(--bad); } .outcome { fill: var(--good); }
line { stroke: var(--soft); stroke-width: .5; }
"""
"""Style sheet of every page that Venus writes."""

_THOUGHT = re.compile(r"^\s*<think>(.*?)</think>\s*", re.DOTALL)
_LONG_REPLY = 2_000  # characters from which on a reply starts folded


def page(trajectory: Trajectory) -> str:
    """Lay out an episode.

    The accepted answers are shown once the episode has ended, never before.

    Args:
        trajectory: A finished episode or one under way.

    Returns:
        A whole HTML document.
    """
    question = trajectory.messages[1]["content"]
    turns = "\n".join(_turn(trajectory, turn) for turn in trajectory.turns)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(question)}</title>\n'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>{escape(question)}</h1>\n{_facts(trajectory)}\n"
        f"{_chart(trajectory.turns)}\n"
        f"<details><summary>System prompt</summary><pre>{escape(trajectory.messages[0]['content'])}</pre></details>\n"
        f"{turns}\n</body>\n</html>\n"
    )


def _facts(trajectory: Trajectory) -> str:
    score, usage = trajectory.score, trajectory.usage
    facts: dict[str, object] = {
        "Ending": trajectory.end + (f", asked at {trajectory.forced}" if trajectory.forced else ""),
        "Score": "none" if score is None else f"{score:.3g}",
        "Return": f"{trajectory.metrics.get('return', 0.0):+.3f}",
        "Turns": len(trajectory.turns),
        "Tool calls": usage.get("tool_calls", 0),
        "Context tokens": usage.get("context_tokens", 0),
        "Task": trajectory.task.get("id", ""),
    }
    if trajectory.error is not None:
        facts["Error"] = trajectory.error
    if trajectory.end != "running":
        facts["Accepted"] = " | ".join(trajectory.task.get("answers", []))
    return (
        "<dl>"
        + "".join(f"<div><dt>{name}</dt><dd>{escape(str(fact))}</dd></div>" for name, fact in facts.items())
        + "</dl>"
    )


def _chart(turns: list[TurnRecord]) -> str:
    """Reward of each turn as a bar around zero, its parts on top of one another."""
    largest = max((abs(value) for turn in turns for value in turn.reward_terms.values()), default=0.0)
    if largest == 0.0:
        return ""
    width, middle, reach = 640.0 / len(turns), 50.0, 40.0
    bars = []
    for place, turn in enumerate(turns):
        for name, value in turn.reward_terms.items():
            height = reach * abs(value) / largest
            top = middle - height if value > 0 else middle
            bars.append(
                f'<rect class="{escape(name)}" x="{place * width + 0.15 * width:.2f}" y="{top:.2f}" '
                f'width="{0.7 * width:.2f}" height="{height:.2f}">'
                f"<title>turn {turn.index + 1}: {escape(name)} {value:+.3f}</title></rect>"
            )
    return (
        f'<svg viewBox="0 0 640 100" preserveAspectRatio="none" role="img" aria-label="Reward of each turn">'
        f'<line x1="0" y1="{middle}" x2="640" y2="{middle}"/>{"".join(bars)}</svg>'
    )


def _turn(trajectory: Trajectory, turn: TurnRecord) -> str:
    messages = trajectory.messages
    text = messages[turn.message_index]["content"]
    reply = messages[turn.message_index + 1]["content"] if turn.message_index + 1 < len(messages) else None
    thought = _THOUGHT.match(text)
    marks = [mark for mark in ("duplicate", "forced") if getattr(turn, mark)]
    notes = [*marks, *([turn.error] if turn.error else []), *([] if turn.format_ok else ["not laid out as asked"])]
    terms = " ".join(
        f'<span class="{"good" if value > 0 else "bad" if value < 0 else ""}">{escape(name)} {value:+.3f}</span>'
        for name, value in turn.reward_terms.items()
    )
    return (
        f"<section><header><b>{turn.index + 1}. {escape(turn.tool or turn.kind)}</b>"
        f'<span class="note">{escape("; ".join(notes))}</span><span class="term">{terms}</span></header>\n'
        + (f'<div class="thought">{escape(thought[1].strip())}</div>' if thought else "")
        + f"<pre>{escape(_action(text, turn))}</pre>{_reply(reply)}</section>"
    )


def _action(text: str, turn: TurnRecord) -> str:
    """What follows the thought: a call as indented JSON, anything else as it was written."""
    parsed = parse_turn(repair_turn(text)) if turn.kind == "tool" else None
    if isinstance(parsed, Call):
        return json.dumps(parsed.arguments, ensure_ascii=False, indent=1)
    return _THOUGHT.sub("", text)


def _reply(content: str | None) -> str:
    if content is None:
        return ""
    text = restore(unwrap_tool_response(content))
    opened = "" if len(text) > _LONG_REPLY else " open"
    return f"<details{opened}><summary>Reply, {len(text):,} characters</summary><pre>{escape(text)}</pre></details>"
