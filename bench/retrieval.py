"""What each part of retrieval is worth: ``python -m bench.retrieval``; docs/retrieval.md shows the table."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from bench.retrieval_parts import bm25_variants, vector_variants
from venus_env.corpus import LocalCorpus
from venus_env.corpus.build import build_index
from venus_env.corpus.encoders import MINILM, WORDLLAMA
from venus_env.corpus.hybrid import DEFAULT_WEIGHTS, Weights
from venus_env.tasks.loaders import load_tasks
from venus_env.tasks.task import Task

EXAMPLES = """\
examples:
  python -m bench.retrieval --wiki7k ../shared/data/wiki7k --out bench/results/retrieval.json
  python -m bench.retrieval --set mine=index,questions.jsonl --encoders wordllama,minilm
"""
KS = (2, 5, 10)
PLAIN = replace(DEFAULT_WEIGHTS, title=0.0, rest=0.0)
ABLATIONS: dict[str, Weights] = {
    "BM25 alone": replace(PLAIN, meaning=0.0),
    "vectors alone": replace(PLAIN, words=0.0),
    "both, by rank": PLAIN,
    "  equal weights": replace(PLAIN, meaning=1.0),
    "  vectors at 0.3": replace(PLAIN, meaning=0.3),
    "  rank constant 60": replace(PLAIN, constant=60.0),
    "  depth 20": replace(PLAIN, depth=20),
    "  depth 500": replace(PLAIN, depth=500),
    "  + titles in the query": replace(PLAIN, title=DEFAULT_WEIGHTS.title),
    "  + search for the rest": replace(PLAIN, rest=DEFAULT_WEIGHTS.rest),
    "all (default)": DEFAULT_WEIGHTS,
    "  titles at 1": replace(DEFAULT_WEIGHTS, title=1.0),
    "  titles at 2": replace(DEFAULT_WEIGHTS, title=2.0),
    "  rest at 0.2": replace(DEFAULT_WEIGHTS, rest=0.2),
    "  rest at 0.4": replace(DEFAULT_WEIGHTS, rest=0.4),
    "  rest at 0.7": replace(DEFAULT_WEIGHTS, rest=0.7),
    "  vectors at 0.3, all": replace(DEFAULT_WEIGHTS, meaning=0.3),
    "  equal weights, all": replace(DEFAULT_WEIGHTS, meaning=1.0),
}
GRID = [
    replace(DEFAULT_WEIGHTS, meaning=meaning, title=title, rest=rest)
    for meaning in (0.3, 0.5, 0.7, 1.0)
    for title in (1.0, 2.0, 3.0)
    for rest in (0.0, 0.2, 0.3, 0.5)
]
Shares = list[list[float]]
"""Recall of each question at each of KS."""


class Bar(NamedTuple):
    """A figure that has to reach a limit."""

    encoder: str
    k: int
    limit: float


BARS = (Bar(WORDLLAMA, 5, 0.76), Bar(WORDLLAMA, 10, 0.89), Bar(MINILM, 5, 0.79), Bar(MINILM, 10, 0.90))


@dataclass(frozen=True)
class Set:
    """Questions with known pages, and where these are.

    Attributes:
        name: Label.
        corpus: Input of an index.
        tasks: Questions with evidence.
    """

    name: str
    corpus: str
    tasks: list[Task]


def recall(found: Sequence[Sequence[str]], tasks: Sequence[Task]) -> Shares:
    """Share of each question's titles among its first results."""
    shares = []
    for titles, task in zip(found, tasks, strict=True):
        wanted = {item.title for item in task.evidence}
        shares.append([len(wanted.intersection(titles[:k])) / len(wanted) for k in KS])
    return shares


def mean(shares: Shares) -> dict[str, float]:
    return {f"R@{k}": round(fmean(row[place] for row in shares), 3) for place, k in enumerate(KS)}


def searched(directory: Path, weights: Weights, tasks: Sequence[Task]) -> Shares:
    corpus = LocalCorpus(directory, weights=weights)
    hits = corpus.search_now([task.question for task in tasks], max(KS))
    return recall([[hit.passage.title for hit in one] for one in hits], tasks)


def leave_half_out(directory: Path, tasks: Sequence[Task], default: Shares, repeats: int = 500) -> dict[str, Any]:
    """Choose weights on a random half of the questions, score them on the other; beside it the defaults there."""
    scores = [searched(directory, weights, tasks) for weights in GRID]
    rng = random.Random(0)
    chosen: list[dict[str, float]] = []
    kept: list[dict[str, float]] = []
    for _ in range(repeats):
        order = rng.sample(range(len(tasks)), len(tasks))
        half, other = order[: len(order) // 2], order[len(order) // 2 :]
        best = max(scores, key=lambda shares: sum(shares[row][1] + shares[row][2] for row in half))
        chosen.append(mean([best[row] for row in other]))
        kept.append(mean([default[row] for row in other]))
    return {"settings": len(GRID), "chosen on the half": _spread(chosen), "default": _spread(kept)}


def _spread(runs: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    return {
        key: [round(fmean(run[key] for run in runs), 3), round(pstdev(run[key] for run in runs), 3)] for key in runs[0]
    }


def latency(directory: Path, tasks: Sequence[Task], rounds: int = 3) -> float:
    """Milliseconds a query, best of several rounds over all questions."""
    corpus = LocalCorpus(directory)
    queries = [task.question for task in tasks]
    corpus.search_now(queries[:1], 10)
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        corpus.search_now(queries, 10)
        times.append((time.perf_counter() - started) / len(queries) * 1000)
    return round(min(times), 2)


def measure(one: Set, encoder: str, folder: Path) -> dict[str, Any]:
    build_index(one.corpus, folder, encoder=encoder)
    default = searched(folder, DEFAULT_WEIGHTS, one.tasks)
    return {
        "set": one.name,
        "encoder": encoder,
        "questions": len(one.tasks),
        "query_ms": latency(folder, one.tasks),
        "ablations": {name: mean(searched(folder, weights, one.tasks)) for name, weights in ABLATIONS.items()},
        "leave_half_out": leave_half_out(folder, one.tasks, default),
    }


def parts(one: Set, folder: Path) -> dict[str, dict[str, float]]:
    """Recall of single rankings made in other ways."""
    passages = list(LocalCorpus(folder).passages())
    queries = [task.question for task in one.tasks]
    found: dict[str, dict[str, float]] = {}
    for name, rank in [*bm25_variants(passages, max(KS)), *vector_variants(passages, max(KS))]:
        titles = [list(dict.fromkeys(passages[row].title for row in rank(query))) for query in queries]
        found[name] = mean(recall(titles, one.tasks))
    return found


def main() -> None:
    """Run everything that was asked for and print one line per setting."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wiki7k", metavar="DIR", help="folder with corpus.jsonl and questions.jsonl")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=CORPUS,TASKS", help="another set; may be repeated"
    )
    parser.add_argument("--encoders", default=WORDLLAMA, metavar="E,E", help="encoders (default wordllama)")
    parser.add_argument(
        "--embedded", type=int, default=0, metavar="N", help="also N test questions of the embedded set"
    )
    parser.add_argument("--work", metavar="DIR", help="keep the indexes here (default: a temporary folder)")
    parser.add_argument("--out", metavar="FILE", help="write the result here")
    args = parser.parse_args()

    sets = []
    if args.wiki7k:
        sets.append(Set("wiki7k", f"{args.wiki7k}/corpus.jsonl", load_tasks(f"{args.wiki7k}/questions.jsonl")))
    for given in args.set:
        name, _, files = given.partition("=")
        corpus, _, tasks = files.partition(",")
        sets.append(Set(name, corpus, load_tasks(tasks)))
    if args.embedded:
        from corpora import EMBEDDED

        tasks = load_tasks("embedded", "test")
        chosen = random.Random(0).sample(tasks, min(args.embedded, len(tasks)))
        sets.append(Set("embedded", str(EMBEDDED / "passages.jsonl.gz"), chosen))
    sets = [replace(one, tasks=[task for task in one.tasks if task.evidence]) for one in sets]

    result: dict[str, Any] = {
        "packages": {name: importlib.metadata.version(name) for name in ("bm25s", "faiss-cpu", "numpy", "wordllama")},
        "sets": [],
        "parts": {},
        "bars": [],
    }
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(args.work or temporary)
        for one in sets:
            for encoder in args.encoders.split(","):
                record = measure(one, encoder, work / f"{one.name}-{encoder.replace('/', '_')}")
                result["sets"].append(record)
                _print(record)
            if one.name != "embedded":
                folder = work / f"{one.name}-{args.encoders.split(',')[0].replace('/', '_')}"
                result["parts"][one.name] = parts(one, folder)
                for name, figures in result["parts"][one.name].items():
                    print(f"  {name:34}", *figures.values())
    for record in result["sets"]:
        for bar in BARS:
            if (record["set"], record["encoder"]) == ("wiki7k", bar.encoder):
                reached = record["ablations"]["all (default)"][f"R@{bar.k}"]
                result["bars"].append({**bar._asdict(), "measured": reached, "passed": reached >= bar.limit})
                print(f"{bar.encoder} R@{bar.k}: {reached} (at least {bar.limit})")
    if args.out:
        Path(args.out).parent.mkdir(parents=True, exist_ok=True)
        Path(args.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _print(record: dict[str, Any]) -> None:
    print(f"{record['set']}, {record['encoder']}, {record['questions']} questions, {record['query_ms']} ms a query")
    for name, figures in record["ablations"].items():
        print(f"  {name:34}", *figures.values())
    for name in ("chosen on the half", "default"):
        print(f"  leave half out, {name:18}", *record["leave_half_out"][name].values())


if __name__ == "__main__":
    main()
