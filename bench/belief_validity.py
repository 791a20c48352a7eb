"""Does information gain reward what it should? ``python -m bench.belief_validity``; docs/information_gain.md explains.

Episodes whose turns have a known worth (``bench.belief_turns``) are played once per corpus and scored by every belief
through :func:`venus_env.evaluation.rescore.rescore`, as recordings are. Intervals are 95 % percentile bootstraps over
questions, since the turns of a question are not independent.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bench.belief_turns import GROUPS, KINDS, GoldPages, group, label_turns, policies
from bench.measure import Row
from venus_env.beliefs.base import Belief
from venus_env.beliefs.hf import HFBelief
from venus_env.beliefs.lexical import LexicalBelief
from venus_env.corpus import LocalCorpus, open_corpus
from venus_env.evaluation.card import write_text_atomic
from venus_env.evaluation.rescore import rescore
from venus_env.evaluation.runner import evaluate
from venus_env.protocol.trajectory import Trajectory
from venus_env.rewards.compose import RewardConfig
from venus_env.setting import EnvConfig, Setting, draw_tasks
from venus_env.tasks.task import Task
from venus_rl.model import BASE_MODEL

BELIEFS = ("lexical", "unigram", "base")
RESAMPLES = 1000
ANSWER, OTHER, SEARCH_FOUND, SEARCH_ELSE = KINDS[0], KINDS[3], KINDS[5], KINDS[6]
BEGIN, END = "<!-- belief_validity: begin -->", "<!-- belief_validity: end -->"
EXAMPLES = """\
examples:
  python -m bench.belief_validity --wiki7k ../shared/data/wiki7k --out bench/results/belief_validity.json \\
      --doc docs/information_gain.md
  python -m bench.belief_validity --sets full --beliefs lexical --cases cases.jsonl
  python -m bench.belief_validity --lm smollm2=folder --lm-questions 100
"""


class Scorer(NamedTuple):
    """A belief and what it is asked: language models are asked less.

    Attributes:
        name: Label.
        make: Makes the belief for a corpus.
        style: Layout of the tools' replies.
        questions: Questions per set.
        plays: Names of the ways to play whose episodes it scores.
    """

    name: str
    make: Callable[[LocalCorpus], Belief]
    style: str
    questions: int
    plays: tuple[str, ...]


@dataclass(frozen=True)
class ScoredTurn:
    """One tool turn with its label and its gain; None where the belief did not score it."""

    task: Task
    play: str
    kind: str
    gain: float | None
    reply: str


def play(
    world: str, corpus: LocalCorpus, tasks: Sequence[Task], style: str, names: Sequence[str], seed: int
) -> dict[str, list[Trajectory]]:
    """Play every task in each of the named ways, without a belief."""
    setting = Setting.open(EnvConfig.model_validate({"tool_style": style}), corpus=corpus)
    players = policies(corpus, tasks, GoldPages.find(corpus, tasks), seed)
    plays = {}
    for name in names:
        player = players[name]
        session = partial(setting.session, belief=None)
        plays[name] = asyncio.run(evaluate(player, tasks, session, seed=seed, progress=False))
        lost = sum(trajectory.score is None for trajectory in plays[name])
        if lost:
            raise RuntimeError(f"{world}: {lost} of {len(tasks)} {name} episodes were lost; see the log")
    return plays


def scored_turns(
    belief: Belief, plays: dict[str, list[Trajectory]], tasks: Sequence[Task], gold: GoldPages, label: str
) -> list[ScoredTurn]:
    """All tool turns of all episodes."""
    turns = []
    jobs = [(name, *pair) for name, played in plays.items() for pair in zip(played, tasks, strict=True)]
    for name, trajectory, task in tqdm(jobs, desc=label, unit="episode", disable=None):
        scored = asyncio.run(rescore(trajectory, rewards=RewardConfig(), belief=belief))
        if scored.end == "judge_failure":
            raise RuntimeError(f"{label}: the belief failed on task {task.id!r}: {scored.error}")
        labels = label_turns(trajectory, task, gold.by_task[task.id])
        for turn, kind in zip(scored.turns, labels, strict=True):
            if kind is not None:
                reply = trajectory.messages[turn.message_index + 1]["content"]
                turns.append(ScoredTurn(task, name, kind, turn.reward_terms.get("information_gain"), reply))
    return turns


Draws = NDArray[np.int64]
"""How often each question is drawn, one row per resample; the first row draws each once."""


def draws(questions: int, seed: int) -> Draws:
    rng = np.random.default_rng(seed)
    uniform = np.full(questions, 1 / questions)
    return np.vstack([np.ones(questions, np.int64), rng.multinomial(questions, uniform, RESAMPLES)])


def interval(values: Iterable[float]) -> list[float] | None:
    """The estimate with the bounds of its interval; None without data."""
    estimate, *resampled = values
    if np.isnan(estimate):
        return None
    low, high = np.nanpercentile(resampled, (2.5, 97.5))
    return [round(float(value), 4) for value in (estimate, low, high)]


def mean(values: NDArray[np.float64], question: NDArray[np.int64], drawn: Draws) -> list[float] | None:
    """Mean over turns, each as often as its question was drawn."""
    if not len(values):
        return None
    weights = drawn[:, question]
    with np.errstate(invalid="ignore"):
        return interval((weights @ values) / weights.sum(axis=1))


def auc(
    positive: tuple[NDArray[np.float64], NDArray[np.int64]],
    negative: tuple[NDArray[np.float64], NDArray[np.int64]],
    drawn: Draws,
) -> list[float] | None:
    """Chance that a turn of the first kind gains more than one of the second; ties count half."""
    if not len(positive[0]) or not len(negative[0]):
        return None
    gains = np.concatenate([positive[0], negative[0]])
    levels, level = np.unique(gains, return_inverse=True)
    up, down = level[: len(positive[0])], level[len(positive[0]) :]

    def one(row: NDArray[np.int64]) -> float:
        above = np.bincount(up, row[positive[1]], len(levels))
        below = np.bincount(down, row[negative[1]], len(levels))
        pairs = above.sum() * below.sum()
        return float((above * (np.cumsum(below) - below / 2)).sum() / pairs) if pairs else np.nan

    return interval(one(row) for row in drawn)


def rows(world: str, scorer: Scorer, turns: Sequence[ScoredTurn], seed: int) -> tuple[list[Row], list[Row]]:
    """Figures per kind of turn, and how well kinds are told apart."""
    ids = list(dict.fromkeys(turn.task.id for turn in turns))
    number = {task_id: place for place, task_id in enumerate(ids)}
    drawn = draws(len(ids), seed)
    table, separation = [], []
    for name in GROUPS:
        for played in (*scorer.plays, "all"):
            chosen = [turn for turn in turns if group(turn.task) == name and played in (turn.play, "all")]
            by_kind = {}
            head = {"set": world, "belief": scorer.name, "questions": name, "play": played}
            for kind in KINDS:
                of_kind = [turn for turn in chosen if turn.kind == kind]
                known = [(turn.gain, number[turn.task.id]) for turn in of_kind if turn.gain is not None]
                gains = np.array([gain for gain, _ in known], np.float64)
                question = np.array([place for _, place in known], np.int64)
                by_kind[kind] = (gains, question)
                if of_kind:
                    figures = {
                        "positive": mean((gains > 0).astype(np.float64), question, drawn),
                        "negative": mean((gains < 0).astype(np.float64), question, drawn),
                        "mean_gain": mean(gains, question, drawn),
                    }
                    table.append({**head, "kind": kind, "turns": len(of_kind), "scored": len(known), **figures})
            pages = auc(by_kind[ANSWER], by_kind[OTHER], drawn)
            searches = auc(by_kind[SEARCH_FOUND], by_kind[SEARCH_ELSE], drawn)
            if pages or searches:
                separation.append({**head, "auc_pages": pages, "auc_searches": searches})
    return table, separation


def markdown(result: dict[str, Any]) -> str:
    """The tables of the documentation, for plain questions and all episodes together."""
    lines = [
        "| set | belief | turn | turns | gain > 0 | mean gain |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["turns"]:
        if row["questions"] == "plain" and row["play"] == "all":
            cells = [row["set"], row["belief"], row["kind"], str(row["turns"])]
            lines.append(f"| {' | '.join([*cells, _cell(row['positive'], 2), _cell(row['mean_gain'], 3)])} |")
    lines += [
        "",
        "| set | belief | questions | episodes | AUC of pages | AUC of searches |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["separation"]:
        if row["play"] in ("all", "pages"):
            cells = [row["set"], row["belief"], row["questions"], row["play"]]
            lines.append(f"| {' | '.join([*cells, _cell(row['auc_pages'], 3), _cell(row['auc_searches'], 3)])} |")
    return "\n".join(lines)


def _cell(figure: list[float] | None, digits: int) -> str:
    if figure is None:
        return "–"
    value, low, high = (f"{number:.{digits}f}".replace("-", "−") for number in figure)
    return f"{value} ({low} to {high})"


def write_cases(file: Any, world: str, scorer: Scorer, turns: Sequence[ScoredTurn]) -> None:
    """Turns whose gain has the wrong sign, for reading."""
    for turn in turns:
        wrong = (turn.kind == ANSWER and turn.gain is not None and turn.gain <= 0) or (
            turn.kind == OTHER and turn.gain is not None and turn.gain > 0
        )
        if wrong:
            case = {
                "set": world,
                "belief": scorer.name,
                "question": turn.task.question,
                "answers": turn.task.answers,
                "group": group(turn.task),
                "play": turn.play,
                "kind": turn.kind,
                "gain": turn.gain,
                "reply": turn.reply,
            }
            file.write(json.dumps(case, ensure_ascii=False) + "\n")


def study(
    sets: Sequence[tuple[str, str, str]], scorers: Sequence[Scorer], seed: int, cases: Any
) -> dict[str, list[Row]]:
    """Play and score everything."""
    result: dict[str, list[Row]] = {"turns": [], "separation": []}
    for world, source, task_file in sets:
        corpus = open_corpus(source)
        assert isinstance(corpus, LocalCorpus)
        every = Setting.open(EnvConfig(tasks=task_file), corpus=corpus).tasks("test" if world != "wiki7k" else None)
        usable = [task for task in every if task.evidence]
        played: dict[Any, dict[str, list[Trajectory]]] = {}
        for scorer in scorers:
            tasks = draw_tasks(usable, min(scorer.questions, len(usable)))
            key = (scorer.style, len(tasks), scorer.plays)
            if key not in played:
                played[key] = play(world, corpus, tasks, scorer.style, scorer.plays, seed)
            gold = GoldPages.find(corpus, tasks)
            turns = scored_turns(scorer.make(corpus), played[key], tasks, gold, f"{world} {scorer.name}")
            table, separation = rows(world, scorer, turns, seed)
            result["turns"] += table
            result["separation"] += separation
            if cases is not None:
                write_cases(cases, world, scorer, turns)
    return result


def main(argv: list[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.belief_validity",
        description="Measure on which turns information gain is positive, for each belief.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sets", nargs="*", choices=("embedded", "full", "wiki7k"), default=["embedded", "full"])
    parser.add_argument("--wiki7k", metavar="DIR", help="folder with corpus.jsonl and questions.jsonl; adds this set")
    parser.add_argument("--beliefs", nargs="*", choices=BELIEFS, default=BELIEFS)
    parser.add_argument("--lm", metavar="NAME=FOLDER", help="one more language model, scored on the `pages` episodes")
    parser.add_argument("--lm-questions", type=int, default=200, metavar="N", help="questions of models (default 200)")
    parser.add_argument("--questions", type=int, default=200, metavar="N", help="questions per set (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything random (default: 0)")
    parser.add_argument("--out", type=Path, help="JSON file; rows of sets and beliefs not measured now stay")
    parser.add_argument("--doc", type=Path, help="Markdown file whose marked tables are replaced")
    parser.add_argument("--cases", type=Path, help="JSONL file for the turns whose gain has the wrong sign")
    args = parser.parse_args(argv)
    sets = [(name, name, name) for name in args.sets if name != "wiki7k"]
    if args.wiki7k:
        sets.append(("wiki7k", f"{args.wiki7k}/corpus.jsonl", f"{args.wiki7k}/questions.jsonl"))
    every = ("oracle", "random", "wrong", "pages")
    known = {
        "lexical": Scorer("lexical", LexicalBelief.from_corpus, "full", args.questions, every),
        "unigram": Scorer("unigram", partial(LexicalBelief.from_corpus, nu=1e9), "full", args.questions, every),
        "base": Scorer("base", lambda _: HFBelief(BASE_MODEL), "compact", args.lm_questions, ("pages",)),
    }
    scorers = [known[name] for name in args.beliefs]
    if args.lm:
        name, _, folder = args.lm.partition("=")
        if not folder:
            parser.error(f"--lm takes NAME=FOLDER, got {args.lm!r}")
        scorers.append(Scorer(name, lambda _: HFBelief(folder), "compact", args.lm_questions, ("pages",)))
    cases = args.cases.open("w", encoding="utf-8") if args.cases else None
    try:
        result = {"schema": "venus.bench/1", "seed": args.seed, "resamples": RESAMPLES}
        result |= study(sets, scorers, args.seed, cases)
    finally:
        if cases is not None:
            cases.close()
    if args.out is not None:
        if args.out.is_file():
            result = merged(json.loads(args.out.read_text(encoding="utf-8")), result)
        write_text_atomic(args.out, json.dumps(result, indent=1) + "\n")
    print(markdown(result))
    if args.doc is not None:
        write_text_atomic(args.doc, with_tables(args.doc.read_text(encoding="utf-8"), markdown(result)))


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """New results, and the old ones of the sets and beliefs that were not measured this time."""
    measured = {(row["set"], row["belief"]) for row in new["turns"]}
    first, last = (
        list(dict.fromkeys(row[name] for row in [*old["turns"], *new["turns"]])) for name in ("set", "belief")
    )
    result = dict(new)
    for part in ("turns", "separation"):
        kept = [row for row in old[part] if (row["set"], row["belief"]) not in measured]
        result[part] = sorted([*kept, *new[part]], key=lambda row: (first.index(row["set"]), last.index(row["belief"])))
    return result


def with_tables(text: str, tables: str) -> str:
    """Put new tables between the marks of a document."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no place for the tables: it needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"


if __name__ == "__main__":
    logging.getLogger("venus_env").setLevel(logging.ERROR)
    main()
