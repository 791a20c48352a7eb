"""What scoring every turn boundary of an episode costs: ``python -m bench.belief``; see README.md."""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from bench.env_throughput import Bar, machine, table
from bench.measure import Row
from venus_env.beliefs.probes import Probe, ProbeRequest, score_boundaries
from venus_env.evaluation.card import write_text_atomic

EXAMPLES = """\
examples:
  python -m bench.belief --out bench/results/belief.json
  python -m bench.belief --quick
"""
SHAPE = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 65_536,
    "tie_word_embeddings": True,
}
PREFIX_TOKENS, ANSWER_TOKENS = 13, 5
"""The shipped wrapper before the answer has 13 tokens of Qwen3's tokenizer."""
CHUNK = 8192
"""Tokens that the reference reads into its cache at a time."""
SAMPLED = 3
"""Boundaries at which the naive way is run where running it at all of them would take hours."""
TOLERANCE = 1e-4


class Case(NamedTuple):
    """One row of the result."""

    tokens: int
    boundaries: int
    repeats: int
    naive_boundaries: int


FULL = [
    Case(tokens, boundaries, repeats, boundaries if (tokens, boundaries) == (8192, 50) else min(SAMPLED, boundaries))
    for tokens, repeats in ((2048, 3), (8192, 3), (32_768, 1))
    for boundaries in (10, 50, 200)
]
QUICK = [Case(512, 10, 1, 2)]


class Measured(NamedTuple):
    """One run of one way to score.

    Attributes:
        cpu_s: Processor time, of all threads.
        wall_s: Wall time.
        peak_mb: Memory at the peak, less what the process held before.
        scores: ``[boundaries]``; empty for the plain forward.
    """

    cpu_s: float
    wall_s: float
    peak_mb: float
    scores: NDArray[np.float64]


def request_of(case: Case) -> ProbeRequest:
    """Random tokens, with boundaries at equal distances up to the end."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, SHAPE["vocab_size"], case.tokens).tolist()
    ends = np.linspace(case.tokens / case.boundaries, case.tokens, case.boundaries).astype(int).tolist()
    probe = Probe(tuple(rng.integers(0, SHAPE["vocab_size"], PREFIX_TOKENS + ANSWER_TOKENS).tolist()), PREFIX_TOKENS)
    return ProbeRequest(ids, ends, [probe])


def plain(model: Any, request: ProbeRequest) -> NDArray[np.float64]:
    """One forward of the episode that computes as many rows of logits as scoring needs."""
    rows = np.linspace(0, len(request.ids) - 1, len(request.boundaries) * ANSWER_TOKENS).astype(int)
    model(input_ids=torch.tensor([request.ids]), logits_to_keep=torch.from_numpy(rows), use_cache=False)
    return np.empty(0)


def one_pass(model: Any, request: ProbeRequest) -> NDArray[np.float64]:
    """``venus_env.beliefs.probes``."""
    (scores,) = score_boundaries(model, request)
    return np.asarray(scores)


def naive(model: Any, request: ProbeRequest) -> NDArray[np.float64]:
    """One forward of context and probe per boundary."""
    (probe,) = request.probes
    scores = []
    for end in request.boundaries:
        ids = torch.tensor([[*request.ids[:end], *probe.ids[:-1]]])
        logits = model(input_ids=ids, logits_to_keep=ANSWER_TOKENS, use_cache=False).logits[0]
        scores.append(_mean_logprob(logits, probe))
    return np.array(scores)


def cached(model: Any, request: ProbeRequest) -> NDArray[np.float64]:
    """The reference's way: the context in chunks through a cache, which is then cut for each boundary (method 4.1)."""
    from transformers import DynamicCache

    (probe,) = request.probes
    whole = DynamicCache(config=model.config)
    for start in range(0, len(request.ids), CHUNK):
        ids = torch.tensor([request.ids[start : start + CHUNK]])
        model(input_ids=ids, past_key_values=whole, use_cache=True, logits_to_keep=1)
    scores = []
    for end in request.boundaries:
        cut = [(layer.keys[:, :, : end - 1], layer.values[:, :, : end - 1]) for layer in whole.layers]
        ids = torch.tensor([[request.ids[end - 1], *probe.ids[:-1]]])
        logits = model(input_ids=ids, past_key_values=DynamicCache(cut), logits_to_keep=ANSWER_TOKENS).logits[0]
        scores.append(_mean_logprob(logits, probe))
    return np.array(scores)


def _mean_logprob(logits: torch.Tensor, probe: Probe) -> float:
    targets = torch.tensor(probe.ids[probe.start :])
    return float(logits.log_softmax(-1).gather(1, targets[:, None]).mean())


WAYS: dict[str, Callable[[Any, ProbeRequest], NDArray[np.float64]]] = {
    "plain": plain,
    "one_pass": one_pass,
    "cache_per_boundary": cached,
    "naive": naive,
}

_model: Any = None


def start_worker(threads: int) -> None:
    """Build the model in a process of one way, and warm up."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    global _model
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    _model = Qwen3ForCausalLM(Qwen3Config(**SHAPE)).eval()
    warm_up = request_of(Case(64, 4, 1, 4))
    with torch.no_grad():
        for way in WAYS.values():
            way(_model, warm_up)


def run_once(way: str, request: ProbeRequest) -> Measured:
    """Run one way in the process that was started for it."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _memory_mb("VmRSS")
    wall, cpu = time.perf_counter(), time.process_time()
    with torch.no_grad():
        scores = WAYS[way](_model, request)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Measured(cpu, wall, _memory_mb("VmHWM") - before, scores)


def _memory_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"{field}:")]
    return int(line.split()[1]) * 1024 / 1e6


def start_workers(stack: ExitStack, threads: int) -> dict[str, ProcessPoolExecutor]:
    """A fresh process for each way, so that its memory is nobody else's."""
    context = multiprocessing.get_context("spawn")
    return {
        way: stack.enter_context(
            ProcessPoolExecutor(1, mp_context=context, initializer=start_worker, initargs=(threads,))
        )
        for way in WAYS
    }


def measure(case: Case, threads: int) -> Row:
    """Run all ways, taking turns, and compare what they cost and find."""
    request = request_of(case)
    kept = np.linspace(case.boundaries - 1, 0, case.naive_boundaries).astype(int)[::-1]
    sampled = ProbeRequest(request.ids, [request.boundaries[index] for index in kept], request.probes)
    runs: dict[str, list[Measured]] = {way: [] for way in WAYS}
    with ExitStack() as stack:
        workers = start_workers(stack, threads)
        for repeat in range(case.repeats):
            for way, worker in workers.items():
                if way == "naive" and repeat:  # it takes the longest, and its bar is far away
                    continue
                runs[way].append(worker.submit(run_once, way, sampled if way == "naive" else request).result())
    found = runs["one_pass"][0].scores
    difference = max(
        np.abs(found - runs["cache_per_boundary"][0].scores).max(), np.abs(found[kept] - runs["naive"][0].scores).max()
    )
    if difference > TOLERANCE:
        raise RuntimeError(f"{case}: the ways differ by {difference} in log-probability")
    scale = {way: case.boundaries / case.naive_boundaries if way == "naive" else 1.0 for way in WAYS}
    cpu = {way: float(np.median([run.cpu_s for run in runs[way]])) * scale[way] for way in WAYS}
    wall = {way: float(np.median([run.wall_s for run in runs[way]])) * scale[way] for way in WAYS}
    # Of the first run: later ones find memory that the process has kept.
    peak = {way: runs[way][0].peak_mb for way in WAYS}
    return {
        "tokens": case.tokens,
        "boundaries": case.boundaries,
        "probe_tokens": case.boundaries * (PREFIX_TOKENS + ANSWER_TOKENS - 1),
        "repeats": case.repeats,
        "naive_boundaries_run": case.naive_boundaries,
        "largest_difference": float(difference),
        "plain_cpu_s": cpu["plain"],
        "plain_wall_s": wall["plain"],
        **{f"{way}_time_ratio": cpu[way] / cpu["plain"] for way in list(WAYS)[1:]},
        "plain_peak_mb": peak["plain"],
        **{f"{way}_memory_ratio": peak[way] / peak["plain"] for way in list(WAYS)[1:]},
        "naive_over_one_pass": cpu["naive"] / cpu["one_pass"],
    }


def bars(rows: list[Row]) -> Iterator[Bar]:
    """The bars that the measured rows allow to judge."""
    for row in rows:
        if (row["tokens"], row["boundaries"]) == (8192, 50):
            at = "8,192 tokens and 50 boundaries"
            yield Bar(f"time of one pass / plain forward at {at}", row["one_pass_time_ratio"], 1.5)
            yield Bar(f"memory of one pass / plain forward at {at}", row["one_pass_memory_ratio"], 1.5)
            yield Bar(f"time of the naive way / one pass at {at}", row["naive_over_one_pass"], 8.0, at_least=True)


def main(argv: list[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.belief",
        description="Measure what scoring all turn boundaries of an episode costs, in plain forwards of the episode.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--quick", action="store_true", help="one short episode: shows that the benchmark works")
    parser.add_argument("--tokens", type=int, nargs="+", help="only episodes of these lengths")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default 1)")
    arguments = parser.parse_args(argv)

    cases = QUICK if arguments.quick else FULL
    if arguments.tokens:
        cases = [case for case in cases if case.tokens in arguments.tokens]
    rows: list[Row] = []
    progress = tqdm(cases, unit="row")
    for case in progress:
        progress.set_description(f"{case.tokens} tokens, {case.boundaries} boundaries")
        rows.append(measure(case, arguments.threads))
        if arguments.out is not None:  # after each row: the long ones come last
            write_text_atomic(
                arguments.out, json.dumps(result(rows, arguments.quick, arguments.threads), indent=2) + "\n"
            )
    for shown in (rows, [bar.record() for bar in bars(rows)]):
        if shown:
            print(f"\n{table(shown)}")


def result(rows: list[Row], quick: bool, threads: int) -> Row:
    """What is written down."""
    return {
        "schema": "venus.bench/1",
        "machine": machine(),
        "quick": quick,
        "threads": threads,
        "model": {"architecture": "Qwen3, random weights, fp32", **SHAPE},
        "wrapper_tokens": PREFIX_TOKENS,
        "answer_tokens": ANSWER_TOKENS,
        "notes": [
            "ratios are of processor time and of peak memory, to one forward of the episode with as many logits",
            "the naive way runs at naive_boundaries_run boundaries, equally spaced; its time is scaled to all",
        ],
        "scoring": rows,
        "bars": [bar.record() for bar in bars(rows)],
    }


if __name__ == "__main__":
    main()
