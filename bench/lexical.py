"""bm25s against tantivy, side by side: ``python -m bench.lexical``; docs/retrieval.md shows the table."""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from venus_env.corpus import LocalCorpus
from venus_env.corpus.build import build_index, indexed_text
from venus_env.corpus.document import Passage
from venus_env.corpus.lexical import LexicalKind, lexical_writer, open_lexical, query_terms
from venus_env.corpus.recall import measure_recall
from venus_env.corpus.rows import read_passages, stored_line
from venus_env.corpus.text import index_terms, sentences, words
from venus_env.evaluation.card import write_text_atomic
from venus_env.tasks.loaders import load_tasks

EXAMPLES = """\
examples:
  python -m bench.lexical --wiki7k ../shared/data/wiki7k --out bench/results/lexical.json
  python -m bench.lexical --wiki7k ../shared/data/wiki7k --rows 5000 --full 5000
"""
KINDS: tuple[LexicalKind, ...] = ("bm25s", "tantivy")
KS = (2, 5, 10)
SECTIONS = ("recall_wiki7k", "lexical", "full")
PACKAGES = ("venus-research", "bm25s", "tantivy", "numpy", "faiss-cpu", "wordllama")
DEPTH = 100
REPEATS = 5
Row = dict[str, Any]
Result = TypeVar("Result")


def mixture(pages: Sequence[Passage], rows: int, seed: int) -> Iterator[Passage]:
    """Passages made of real sentences: a topic is a page and four others, and every passage draws on one topic.

    Names are changed alike throughout a pass over the topics and otherwise in every one, so that the vocabulary grows
    with the corpus as it does in real text. Passages of one topic are neighbours without being duplicates.
    """
    order = random.Random(seed).sample(range(len(pages)), len(pages))
    split = [sentences(pages[place].text) for place in order]
    for row in range(rows):
        rng = random.Random(f"{seed} {row}")
        turn, topic = divmod(row, len(pages))
        pool = [one for near in range(5) for one in split[(topic + near) % len(pages)]]
        text = " ".join(rng.sample(pool, min(rng.randint(3, 8), len(pool))))
        title = pages[order[topic]].title
        if turn:
            title, text = (" ".join(_renamed(word, turn, seed) for word in one.split()) for one in (title, text))
        yield Passage(id=str(row), url=f"https://mixture.invalid/{row}", title=f"{title} {row}", text=text)


@lru_cache(maxsize=100_000)
def _renamed(word: str, turn: int, seed: int) -> str:
    """Give half of the capitalised words another ending, the same one throughout a pass."""
    if not word[:1].isupper():
        return word
    rng = random.Random(f"{seed} {turn} {word}")
    return word if rng.random() < 0.5 else word.rstrip(".,;:") + "".join(rng.choices("aeioubdglmnrst", k=3))


def spans(passages: Sequence[Passage], count: int, seed: int) -> list[str]:
    """Ten neighbouring words of one passage each."""
    rng = random.Random(seed)
    found = []
    for passage in rng.sample(passages, count):
        text = passage.text.split()
        start = rng.randrange(max(len(text) - 9, 1))
        found.append(" ".join(text[start : start + 10]))
    return found


def written(kind: LexicalKind, source: Path, folder: Path) -> Row:
    """Write only the lexical index; its time is that of the writer, without reading and splitting the text."""
    folder.mkdir()
    spent = cpu = 0.0
    writer = lexical_writer(kind, folder)

    def timed(call: Callable[[], None]) -> None:
        nonlocal spent, cpu
        began, cpu_began = time.perf_counter(), time.process_time()
        call()
        spent += time.perf_counter() - began
        cpu += time.process_time() - cpu_began

    start = _memory("VmRSS", "/proc/self/status")
    for passage in read_passages(source):
        terms = index_terms(words(indexed_text(passage)))
        timed(partial(writer.add, terms))
    timed(writer.close)
    return {
        "seconds": round(spent, 1),
        "cpu_seconds": round(cpu, 1),
        "peak_mb": _memory("VmHWM", "/proc/self/status"),
        "start_mb": start,
        "disk_mb": _size(folder),
    }


def searched(kind: LexicalKind, folder: Path, queries: Sequence[str]) -> Row:
    """Open only the lexical index and search it."""
    before = _memory("Anonymous", "/proc/self/smaps_rollup")
    began = time.perf_counter()
    index = open_lexical(kind, folder)
    first = query_terms(queries[0])
    index.rank_terms(first, DEPTH)
    opened = time.perf_counter() - began
    for query in queries:
        index.rank_terms(query_terms(query), DEPTH)
    anonymous = _memory("Anonymous", "/proc/self/smaps_rollup") - before
    latency = _latency([partial(index.rank_terms, query_terms(query), DEPTH) for query in queries])
    return {"open_and_first_query_ms": round(opened * 1e3), "anonymous_mb": round(anonymous, 1), **latency}


def built(kind: LexicalKind, source: Path, folder: Path) -> Row:
    """Build a whole index, as the command line does, in one process."""
    began, cpu_began = time.perf_counter(), time.process_time()
    build_index(source, folder, lexical=kind)
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu_began, 1),
        "peak_mb": _memory("VmHWM", "/proc/self/status"),
        "disk_mb": _size(folder),
    }


def hybrid(folder: Path, queries: Sequence[str]) -> Row:
    """Open a whole index and search it as episodes do."""
    corpus = LocalCorpus(folder)
    corpus.search_now(queries, 10)
    anonymous = _memory("Anonymous", "/proc/self/smaps_rollup")
    latency = _latency([partial(corpus.search_now, [query], 10) for query in queries])
    return {"anonymous_mb": anonymous, **latency}


def recall(kind: LexicalKind, wiki7k: Path, folder: Path) -> Row:
    """Recall of the default hybrid."""
    build_index(wiki7k / "corpus.jsonl", folder, lexical=kind)
    tasks = load_tasks(wiki7k / "questions.jsonl")
    found = asyncio.run(measure_recall(LocalCorpus(folder), tasks, KS))
    return {"questions": found.questions, **{f"R@{k}": round(value, 3) for k, value in found.at.items()}}


def _latency(calls: Sequence[Callable[[], object]]) -> Row:
    """Best time of each query out of several rounds, so that other load on the machine matters less."""
    times = np.empty((REPEATS, len(calls)))
    for round_ in range(REPEATS):
        for place, call in enumerate(calls):
            began = time.perf_counter()
            call()
            times[round_, place] = time.perf_counter() - began
    best = times.min(axis=0) * 1e3
    return {"p50_ms": round(float(np.percentile(best, 50)), 2), "p95_ms": round(float(np.percentile(best, 95)), 2)}


def _memory(key: str, path: str) -> float:
    """Megabytes that the kernel reports of this process."""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    raise RuntimeError(f"{path}: no {key}; this benchmark needs Linux")


def _size(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 1)


def apart(function: Callable[..., Result], *arguments: object) -> Result:
    """Run in a process of its own, whose memory is then that of this one thing."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def main() -> None:
    """Measure both libraries at every size."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wiki7k", required=True, type=Path, metavar="DIR", help="corpus.jsonl and questions.jsonl")
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[25_000, 100_000], metavar="N", help="sizes of the lexical index alone"
    )
    parser.add_argument("--full", type=int, default=25_000, metavar="N", help="size of the whole index")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", metavar="FILE", help="write the result here")
    args = parser.parse_args()

    result: Row = {
        "schema": "venus.bench/1",
        "machine": machine(),
        "seed": args.seed,
        **{name: [] for name in SECTIONS},
    }
    with tempfile.TemporaryDirectory() as temporary:
        for section, row in measured(args.wiki7k, args.rows, args.full, args.seed, Path(temporary)):
            result[section].append(row)
            print(section, row, flush=True)
            if args.out:  # after every row: a run takes long
                write_text_atomic(args.out, json.dumps(result, indent=1) + "\n")


def machine() -> Row:
    """What it ran on."""
    from bench.env_throughput import machine

    return machine() | {"packages": {name: importlib.metadata.version(name) for name in PACKAGES}}


def measured(wiki7k: Path, sizes: Sequence[int], full: int, seed: int, work: Path) -> Iterator[tuple[str, Row]]:
    """Measure everything, one row after another."""
    for kind in KINDS:
        yield "recall_wiki7k", {"kind": kind, **apart(recall, kind, wiki7k, work / f"wiki7k-{kind}")}
    pages = list(read_passages(wiki7k / "corpus.jsonl"))
    questions = [task.question for task in load_tasks(wiki7k / "questions.jsonl")]
    for rows in sorted({*sizes, full}, reverse=True):  # the longest first
        source = work / f"{rows}.jsonl"
        passages = list(mixture(pages, rows, seed))
        with source.open("wb") as file:
            file.writelines(map(stored_line, passages))
        queries = questions + spans(passages, 200 - len(questions), seed)
        del passages
        for kind in KINDS:
            folder = work / f"{rows}-{kind}"
            row = {"kind": kind, "rows": rows, "write": apart(written, kind, source, folder)}
            yield "lexical", row | {"search": apart(searched, kind, folder, queries)}
        for kind in KINDS if rows == full else ():
            folder = work / f"full-{kind}"
            row = {"kind": kind, "rows": rows, "build": apart(built, kind, source, folder)}
            yield "full", row | {"search": apart(hybrid, folder, queries)}


if __name__ == "__main__":
    main()
