"""The floor that every policy has to beat: well-formed turns whose content is drawn at random."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import get_args

from venus_env.protocol.prompt import forced_answer_request, render_answer, render_call, restore, unwrap_tool_response
from venus_env.protocol.turns import Forced, Message
from venus_env.seeding import derive_seed
from venus_env.tasks.task import Task

_URL = re.compile(r"https?://[^\s\"\\]+")
_WORD = re.compile(r"\w+")
_FORCED = tuple(forced_answer_request(limit) for limit in get_args(Forced))


class RandomPolicy:
    """Searches for random words of the question, visits random urls it has seen, answers with random words it has seen.

    It keeps no state: the same seed on the same conversation gives the same turn.

    Args:
        seed: Fixes every choice.
        answer_chance: Chance to answer in any turn after the first.
    """

    def __init__(self, seed: int = 0, answer_chance: float = 0.25) -> None:
        if not 0 < answer_chance <= 1:
            raise ValueError(f"answer_chance must be above 0 and at most 1, not {answer_chance}")
        self.seed = seed
        self.answer_chance = answer_chance

    def new_episode(self, task: Task | None = None, *, seed: int | None = None) -> RandomPolicy:
        """A policy with a seed of its own, so that several episodes on one question differ."""
        return self if seed is None else RandomPolicy(derive_seed(self.seed, seed), self.answer_chance)

    def act(self, messages: Sequence[Message]) -> str:
        """Write the next turn."""
        question = messages[1]["content"]
        rng = random.Random(derive_seed(self.seed, question, len(messages)))
        replies = [restore(unwrap_tool_response(m["content"])) for m in messages[2:] if m["role"] == "user"]
        seen = "\n".join(replies)
        forced = bool(replies) and any(request in replies[-1] for request in _FORCED)
        if forced or (replies and rng.random() < self.answer_chance):
            words = _WORD.findall(_URL.sub(" ", seen)) or _WORD.findall(question) or ["nothing"]
            return render_answer("Guess.", " ".join(rng.choices(words, k=rng.choice((1, 2)))))
        urls = sorted(set(_URL.findall(seen)))
        if urls and rng.random() < 0.5:
            return render_call("Open a page.", "visit", {"url": [rng.choice(urls)], "goal": question})
        words = _WORD.findall(question) or ["anything"]
        query = " ".join(rng.choices(words, k=rng.choice((1, 2, 3))))
        return render_call("Search.", "search", {"query": [query]})
