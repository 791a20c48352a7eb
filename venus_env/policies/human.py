"""A person at the terminal as a policy."""

from __future__ import annotations

from collections.abc import Sequence

from venus_env.envs.transcript import transcript
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.turns import Message

_HELP = """\
Type one line per turn:
  search WORDS          search the corpus
  visit URL GOAL        open a page
  answer TEXT           give the final answer
  <think>…              anything that starts with < is sent as it is"""


class HumanPolicy:
    """Asks the person at the terminal for each turn; short commands stand for well-formed turns.

    Args:
        show: Print what is new in the conversation before asking, for drivers that do not show it themselves.
    """

    def __init__(self, show: bool = False) -> None:
        self._show = show

    def act(self, messages: Sequence[Message]) -> str:
        """Read one turn from standard input, asking again until it can be understood.

        Raises:
            EOFError: The input has ended.
        """
        if self._show:
            print(transcript(messages[-1:]))
        if len(messages) == 2:
            print(_HELP)
        while True:
            line = input("> ").strip()
            if line.startswith("<"):
                return line
            command, _, rest = line.partition(" ")
            rest = rest.strip()
            if command == "search" and rest:
                return render_call("", "search", {"query": [rest]})
            if command == "visit" and rest:
                url, _, goal = rest.partition(" ")
                return render_call("", "visit", {"url": [url], "goal": goal.strip() or messages[1]["content"]})
            if command == "answer" and rest:
                return render_answer("", rest)
            print(_HELP)
