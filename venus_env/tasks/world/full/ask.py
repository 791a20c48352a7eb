"""Words a query as a question: a seeded grammar with frames and phrases, some of which training never sees."""

from __future__ import annotations

import random
from dataclasses import dataclass

from venus_env.tasks.world.full.graph import Graph
from venus_env.tasks.world.full.kinds import KINDS
from venus_env.tasks.world.full.pages import in_sentence, with_article
from venus_env.tasks.world.full.queries import (
    Compare,
    Count,
    Described,
    Extreme,
    Follow,
    Holders,
    Named,
    Node,
    Query,
    YearsBetween,
)
from venus_env.tasks.world.full.schema import Measure, Relation
from venus_env.tasks.world.full.values import joined, show

STEPWISE_SHARE = 0.4
"""Share of questions over two and more relations that are asked step by step instead of in one nested phrase."""

BLANK = "_"

# Pairs of wordings: those of all splits, and those that only dev and test questions use.
_PLAIN = (("What is {np}?", "State {np}.", "Find {np}.", "Give {np}."), ("Can you tell me {np}?", "Work out {np}."))
_THING = (("What is {np}?", "Name {np}.", "Find {np}."), ("Can you tell me the name of {np}?", "Identify {np}."))
_PERSON = (("Who is {np}?", "Name {np}.", "Find {np}."), ("Can you tell me who {np} is?", "Identify {np}."))
_DATE = (("What is {np}?", "Give {np}.", "Find {np}."), ("Can you tell me {np}?", "Look up {np}."))
_STEPS = (
    ("Start from {x}. Find {steps}. {what} is {last}?", "Take {x}. Find {steps}, and give {last}."),
    ("Consider {x}. From there, get to {steps}, and report {last}.",
     "With {x} as your point of departure, trace {steps}. Report {last}."),
)  # fmt: skip
_COUNT = (
    ("Give the number of {things}.", "Count the {things}.", "What is the number of {things}?"),
    ("Give the total number of {things}.", "Determine the number of {things}."),
)
_EXTREME = (
    ("Which of the {things} {most}?", "Of the {things}, which {most}?"),
    ("Among the {things}, find the one that {most}.", "Tell me which of the {things} {most}."),
)
_EXTREME_PERSON = (
    ("Who of the {things} {most}?", "Of the {things}, who {most}?"),
    ("Among the {things}, find the one who {most}.", "Tell me who of the {things} {most}."),
)
_COMPARE = (
    ("Which {more}: {a} or {b}?", "Of {a} and {b}, which {more}?"),
    ("Take {a} on the one hand and {b} on the other. Name the one that {more}.", "Tell me which {more}, {a} or {b}."),
)
_COMPARE_PERSON = (
    ("Who {more}: {a} or {b}?", "Of {a} and {b}, who {more}?"),
    ("Take {a} on the one hand and {b} on the other. Name the one who {more}.", "Tell me who {more}, {a} or {b}."),
)
_YEARS = (
    ("How many calendar years apart are {a} and {b}?", "By how many calendar years do {a} and {b} differ?"),
    (
        "Set side by side {a} and {b}, and subtract the earlier calendar year from the later. What is left?",
        "Work out the difference in calendar years between {a} and {b}.",
    ),
)

LISTED = "baseball players listed as natives of {x}"


@dataclass(frozen=True, slots=True)
class Wording:
    """A question and its template: the same text with a blank for every name and value."""

    text: str
    template: str


def ask(graph: Graph, query: Query, rng: random.Random, *, held: bool = False) -> Wording:
    """Word a query.

    Args:
        graph: Knows the kinds of the entities mentioned.
        query: What to ask.
        rng: Chooses the wording.
        held: Use the frames and phrases that training questions never use.
    """
    state = rng.getrandbits(64)
    texts = [_Asker(graph, random.Random(state), held, blank).question(query) for blank in (False, True)]
    return Wording(*(text[0].upper() + text[1:] for text in texts))


class _Asker:
    """Words one query; with ``blank`` it leaves out names and values and makes the same choices."""

    def __init__(self, graph: Graph, rng: random.Random, held: bool, blank: bool) -> None:
        self._graph = graph
        self._rng = rng
        self._held = held
        self._blank = blank

    def question(self, query: Query) -> str:
        match query:
            case Count(members):
                return self._frame(_COUNT).format(things=self._plural(members))
            case Extreme(members, kind, measure, most):
                words = self._measure(kind, measure)
                frame = self._frame(_EXTREME_PERSON if kind == "player" else _EXTREME)
                return frame.format(things=self._plural(members), most=words.most if most else words.least)
            case Compare(left, right, kind, measure, more):
                words = self._measure(kind, measure)
                frame = self._frame(_COMPARE_PERSON if kind == "player" else _COMPARE)
                return frame.format(
                    a=self._phrase(left), b=self._phrase(right), more=words.more if more else words.less
                )
            case YearsBetween(left, right):
                return self._frame(_YEARS).format(a=self._phrase(left), b=self._phrase(right))
            case _:
                return self._chain(query)

    def _chain(self, query: Node) -> str:
        relations: list[Relation] = []
        start = query
        while isinstance(start, Follow):
            relations.insert(0, KINDS[start.kind].relations[start.relation])
            start = start.source
        last = relations[-1]
        person = last.target in ("player", "scientist")
        if len(relations) > 1 and self._rng.random() < STEPWISE_SHARE:
            steps = ", then ".join(relation.its for relation in relations[:-1])
            what = "Who" if person else "What"
            return self._frame(_STEPS).format(x=self._phrase(start), steps=steps, last=last.its, what=what)
        frames = _PLAIN if last.literal else _THING
        if person:
            frames = _PERSON
        elif last.target == "date":
            frames = _DATE
        return self._frame(frames).format(np=self._phrase(query))

    def _frame(self, pair: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
        return self._rng.choice(pair[1] if self._held else pair[0])

    @staticmethod
    def _measure(kind: str, measure: str) -> Measure:
        words = KINDS[kind].relations[measure].measure
        if words is None:
            raise ValueError(f"the relation {measure!r} of {kind!r} has no words for comparing")
        return words

    def _phrase(self, node: Node) -> str:
        """A noun phrase for a node."""
        match node:
            case Named(mention):
                return self._mention(mention)
            case Described(kind, facts, via):
                noun, pronoun = KINDS[kind].noun, KINDS[kind].pronoun
                shown = [self._value(kind, *fact) for fact in facts]
                if via is not None:
                    shown[0] = self._phrase(via)
                clauses = [self._clause(kind, name, value) for (name, _), value in zip(facts, shown, strict=True)]
                if via is not None:
                    # The first clause ends in one of its own: without the pronoun the next could be read as part of it.
                    clauses[1:] = [f"{pronoun} {clause}" for clause in clauses[1:]]
                return f"the {noun} {pronoun} {joined(clauses)}"
            case Follow(source, kind, relation):
                schema = KINDS[kind].relations[relation]
                phrases = schema.held if self._held and schema.held else schema.of
                # Phrases that go on after their subject would be read twice around anything but a name.
                fit = [text for text in phrases if isinstance(source, Named) or text.endswith("{x}")]
                fit = fit or [text for text in schema.of if text.endswith("{x}")]
                return self._rng.choice(fit).format(x=self._phrase(source))

    def _mention(self, mention: str) -> str:
        entity = self._graph.entities[mention]
        named = with_article(entity)
        return named.replace(mention, BLANK) if self._blank else named

    def _value(self, kind: str, relation: str, value: str) -> str:
        schema = KINDS[kind].relations[relation]
        return BLANK if self._blank else in_sentence(show(value, schema.target, schema.unit))

    def _clause(self, kind: str, relation: str, shown: str) -> str:
        return self._rng.choice(KINDS[kind].relations[relation].clauses).format(v=shown)

    def _plural(self, members: Follow | Holders) -> str:
        phrase = self._phrase(members.source)
        if isinstance(members, Holders):
            return LISTED.format(x=phrase)
        return KINDS[members.kind].relations[members.relation].plural.format(x=phrase)
