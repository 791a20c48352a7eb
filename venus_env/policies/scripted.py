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

Style = Literal["direct", "recover", "mixed"]

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
            ``mixed`` draws one of the two for each episode.
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
        style = rng.choice(("direct", "recover")) if self.style == "mixed" else self.style
        return OracleEpisode(task, rng, detours=int(style == "recover"))


class OracleEpisode:
    """The oracle at work on one task; made by :class:`OraclePolicy`.

    The script is a generator: it yields a turn and is sent the reply to it.
    """

    def __init__(self, task: Task, rng: random.Random, detours: int) -> None:
        self._task = task
        self._rng = rng
        self._urls: dict[str, str] = {}
        self._last_titles: list[str] = []
        self._read = ""
        hops = len(task.evidence)
        # The evidence whose search is followed by a wrong page first, if this episode makes a detour at all.
        self._detour_at = rng.randrange(hops) if detours and hops else None
        chained = hops > 0 and all(step.relation and step.value for step in task.evidence)
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
        """Hop by hop over evidence that says what to read on each page."""
        steps = self._task.evidence
        thought = thoughts.first(steps[0].relation or "", steps[0].title)
        for number, step in enumerate(steps):
            goal, value = step.relation or "", step.value or ""
            queries = [step.title, f"{step.title} {goal}"]
            if not (yield from self._open(step, queries, goal, thought, number)):
                break
            if not mentions(self._read, value):
                url = self._urls[step.title]
                call = {"url": [url], "goal": f"{goal} of {step.title}"}
                self._read = yield render_call(thoughts.unclear(goal, step.title), "visit", call)
                if not mentions(self._read, value):
                    break
            if number + 1 < len(steps):
                thought = thoughts.onward(goal, value, steps[number + 1].relation or "")
        else:
            yield self._answer(goal, value)
            return
        yield render_answer(thoughts.give_up(), UNKNOWN)

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
