"""Two short episodes for beliefs to read.

One reply of each states the answer. The replies before and after it do not, but mention what the *other* question asks
for, so that a belief that mixes up episodes is found out.
"""

from __future__ import annotations

from venus_env.protocol.prompt import render_answer, render_call, wrap_tool_response
from venus_env.protocol.trajectory import Trajectory, TurnRecord
from venus_env.protocol.turns import Message
from venus_env.tasks.task import Task

IRRELEVANT = 1
"""A turn whose reply says nothing about the answer."""

RELEVANT = 2
"""The turn whose reply states the answer."""

_SYSTEM = "Answer the question. Use the tools search and visit."


def lund() -> Trajectory:
    """An episode with two accepted answers."""
    return _episode(
        Task(id="lund", question="In which country is the city of Lund?", answers=("Sweden", "Kingdom of Sweden")),
        "A loom is a device for weaving cloth. Some of the oldest ones were found at the North Sea.",
        "Lund is a city in the south of Sweden. It lies in Scania, in the Kingdom of Sweden.",
    )


def elbe() -> Trajectory:
    """An episode about something else, with as many answers."""
    return _episode(
        Task(id="elbe", question="Into which sea does the river Elbe flow?", answers=("North Sea", "German Ocean")),
        "Sourdough is bread that rises by wild yeast. It is popular in Sweden.",
        "The Elbe flows past Hamburg into the North Sea, once called the German Ocean.",
    )


def _episode(task: Task, irrelevant: str, relevant: str) -> Trajectory:
    exchanges = [
        (render_call("Search first.", "search", {"query": [task.id]}), "https://example.org/one"),
        (render_call("Open a page.", "visit", {"url": ["https://example.org/one"], "goal": "facts"}), irrelevant),
        (render_call("Open another.", "visit", {"url": ["https://example.org/two"], "goal": "facts"}), relevant),
        (render_call("Once more.", "visit", {"url": ["https://example.org/three"], "goal": "facts"}), irrelevant),
    ]
    messages = [Message(role="system", content=_SYSTEM), Message(role="user", content=task.question)]
    turns = []
    for index, (turn, reply) in enumerate(exchanges):
        turns.append(TurnRecord(index=index, kind="tool", format_ok=True, message_index=len(messages)))
        messages.append(Message(role="assistant", content=turn))
        messages.append(Message(role="user", content=wrap_tool_response(reply)))
    turns.append(TurnRecord(index=len(turns), kind="answer", format_ok=True, message_index=len(messages)))
    messages.append(Message(role="assistant", content=render_answer("Done.", task.answers[0])))
    return Trajectory(task=task.record(), messages=messages, turns=turns, end="answered", score=1.0)
