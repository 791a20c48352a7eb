"""The oracle: walks the gold path through the real tools and answers with what it has read there."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Generator, Sequence
from typing import ClassVar, Literal, TypeVar, get_args

from venus_env.policies import thoughts
from venus_env.protocol.prompt import (
    forced_answer_request,
    render_answer,
    render_call,
    restore,
    unwrap_tool_response,
)
from venus_env.protocol.turns import Forced, Message
from venus_env.seeding import derive_seed
from venus_env.tasks.task import Evidence, Task
from venus_env.tasks.world.graph import mentions

T = TypeVar("T")
Steps = Generator[str, str, T]
"""Yields turns, is sent the replies, returns a ``T``."""

Style = Literal["direct", "recover", "cross_check", "mixed", "varied"]

_DRAWN: dict[str, tuple[Style, ...]] = {
    "mixed": ("direct", "recover"),
    "varied": ("direct", "recover", "cross_check"),
}
_CHECKS = 2
"""Pages that ``cross_check`` opens at most."""

UNKNOWN = "unknown"
"""The oracle's answer when the tools did not lead it to the gold one."""

_COMPACT_HIT = re.compile(r"^\d+\. (?P<title>.+)\n(?P<url>https?://\S+)$", re.MULTILINE)
_FORCED = tuple(forced_answer_request(limit) for limit in get_args(Forced))


class OraclePolicy:
    """Follows a task's evidence: search for the page, open it, read the value, go on; then answer.

    It knows the path but uses nothing that the tools have not shown: it opens only urls that a search has returned,
    and moves on with a value only after that value stood on a page that it opened. Where that fails it answers
    ``unknown``. Tasks that name supporting titles only are answered once all of them have been opened; tasks without
    evidence, if the answer stands on the best page found for the question.

    Args:
        style: ``direct`` opens only right pages; ``recover`` opens a wrong result once an episode and comes back;
            ``cross_check`` looks for a second page that states the last value before it answers; ``mixed`` draws one of
            the first two for each episode, ``varied`` one of the three.
        seed: Fixes every choice, together with the task's id and the seed of the episode.
    """

    needs_task: ClassVar[bool] = True

    def __init__(self, style: Style = "direct", seed: int = 0) -> None:
        if style not in get_args(Style):
            raise ValueError(f"style must be one of {', '.join(get_args(Style))}, not {style!r}")
        self.style = style
        self.seed = seed

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> OracleEpisode:
        """Start on ``task``, which the oracle cannot do without."""
        if task is None:
            raise ValueError("OraclePolicy follows a task's evidence: call new_episode(task)")
        rng = random.Random(derive_seed(self.seed, task.id, -1 if seed is None else seed))
        style = rng.choice(_DRAWN[self.style]) if self.style in _DRAWN else self.style
        return OracleEpisode(task, rng, detour=style == "recover", cross_check=style == "cross_check")


class OracleEpisode:
    """The oracle at work on one task; made by :class:`OraclePolicy`.

    The script is a generator: it yields a turn and is sent the reply to it.
    """

    def __init__(self, task: Task, rng: random.Random, *, detour: bool, cross_check: bool) -> None:
        self._task = task
        self._rng = rng
        self._cross_check = cross_check
        self._urls: dict[str, str] = {}
        self._last_titles: list[str] = []
        self._read = ""
        self._pages: dict[str, str] = {}
        titles = [step.title for step in task.evidence]
        opened = [number for number, title in enumerate(titles) if title not in titles[:number]]
        # The evidence whose search is followed by a wrong page first, if this episode makes a detour at all.
        self._detour_at = opened[rng.randrange(len(opened))] if detour and opened else None
        chained = bool(titles) and all(step.relation and step.value for step in task.evidence)
        self._script = self._chain() if chained else self._titles()
        self._started = False

    def act(self, messages: Sequence[Message]) -> str:
        """Write the next turn, given the reply to the last one."""
        reply = restore(unwrap_tool_response(messages[-1]["content"]))
        if any(request in reply for request in _FORCED):
            self._read += "\n" + reply
            answer = next((answer for answer in self._task.answers if mentions(self._read, answer)), None)
            return render_answer(thoughts.give_up(), UNKNOWN) if answer is None else self._answer("answer", answer)
        if not self._started:
            self._started = True
            return next(self._script)
        try:
            return self._script.send(reply)
        except StopIteration:
            raise RuntimeError(f"the oracle has already answered task {self._task.id!r}; start a new episode") from None

    def _chain(self) -> Steps[None]:
        """Step by step over evidence that says what to read on each page; a page that was read is not opened again."""
        steps = self._task.evidence
        for number, step in enumerate(steps):
            goal, value = step.relation or "", step.value or ""
            if step.title in self._pages:
                self._read = self._pages[step.title]
            else:
                queries = [step.title, f"{step.title} {goal}"]
                if not (yield from self._open(step, queries, goal, self._towards(number), number)):
                    break
            if not mentions(self._read, value):
                url = self._urls[step.title]
                call = {"url": [url], "goal": f"{goal} of {step.title}"}
                self._read = yield render_call(thoughts.unclear(goal, step.title), "visit", call)
                self._pages[step.title] += "\n" + self._read
                if not mentions(self._read, value):
                    break
        else:
            yield from self._conclude()
            return
        yield render_answer(thoughts.give_up(), UNKNOWN)

    def _towards(self, number: int) -> str:
        """The thought before searching for the page of a step: how it follows from the step before."""
        step = self._task.evidence[number]
        goal = step.relation or ""
        if number == 0:
            return thoughts.first(goal, step.title)
        before = self._task.evidence[number - 1]
        if before.value == step.title:
            return thoughts.onward(before.relation or "", before.value or "", goal)
        return thoughts.beside(goal, step.title)

    def _conclude(self) -> Steps[None]:
        """Answer with the last value, or with what follows from all values that were read."""
        last = self._task.evidence[-1]
        goal, value = last.relation or "", last.value or ""
        if value in self._task.answers:
            answer, thought = value, thoughts.done(goal, value)
        else:
            answer = self._task.answers[0]
            values = dict.fromkeys(f"{step.title}, {step.relation}: {step.value}" for step in self._task.evidence)
            thought = thoughts.weighed(list(values), answer)
        if self._cross_check:
            confirming = yield from self._confirm(last.title, goal, value)
            thought = thoughts.unconfirmed(thought) if confirming is None else thoughts.confirmed(confirming, thought)
        yield render_answer(thought, answer)

    def _confirm(self, subject: str, goal: str, value: str) -> Steps[str | None]:
        """Look for another page that names subject and value together; its title, or None if none was found."""
        known = {step.title for step in self._task.evidence}
        yield from self._search(f"{subject} {goal} {value}", thoughts.check(goal, subject))
        others = [title for title in self._last_titles if title not in known]
        for title in others[:_CHECKS]:
            # The tool repeats the goal in its reply, so the goal must not name what the page is to confirm.
            call = {"url": [self._urls[title]], "goal": goal}
            page = yield render_call(thoughts.second(title), "visit", call)
            if mentions(page, subject) and mentions(page, value):
                return title
        return None

    def _titles(self) -> Steps[None]:
        """Search for the question, open every supporting page (or, if none is known, the best one), answer."""
        question = self._task.question
        yield from self._search(question, thoughts.ask_first())
        if self._task.evidence:
            opened = True
            for number, step in enumerate(self._task.evidence):
                opened &= yield from self._open(step, [step.title], question, None, number)
            if opened:
                yield self._answer("answer", self._task.answers[0])
                return
        elif self._last_titles:
            best = self._last_titles[0]
            self._read = yield render_call(thoughts.found(best), "visit", {"url": [self._urls[best]], "goal": question})
            for answer in self._task.answers:
                if mentions(self._read, answer):
                    yield self._answer("answer", answer)
                    return
        yield render_answer(thoughts.give_up(), UNKNOWN)

    def _open(self, step: Evidence, queries: list[str], goal: str, thought: str | None, number: int) -> Steps[bool]:
        """Find a page by searching, open it and keep what it says in ``_read``; False if no search shows it.

        Args:
            step: The evidence whose page is wanted.
            queries: What to search for, in turn.
            goal: Goal of the visit.
            thought: Thought of the first search; None to search only if the page has not been seen yet.
            number: Position of ``step``, for the detour.
        """
        for query in queries:
            if thought is None and step.title in self._urls:
                break
            yield from self._search(query, thought or thoughts.missing(step.title))
            thought = None
        if step.title not in self._urls:
            return False
        thought = thoughts.found(step.title)
        wrong = [title for title in self._last_titles if title not in {other.title for other in self._task.evidence}]
        if number == self._detour_at and wrong:
            title = self._rng.choice(wrong)
            yield render_call(thoughts.detour(title), "visit", {"url": [self._urls[title]], "goal": goal})
            thought = thoughts.back(title, step.title)
        self._read = yield render_call(thought, "visit", {"url": [self._urls[step.title]], "goal": goal})
        self._pages[step.title] = self._read
        return True

    def _search(self, query: str, thought: str) -> Steps[None]:
        reply = yield render_call(thought, "search", {"query": [query]})
        hits = hits_in(reply)
        self._last_titles = [title for title, _ in hits]
        for title, url in hits:
            self._urls.setdefault(title, url)

    @staticmethod
    def _answer(goal: str, value: str) -> str:
        return render_answer(thoughts.done(goal, value), value)


def hits_in(reply: str) -> list[tuple[str, str]]:
    """Titles and urls of the search results in a tool's reply, in order, whichever layout the tool writes."""
    try:
        records = json.loads(reply)
    except ValueError:
        return [(match["title"], match["url"]) for match in _COMPACT_HIT.finditer(reply)]
    return [(hit["title"], hit["url"]) for record in records for hit in record["web_page_info_list"]]
