"""Says in seconds what would fail in hours: ``python -m venus_rl.doctor --config FILE [key=value …]``.

Looks at versions, GPUs, memory, divisibility, disk, model and tokenizer, corpus and tasks, and estimates memory,
tokens, tool calls, time and price of a training step from the formulas of :mod:`venus_rl.sizing`. Exit status 1 where
something is wrong. Nothing is trained, and nothing but the corpus's index is written.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from venus_rl import checks
from venus_rl.checks import Finding
from venus_rl.config import Config, ConfigError, load_config
from venus_rl.device import Device, device_of
from venus_rl.estimate import Request, check_disk, check_memory, estimate_step, gib, plan_of
from venus_rl.model.shape import ModelShape
from venus_rl.sizing import HARDWARE, Hardware

# What verl 0.9.1 is run with: pyproject.toml's extra "train" on the CPU, verl's own extras on GPUs.
PINS = {"verl": "0.9.1", "ray": "2.60.0", "TransferQueue": "0.1.11", "tensordict": "0.10.0"}
CPU_PINS = {"torch": "2.13.0", "transformers": "5.10.4"}
GPU_PINS = {"torch": "2.11.0", "transformers": "5.9.0", "vllm": "0.24.0", "flash-attn": "2.8.3"}
_PRIVATE = ("verl", "TransferQueue")  # private names are used of these

EXAMPLES = """examples:
  python -m venus_rl.doctor --config configs/tiny-cpu.yaml
  python -m venus_rl.doctor --config configs/dr-venus-4b.yaml --gpu a100-80gb     plan for GPUs that are not here
  python -m venus_rl.doctor --config configs/dr-venus-4b.yaml --price-gpu-hour 1.8 --price-tool-call 0.001 --json
"""


def examine(config: Config, request: Request) -> tuple[list[Finding], dict[str, Any]]:
    """Look at everything; return findings, and the estimate as plain JSON values."""
    device, hardware, findings = _target(config, request)
    findings += check_versions(device)
    findings += checks.check_sizes(config, device)
    shape = None
    try:
        shape = _shape(config)
    except ConfigError as error:
        findings.append(_refused("model.path", str(config.model.path), error))
    estimate: dict[str, Any] = {}
    if shape is not None:
        parallel = list(checks.check_parallelism(config, device, shape))
        findings += [*parallel, *check_disk(config, shape)]
        if all(finding.level != "error" for finding in parallel):  # else the formulas have nothing to divide by
            plan = plan_of(config, device)
            findings += check_memory(config, shape, plan, hardware, request)
            estimate = estimate_step(config, shape, plan, hardware, request)
    findings += check_model_files(config)
    findings += check_world(config, request)
    return findings, estimate


def _target(config: Config, request: Request) -> tuple[Device, Hardware | None, list[Finding]]:
    """The device to plan for: this machine's, or GPUs that are not here."""
    import torch

    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    here = [torch.cuda.get_device_properties(index) for index in range(seen)]
    meant = seen > 0 or ("gpu" in config.model_fields_set and config.model.shrink is None)
    wants_gpus = request.gpu is not None or config.run.device == "cuda" or (config.run.device == "auto" and meant)
    gpu = config.gpu
    if not wants_gpus:
        device = device_of(config)
        return device, None, [Finding("ok", "run.device", device.kind, f"with {device.processes} processes")]
    on_gpus = config.model_copy(update={"run": config.run.model_copy(update={"device": "cuda"})})
    planned = device_of(on_gpus)
    if not seen:  # what a GPU machine is expected to have
        planned = replace(planned, attention="flash_attention_2", engine="vllm", tensor_parallel=gpu.tensor_parallel)
    hardware = HARDWARE[request.gpu] if request.gpu else _named(here) or HARDWARE["a100-80gb"]
    if seen >= gpu.per_node:
        return planned, hardware, [Finding("ok", "gpu.per_node", str(gpu.per_node), f"{seen} {here[0].name} are here")]
    if seen:
        fix = f"use gpu.per_node={seen}"
        return (
            planned,
            hardware,
            [Finding("error", "gpu.per_node", str(gpu.per_node), f"but {seen} GPUs are here", fix)],
        )
    level: checks.Level = "error" if config.run.device == "cuda" else "ok" if request.gpu else "warning"
    text = f"but torch sees no GPU on this machine; what follows is a plan for {hardware.name}"
    fix = "" if level == "ok" else "run it where the GPUs are; model.shrink=16 tries the configuration on a CPU"
    return planned, hardware, [Finding(level, "gpu.per_node", str(gpu.per_node), text, fix)]


def _named(here: list[Any]) -> Hardware | None:
    """Data-sheet figures of the GPUs that are here, with their true memory; those of an A100 for unknown ones."""
    if not here:
        return None
    name = here[0].name.lower()
    known = next((one for key, one in HARDWARE.items() if key.split("-")[0] in name), HARDWARE["a100-80gb"])
    return replace(known, name=here[0].name, memory=min(one.total_memory for one in here))


def _shape(config: Config) -> ModelShape:
    from venus_rl.stages.prepare import model_shape

    return model_shape(config)


def check_versions(device: Device) -> Iterator[Finding]:
    """Installed versions against the ones that this release is run with."""
    pins = PINS | (GPU_PINS if device.kind == "cuda" else CPU_PINS)
    for package, pinned in pins.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            missing = "vllm" if package == "vllm" else "flash-attn" if package == "flash-attn" else ""
            level: checks.Level = "warning" if missing else "error"
            consequence = {"vllm": "rollouts by the transformers engine are slow", "flash-attn": "no sequence parallel"}
            text = "is not installed" + (f": {consequence[missing]}" if missing else "")
            yield Finding(level, package, "none", text, f"pip install {package}=={pinned}")
            continue
        if version.split("+")[0] == pinned:
            yield Finding("ok", package, version, "as pinned")
        else:
            level = "error" if package in _PRIVATE else "warning"
            yield Finding(level, package, version, f"is not {pinned}", f"pip install {package}=={pinned}")


def check_model_files(config: Config) -> Iterator[Finding]:
    """Weights, window, tokenizer and chat template."""
    from venus_rl.stages import prepare

    try:
        prepare.check_model(config)
        yield Finding("ok", "model.path", str(config.model.path), "can be trained from")
    except ConfigError as error:
        yield _refused("model.path", str(config.model.path), error)
    if config.model.init is not None:
        yield Finding("ok", "tokenizer", "model.init", "is made to fit when the run starts")
        return
    try:
        tokenizer = prepare.load_tokenizer(config)
    except ConfigError as error:
        yield _refused("tokenizer", str(config.model.path), error)
        return
    yield from checks.check_tokenizer(tokenizer, str(prepare.tokenizer_path(config)))


def check_world(config: Config, request: Request) -> Iterator[Finding]:
    """Corpus, tasks, room for the questions, and whether their evidence and answers can be found."""
    from venus_env.corpus.coverage import measure_coverage
    from venus_env.setting import draw_tasks
    from venus_rl.stages import data, prepare

    outcome = config.env.rewards.outcome
    yield Finding("ok", "env.rewards.outcome", outcome, "is a rule; no judge is asked in training")
    try:
        data.check_sources(config)
        setting = prepare.open_setting(config)
        yield Finding("ok", "env.corpus", config.env.corpus, f"opens ({setting.corpus.content_hash[:12]})")
        prepare.check_tasks(config, setting)
        tasks = prepare.select_tasks(setting, "train", config.rl.hops, "rl.hops")
        yield Finding("ok", "env.tasks", config.env.tasks, f"has {len(tasks)} questions to train on")
    except ConfigError as error:
        yield _refused("env", config.env.corpus, error)
        return
    sample = draw_tasks(tasks, min(len(tasks), max(1, request.tasks)))
    if config.model.init is None:
        from venus_env.tokens import Renderer

        try:
            renderer = Renderer(prepare.load_tokenizer(config))
            yield from checks.check_prompts(prepare.prompt_lengths(setting, renderer, sample), config)
        except (ConfigError, ValueError):
            pass  # said about the tokenizer already
    if not request.tasks:
        return
    coverage = asyncio.run(measure_coverage(setting.corpus, sample, config.env.top_k))
    counts = coverage.by_hops()["all"]
    known = counts["reachable"] + counts["unreachable"]
    value = f"{counts['reachable']} of {known}"
    text = f"questions of a sample reach evidence and answer in the first {config.env.top_k} results"
    fix = f"python -m venus_env corpus coverage --corpus {config.env.corpus} --tasks {config.env.tasks} says which"
    if not known:
        yield Finding("warning", "coverage", "unknown", "the tasks name no evidence", "give some, to be able to tell")
    elif counts["reachable"] < 0.5 * known:
        yield Finding("error" if not counts["reachable"] else "warning", "coverage", value, text, fix)
    else:
        yield Finding("ok", "coverage", value, text)


def render(findings: list[Finding], estimate: dict[str, Any], request: Request) -> str:
    """Lines for a terminal."""
    lines = [f"{finding.level:<8} {finding}" for finding in findings]
    if not estimate:
        return "\n".join(lines)
    lines += ["", f"estimate: {estimate['parameters']:,} parameters"]
    for what in ("training_memory", "rollout_memory"):
        parts = estimate.get(what, {})
        if parts:
            shown = ", ".join(f"{name} {gib(size)}" for name, size in parts.items())
            lines.append(f"  {what.replace('_', ' ')} per GPU: {shown}")
    for name in ("usual", "full"):
        entry = estimate[name]
        lines.append(
            f"  {name} episodes ({entry['tokens_per_episode']:,} tokens, {entry['turns_per_episode']} turns): "
            f"{entry['tokens_per_step']:,} tokens and {entry['tool_calls_per_step']:,} tool calls a step"
        )
        if "seconds" in entry:
            shown = ", ".join(f"{part} {value:,.0f} s" for part, value in entry["seconds"].items())
            lines.append(f"    {entry['seconds_per_step']:,} s without waiting for tools ({shown})")
            prices = f"{request.gpu_hour:g} a GPU hour, {request.tool_call:g} a tool call"
            lines.append(f"    price {entry['price_per_step']:,.2f} a step at {prices}")
    return "\n".join(lines)


def _refused(key: str, value: str, error: ConfigError) -> Finding:
    return Finding("error", key, value, f"is refused: {error}")


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit status (0 nothing wrong, 1 errors were found, 2 no readable configuration)."""
    parser = argparse.ArgumentParser(
        prog="python -m venus_rl.doctor",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES,
    )
    default = Request()
    parser.add_argument("--config", type=Path, help="YAML file of settings, as of venus_rl.train")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="one setting, e.g. gpu.per_node=4")
    parser.add_argument("--json", action="store_true", help="print findings and estimate as JSON")
    parser.add_argument("--gpu", choices=sorted(HARDWARE), help="plan for these GPUs, wherever this runs")
    parser.add_argument(
        "--fill",
        type=float,
        default=default.fill,
        help="share of turns and window that an episode uses (default: %(default)s, which is 75 of 200 turns)",
    )
    parser.add_argument("--generated", type=int, default=default.generated, help="tokens per turn (%(default)s)")
    parser.add_argument("--price-gpu-hour", type=float, default=default.gpu_hour, help="default: %(default)s")
    parser.add_argument("--price-tool-call", type=float, default=default.tool_call, help="default: %(default)s")
    parser.add_argument("--tasks", type=int, default=default.tasks, help="questions to look for (%(default)s); 0: none")
    arguments = parser.parse_intermixed_args(argv)
    if not 0 < arguments.fill <= 1 or arguments.generated < 1 or arguments.tasks < 0:
        parser.error("--fill is a share above 0 and at most 1, --generated at least 1, --tasks at least 0")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    request = Request(
        gpu=arguments.gpu,
        fill=arguments.fill,
        generated=arguments.generated,
        gpu_hour=arguments.price_gpu_hour,
        tool_call=arguments.price_tool_call,
        tasks=arguments.tasks,
    )
    try:
        config = load_config(arguments.config, arguments.overrides)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    findings, estimate = examine(config, request)
    if arguments.json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings], "estimate": estimate}, indent=1))
    else:
        print(render(findings, estimate, request))
    return int(any(finding.level == "error" for finding in findings))


if __name__ == "__main__":
    raise SystemExit(main())
