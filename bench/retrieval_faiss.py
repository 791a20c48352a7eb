"""What clustering vectors costs in recall and saves in time: ``python -m bench.retrieval_faiss``."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from venus_env.corpus.dense import DenseIndex, DenseWriter, cluster_count
from venus_env.corpus.rows import read_passages
from venus_env.corpus.text import sentences
from venus_env.tasks.loaders import load_tasks


def texts(files: Sequence[str]) -> Iterator[str]:
    """Every run of one to eight neighbouring sentences: many texts of few passages, all of them real prose."""
    passages = [passage for file in files for passage in read_passages(Path(file))]
    for size in range(1, 9):
        for passage in passages:
            found = sentences(passage.text)
            for start in range(len(found) - size + 1):
                yield f"{passage.title}\n{' '.join(found[start : start + size])}"


def main() -> None:
    """Build both kinds over the same texts and compare their rankings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="PASSAGES", help="passage files (.jsonl)")
    parser.add_argument("--tasks", required=True, metavar="FILE", help="questions to search")
    parser.add_argument("--rows", type=int, default=200_000, metavar="N", help="most vectors (default 200000)")
    parser.add_argument("--probes", default="16,32,64,128", metavar="N,N", help="clusters looked into")
    parser.add_argument("--out", metavar="FILE", help="write the result here")
    args = parser.parse_args()
    queries = [task.question for task in load_tasks(args.tasks)]
    result: dict[str, object] = {"queries": len(queries)}
    with tempfile.TemporaryDirectory() as work:
        indexes = {}
        for kind, flat_rows in (("flat", 10**9), ("clustered", 0)):
            folder = Path(work) / kind
            folder.mkdir()
            writer = DenseWriter(folder, flat_rows=flat_rows)
            rows = 0
            for text in islice(texts(args.files), args.rows):
                writer.add(text)
                rows += 1
            started = time.perf_counter()
            writer.close()
            indexes[kind] = DenseIndex(folder)
            result |= {"rows": rows, f"{kind}_close_s": round(time.perf_counter() - started, 1)}
        vectors = indexes["flat"].embed(queries)
        started = time.perf_counter()
        exact = indexes["flat"].rank_batch(vectors, 100)
        result |= {"flat_ms": _ms(started, queries), "clusters": cluster_count(rows), "probes": {}}
        print(result)
        for probes in map(int, args.probes.split(",")):
            index = indexes["clustered"]
            index._index.nprobe = probes  # type: ignore[attr-defined]
            started = time.perf_counter()
            found = index.rank_batch(vectors, 100)
            figures = {f"recall@{k}": _overlap(exact, found, k) for k in (10, 100)} | {"ms": _ms(started, queries)}
            result["probes"][probes] = figures  # type: ignore[index]
            print(probes, figures)
    if args.out:
        Path(args.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _overlap(exact: Sequence[np.ndarray], found: Sequence[np.ndarray], k: int) -> float:
    shares = [len(set(a[:k].tolist()) & set(b[:k].tolist())) / k for a, b in zip(exact, found, strict=True)]
    return round(float(np.mean(shares)), 4)


def _ms(started: float, queries: Sequence[str]) -> float:
    return round((time.perf_counter() - started) / len(queries) * 1000, 2)


if __name__ == "__main__":
    main()
