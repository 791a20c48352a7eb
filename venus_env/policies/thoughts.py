"""The oracle's thoughts: short, regular, and true of what it has just read, since small models learn to write them."""

from __future__ import annotations

from collections.abc import Sequence


def first(goal: str, title: str) -> str:
    """Before the first search."""
    return f"First the {goal} of {title}."


def onward(goal: str, value: str, next_goal: str) -> str:
    """A value has been read; before searching for its page."""
    return f"The {goal} is {value}. Next the {next_goal}."


def beside(goal: str, title: str) -> str:
    """Before searching for a page that no earlier value has named: the other side of a comparison."""
    return f"Now the {goal} of {title}."


def found(title: str) -> str:
    """The wanted page is among the results; before opening it."""
    return f"{title} is in the results. Open it."


def missing(title: str) -> str:
    """The wanted page is not among the results; before searching again."""
    return f"{title} is not in the results. Search again."


def detour(title: str) -> str:
    """Before opening a page that will not help."""
    return f"{title} may help. Open it."


def back(wrong: str, title: str) -> str:
    """The page just read does not help; before opening the right one."""
    return f"{wrong} is the wrong page. Back to {title}."


def unclear(goal: str, title: str) -> str:
    """The page as shown lacks the value; before reading it again."""
    return f"The {goal} of {title} is not shown. Read again."


def done(goal: str, value: str) -> str:
    """Before answering."""
    return f"The {goal} is {value}. Done."


def weighed(values: Sequence[str], answer: str) -> str:
    """Before an answer that stands on no page but follows from what was read."""
    return f"Read: {'; '.join(values)}. So the answer is {answer}. Done."


def check(goal: str, title: str) -> str:
    """Before searching for a second page that states what was read."""
    return f"Check the {goal} of {title} on another page."


def second(title: str) -> str:
    """Before opening a page that may confirm what was read."""
    return f"{title} may confirm it. Open it."


def confirmed(title: str, thought: str) -> str:
    """A second page says the same; before answering."""
    return f"{title} says the same. {thought}"


def unconfirmed(thought: str) -> str:
    """No second page was found; before answering all the same."""
    return f"No other page tells. {thought}"


def ask_first() -> str:
    """Before searching for the question itself, where only supporting titles are known."""
    return "Search for the question first."


def give_up() -> str:
    """Before answering without having found the answer."""
    return "The answer was not found. Stop here."
