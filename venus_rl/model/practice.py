"""What the tiny policy is pretrained on: copying and reading drills, and oracle episodes in made-up worlds.

Every world is drawn afresh from the grammar of the embedded one (``venus_env.tasks.world.random_world``), its names
from pieces of the vocabulary, so nothing in it can be memorised and nothing in it is a fact of the embedded world.
Episodes are not imitations of the environment's text: the real oracle acts on the real tools, over an in-memory corpus.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from venus_env.corpus.document import Hit, Page, Passage
from venus_env.corpus.text import words
from venus_env.policies.scripted import OraclePolicy, Style
from venus_env.protocol.parser import Answer, Call, parse_turn
from venus_env.protocol.prompt import neutralise, system_prompt, wrap_tool_response
from venus_env.protocol.turns import Message
from venus_env.tasks.task import Task
from venus_env.tasks.world import KINDS, World, made_up_word, make_task, passages, random_world
from venus_env.tokens import Renderer
from venus_env.tools.arguments import SearchArguments, VisitArguments
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool

Sample = tuple[list[int], list[int]]
"""Token ids, and 1 for each token that is learnt (0 for context)."""

TOP_K = 3
SNIPPET_WORDS = 12
VISIT_TOKENS = 100


class Names:
    """Draws made-up words that together use every name piece of the vocabulary.

    Args:
        pieces: Vocabulary entries as text.
        held_out: Words never drawn (those that name held-out entities).
    """

    def __init__(self, pieces: Sequence[str], held_out: Collection[str] = ()) -> None:
        self._starts = [piece for piece in pieces if re.fullmatch(r"[A-Z][a-z]*", piece)]
        self._ends = [piece for piece in pieces if re.fullmatch(r"[a-z]+", piece)]
        self._held_out = frozenset(held_out)

    def __call__(self, rng: random.Random) -> str:
        """Draw one word."""
        while True:
            if rng.random() < 0.25:
                word = made_up_word(rng)
            else:
                ends = rng.choices((0, 1, 2), (0.45, 0.4, 0.15))[0]
                word = rng.choice(self._starts) + "".join(rng.choice(self._ends) for _ in range(ends))
            if len(word) > 1 and word not in self._held_out:
                return word

    def pool(self, rng: random.Random, size: int) -> Callable[[random.Random], str]:
        """Names for one world: drawn from few words, so that some names share a word as real ones do."""
        some = [self(rng) for _ in range(size)]
        return lambda draw: draw.choice(some)

    def phrase(self, rng: random.Random) -> str:
        """Draw a name of one to three words."""
        return " ".join(self(rng) for _ in range(rng.choices((1, 2, 3), (0.5, 0.4, 0.1))[0]))


class MemoryCorpus:
    """A small world's pages, searched by weighted word overlap."""

    def __init__(self, world: World) -> None:
        rows = passages(world)
        self._pages = {row.url: Page(row.url, row.title, (row,)) for row in rows}
        self._holders: dict[str, dict[Passage, float]] = defaultdict(dict)
        for row in rows:
            body = words(row.text)
            for word in body:
                self._holders[word][row] = 1.0
            for word in words(row.title):
                self._holders[word][row] = 2.5
        self.content_hash = f"random-world-{world.seed}"

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The best pages for each query; ties go to the shorter title."""
        return [self._search(query, k) for query in queries]

    def _search(self, query: str, k: int) -> list[Hit]:
        scores: dict[Passage, float] = defaultdict(float)
        for word in set(words(query)):
            holders = self._holders.get(word, {})
            if len(holders) * 4 > len(self._pages):
                continue
            weight = math.log(1 + len(self._pages) / (1 + len(holders)))
            for row, strength in holders.items():
                scores[row] += strength * weight
        best = sorted(scores, key=lambda row: (-scores[row], len(row.title), row.title))[:k]
        return [Hit(row, scores[row]) for row in best]

    async def page(self, url: str) -> Page | None:
        """The page at ``url``."""
        return self._pages.get(url)

    def unigram_counts(self) -> Mapping[str, int]:
        """Number of pages that hold each word."""
        return {word: len(holders) for word, holders in self._holders.items()}


@dataclass(frozen=True)
class Arena:
    """A made-up world with the tools over it."""

    world: World
    search: SearchTool
    visit: VisitTool

    @classmethod
    def draw(cls, rng: random.Random, names: Names, size: int = 300) -> Arena:
        """Draw a fresh world of about ``size`` entities."""
        return cls.over(random_world(rng, size, names.pool(rng, size)))

    @classmethod
    def over(cls, world: World) -> Arena:
        """Put the tools over a given world, in the layout for tiny models."""
        corpus = MemoryCorpus(world)
        return cls(
            world,
            SearchTool(corpus, TOP_K, SNIPPET_WORDS, style="compact"),
            VisitTool(corpus, VISIT_TOKENS, style="compact"),
        )

    def task(self, rng: random.Random, hops: int) -> Task:
        """Draw a question of ``hops`` hops."""
        starts = list(self.world.entities)
        while True:
            paths = list(self.world.paths(rng.choice(starts), hops))
            if paths:
                return make_task(self.world, rng.choice(paths), rng, id=f"practice-{rng.getrandbits(48):012x}")

    def opening(self, question: str) -> list[Message]:
        """System and user message of an episode."""
        system = system_prompt([self.search, self.visit], "compact", None)
        return [{"role": "system", "content": system}, {"role": "user", "content": question}]

    async def reply(self, turn: str) -> str | None:
        """The tool message that answers a turn; None where the turn calls no tool that could run."""
        parsed = parse_turn(turn)
        if not isinstance(parsed, Call):
            return None
        try:
            if parsed.name == "search":
                result = await self.search(SearchArguments.model_validate(parsed.arguments))
            elif parsed.name == "visit":
                result = await self.visit(VisitArguments.model_validate(parsed.arguments))
            else:
                return None
        except ValueError:
            return None
        return wrap_tool_response(neutralise(result.text))

    async def episode(self, task: Task, style: Style, seed: int, variation: float = 0.0) -> list[Message]:
        """Let the oracle answer a question; the whole conversation.

        Args:
            task: The question.
            style: Whether it opens a wrong page first.
            seed: Fixes its choices.
            variation: Share of turns that are worded differently, see :func:`vary`.
        """
        oracle = OraclePolicy(style, seed).new_episode(task)
        rng = random.Random(seed)
        messages = self.opening(task.question)
        while True:
            turn = oracle.act(messages)
            if rng.random() < variation:
                turn = vary(turn, rng)
            messages.append({"role": "assistant", "content": turn})
            reply = await self.reply(turn)
            if reply is None:
                return messages
            messages.append({"role": "user", "content": reply})


_REWORDINGS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"First the (.+)\."), (r"I need the \1.", r"Search for the \1.")),
    (re.compile(r"(.+) is in the results\. Open it\."), (r"Open \1.", r"\1 is there. Read it.")),
    (re.compile(r"The (.+ is .+)\. Next the (.+)\."), (r"The \1. Now the \2.", r"So the \1. Then the \2.")),
    (re.compile(r"The (.+ is .+)\. Done\."), (r"So the \1.", r"The \1. Answer.")),
)
_FIRST_QUERY = re.compile(r'(<think>First the (.+) of (.+)\.</think>.*"query": \[")\3("\].*)', re.DOTALL)


def vary(turn: str, rng: random.Random) -> str:
    """Say or do the same in another way, so that the policy keeps alternatives for reinforcement to choose from.

    The thought is worded differently, or the first search also names what is wanted.
    """
    if rng.random() < 0.3 and _FIRST_QUERY.fullmatch(turn):
        return _FIRST_QUERY.sub(r"\1\3 \2\4", turn)
    thought, closing, rest = turn.removeprefix("<think>").partition("</think>")
    for pattern, others in _REWORDINGS:
        if pattern.fullmatch(thought):
            return "<think>" + pattern.sub(rng.choice(others), thought) + closing + rest
    return turn


def correct(messages: Sequence[Message], task: Task) -> bool:
    """Whether a conversation ends with an accepted answer."""
    parsed = parse_turn(messages[-1]["content"])
    return isinstance(parsed, Answer) and parsed.text.strip() in task.answers


def copy_drill(rng: random.Random, names: Names) -> list[tuple[str, int]]:
    """Lists to repeat, titles to turn into urls, pairs to look up; as ``(text, learnt)`` pieces."""
    entries = [names.phrase(rng) if rng.random() < 0.85 else _code(rng) for _ in range(rng.randint(3, 10))]
    separator = rng.choice((", ", "\n", "; ", " and "))
    shape = rng.random()
    if shape < 0.3:
        return [(separator.join(entries) + "\n", 0), (separator.join(entries), 1)]
    if shape < 0.6:
        urls = "\n".join("https://venus.wiki/" + entry.replace(" ", "_") for entry in entries)
        return [(separator.join(entries) + "\n", 0), (urls, 1)]
    values = [names.phrase(rng) if rng.random() < 0.7 else _code(rng) for _ in entries]
    pieces = [("".join(f"{entry} is {value}. " for entry, value in zip(entries, values, strict=True)), 0)]
    order = list(range(len(entries)))
    rng.shuffle(order)
    for i in order:
        pieces += [(f"{entries[i]} is ", 0), (f"{values[i]}. ", 1)]
    return pieces


def _code(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.5:
        return "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=rng.randint(2, 4)))
    return str(rng.randint(1, 9999)) if kind < 0.8 else "." + "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=2))


def reading_drill(rng: random.Random, world: World) -> list[tuple[str, int]]:
    """One page, then what it says about each of its relations."""
    entity = world.entities[rng.choice(list(world.entities))]
    relations = [KINDS[entity.kind].relations[name] for name in entity.facts]
    rng.shuffle(relations)
    pieces = [(f"{entity.name}\n{world.text(entity.name)}\n", 0)]
    for relation in relations:
        value = entity.facts[relation.name]
        pieces += [
            (f"<think>The {relation.goal} is ", 0),
            (f"{value}. Done.</think>\n<answer>{value}</answer>", 1),
        ]
    return pieces


@dataclass(frozen=True, slots=True)
class Mixture:
    """What the next samples are made of.

    Attributes:
        drills: Share of drills; the rest are episodes.
        hops: Weights of 1, 2 and 3 hops among the episodes.
        recover: Share of episodes in which the oracle opens a wrong page first.
        variation: Share of turns that are worded differently.
    """

    drills: float
    hops: tuple[float, float, float]
    recover: float = 0.2
    variation: float = 0.2


class Practice:
    """An endless supply of samples.

    Args:
        renderer: Encodes for the policy's tokenizer.
        names: Where names come from.
        seed: The same seed gives the same samples.
    """

    def __init__(self, renderer: Renderer, names: Names, seed: int) -> None:
        self.renderer = renderer
        self.names = names
        self.rng = random.Random(seed)

    def batch(self, count: int, mixture: Mixture) -> list[Sample]:
        """Draw samples from one fresh world."""
        return asyncio.run(self._batch(count, mixture))

    async def _batch(self, count: int, mixture: Mixture) -> list[Sample]:
        rng = self.rng
        arena = Arena.draw(rng, self.names)
        samples = []
        for _ in range(count):
            if rng.random() < mixture.drills:
                drill = copy_drill(rng, self.names) if rng.random() < 0.4 else reading_drill(rng, arena.world)
                samples.append(self._encode_drill(drill))
                continue
            task = arena.task(rng, rng.choices((1, 2, 3), mixture.hops)[0])
            style: Style = "recover" if rng.random() < mixture.recover else "direct"
            messages = await arena.episode(task, style, rng.getrandbits(32), mixture.variation)
            if correct(messages, task):
                conversation = self.renderer.encode(messages)
                samples.append((conversation.ids, conversation.mask))
        return samples

    def _encode_drill(self, pieces: list[tuple[str, int]]) -> Sample:
        ids: list[int] = []
        mask: list[int] = []
        for text, learnt in pieces:
            new = self.renderer.tokenizer.encode(text, add_special_tokens=False)
            ids += new
            mask += [learnt] * len(new)
        return ids, mask


def batches(samples: list[Sample], budget: int, rng: random.Random) -> Iterator[list[Sample]]:
    """Group samples of similar length into batches of at most ``budget`` padded tokens, in random order."""
    groups: list[list[Sample]] = [[]]
    for sample in sorted(samples, key=lambda item: len(item[0])):
        if groups[-1] and len(sample[0]) * (len(groups[-1]) + 1) > budget:
            groups.append([])
        groups[-1].append(sample)
    rng.shuffle(groups)
    yield from groups
