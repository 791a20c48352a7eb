"""Speed and memory of the SFT data pipeline on real traces: ``python -m bench.data_pipeline``."""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from venus_env.evaluation.card import write_text_atomic
from venus_rl.data.calls import RawMessage
from venus_rl.data.dedup import remove_repeats
from venus_rl.data.normalise import default_prompt, normalise_as_reference
from venus_rl.data.options import CleanConfig
from venus_rl.data.parquet import RowWriter
from venus_rl.data.pipeline import clean
from venus_rl.data.prune import prune
from venus_rl.data.sources import find_files, raw_rows
from venus_rl.data.validate import find_problem

EXAMPLES = """\
examples:
  python -m bench.data_pipeline --traces ../shared/data/trajectories/sft --out bench/results/data_pipeline.json
  python -m bench.data_pipeline --traces ../shared/data/trajectories/sft --rows 500 --workers 1
"""
Row = dict[str, Any]


def trajectories(traces: Sequence[Row], rows: int, kind: str, seed: int) -> Iterator[Row]:
    """Seeded variants of clean rows: some turns call another tool, repeat, use an alias, or cannot be read.

    Args:
        traces: Rows ``{question, messages, gt}``.
        rows: How many variants.
        kind: ``clean`` or ``raw``; raw rows have ``meta``, no system message, and search results printed as Google's.
        seed: Fixes everything.
    """
    for number in range(rows):
        rng, trace = random.Random(f"{seed} {number}"), traces[number % len(traces)]
        messages = [dict(message) for message in _varied(trace["messages"], kind, rng)]
        question = f"{trace['question']} ({number})"
        if kind == "raw":
            yield {"meta": {"question": question, "answer": trace["gt"]}, "messages": messages[1:]}
        else:
            yield {"question": question, "messages": messages, "gt": trace["gt"]}


def _varied(messages: Sequence[RawMessage], kind: str, rng: random.Random) -> Iterator[RawMessage]:
    last = len(messages) - 1
    for index, message in enumerate(messages):
        text, draw = message["content"], rng.random()
        if message["role"] == "assistant" and index < last:
            if draw < 0.03:
                text = text.replace('{"name": "search"', '{"name": "scholar"')
            elif draw < 0.06 and kind == "raw":
                text = text.replace('{"query": [', '{"queries": [')
            elif draw < 0.065:
                text = text.replace('"arguments":', "'arguments':")  # JSON5
            elif draw < 0.07 and kind == "raw":
                text = text.replace("}}", "}", 1)
        elif message["role"] == "user" and index > 1:
            text = _printed(text) if kind == "raw" else text
        yield {"role": message["role"], "content": text}
        if message["role"] == "user" and 2 < index < last and draw < 0.05:
            yield messages[index - 1]
            yield {"role": "user", "content": text}


def _printed(content: str) -> str:
    """A JSON search result as the text that it was made from; other replies as they are."""
    body = content.removeprefix("<tool_response>\n").removesuffix("\n</tool_response>")
    try:
        records = json.loads(body)
    except ValueError:
        return content
    parts = []
    for record in records:
        found = record["web_page_info_list"]
        links = [f"{n}. [{one['title']}]({one['url']})\n\n{one['snippet']}" for n, one in enumerate(found, start=1)]
        header = f"A Google search for '{record['query']}' found {len(found)} results:\n\n## Web Results\n"
        parts.append(header + "\n\n".join(links))
    return "<tool_response>\n" + "\n=======\n".join(parts) + "\n</tool_response>"


def stage_split(path: Path, rows: int) -> Row:
    """Seconds that each stage takes on the first rows, one after the other in one process."""
    spent: defaultdict[str, float] = defaultdict(float)
    prompt = default_prompt()
    source = raw_rows(path)
    with tempfile.TemporaryDirectory() as folder, RowWriter.clean(Path(folder) / "x.parquet", bare=True) as writer:
        for _ in range(rows):
            marks = [time.perf_counter()]
            _, raw = next(source)
            marks.append(time.perf_counter())
            row = normalise_as_reference(raw, "", "", prompt)
            marks.append(time.perf_counter())
            messages, _ = prune(row.messages, {"search", "visit"})
            marks.append(time.perf_counter())
            messages, _ = remove_repeats(messages)
            marks.append(time.perf_counter())
            find_problem(messages, reference=True)
            marks.append(time.perf_counter())
            writer.add(question=row.question, messages=messages, gt=row.answers[0])
            marks.append(time.perf_counter())
            names = ("read", "normalise", "prune", "dedup", "validate", "write")
            for name, (start, end) in zip(names, pairwise(marks), strict=True):
                spent[name] += end - start
    return {name: round(seconds, 3) for name, seconds in spent.items()}


def measure(path: Path, workers: int) -> Row:
    """Clean a file in a process of its own, as the command does; the times include starting it."""
    with tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        command = [sys.executable, "-m", "bench.data_pipeline", "--run", str(path), out, "--workers", str(workers)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - started
    return {"seconds": seconds, **json.loads(done.stdout)}


def _run(path: Path, out: Path, workers: int) -> None:
    made = clean([path], CleanConfig(reference=True), out, workers=workers, progress=False)
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        json.dumps(
            {
                "rows": made.report["rows"]["read"],
                "kept": made.report["rows"]["kept"],
                "cpu_s": own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
                "peak_rss_mb": own.ru_maxrss / 1024,
                "worker_peak_rss_mb": children.ru_maxrss / 1024,
            }
        )
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.data_pipeline",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--traces", type=Path, help="clean rows to make variants of")
    parser.add_argument("--rows", type=int, default=10_000, help="trajectories of each kind (default 10,000)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the variants (default 0)")
    parser.add_argument("--out", type=Path, help="write the figures to this file as well")
    parser.add_argument("--run", nargs=2, type=Path, metavar=("FILE", "DIR"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run is not None:
        _run(args.run[0], args.run[1], args.workers)
        return
    if args.traces is None:
        parser.error("--traces is needed")
    traces = [raw for path in find_files([args.traces]) for _, raw in raw_rows(path)]
    result: Row = {"schema": "venus.bench/1", "rows": args.rows, "workers": args.workers, "seed": args.seed}
    for kind in ("raw", "clean"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.jsonl"
            with path.open("w", encoding="utf-8") as file:
                for row in trajectories(traces, args.rows, kind, args.seed):
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
            made = measure(path, args.workers)
            megabytes = path.stat().st_size / 1e6
            made |= {"rows_per_s": made["rows"] / made["seconds"], "mb_per_s": megabytes / made["seconds"]}
            result[kind] = made | {"megabytes": megabytes, "stages_s_100_rows": stage_split(path, min(100, args.rows))}
    text = json.dumps(result, indent=1)
    print(text)
    if args.out is not None:
        write_text_atomic(args.out, text + "\n")


if __name__ == "__main__":
    main()
