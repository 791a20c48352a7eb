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
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from venus_rl import checks, sizing
from venus_rl.checks import Finding
from venus_rl.config import Config, ConfigError, load_config
from venus_rl.device import Device, device_of
from venus_rl.model.shape import ModelShape
from venus_rl.sizing import GIB, HARDWARE, Hardware, Plan, Workload

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


@dataclass(frozen=True)
class Request:
    """What the command line asks beside the configuration.

    Attributes:
        gpu: Name in :data:`HARDWARE` to plan for; None takes what is here.
        fill: Share of its turns and of its window that an episode uses.
        generated: Tokens that the policy writes per turn.
        gpu_hour: Price of a GPU hour.
        tool_call: Price of a tool call.
        tasks: Training questions whose reachability is measured; 0 skips that.
    """

    gpu: str | None = None
    fill: float = 0.375
    generated: int = 300
    gpu_hour: float = 2.0
    tool_call: float = 0.0
    tasks: int = 40


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
        findings += checks.check_parallelism(config, device, shape)
        plan = plan_of(config, device)
        findings += check_memory(config, device, shape, plan, hardware, request)
        findings += check_disk(config, shape)
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


def plan_of(config: Config, device: Device) -> Plan:
    """Translate a configuration into what the formulas need."""
    gpu, rl = config.gpu, config.rl
    cuda = device.kind == "cuda"
    return Plan(
        gpus=device.processes,
        tensor_parallel=device.tensor_parallel,
        sequence_parallel=device.sequence_parallel,
        window=config.env.max_context_tokens,
        micro_batch_tokens=rl.micro_batch_tokens,
        checkpointing=cuda and gpu.checkpointing,
        offload=cuda and gpu.offload,
        fused_logits=cuda and gpu.fused_logits,
        rollout_memory=gpu.rollout_memory if device.engine == "vllm" else 0.0,
        reference=rl.kl > 0,
        max_batch=config.rollout.max_batch,
    )


def workload(config: Config, request: Request, fill: float) -> Workload:
    """A step whose episodes use the share ``fill`` of their turns and of their window."""
    return Workload(
        episodes=config.rl.prompts * config.rl.group,
        tokens=max(1, round(config.env.max_context_tokens * fill)),
        turns=max(1, round(config.env.max_turns * fill)),
        generated=min(request.generated, config.env.answer_tokens),
    )


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


def check_memory(
    config: Config, device: Device, shape: ModelShape, plan: Plan, hardware: Hardware | None, request: Request
) -> Iterator[Finding]:
    """Peak of an update, and room for keys and values, against the memory that there is."""
    if hardware is None:
        need = sizing.cpu_memory(shape, replace(plan, window=workload(config, request, request.fill).tokens))
        total = psutil.virtual_memory().total
        text = f"of {_gib(total)} main memory, for {shape.parameters / 1e6:,.1f} M parameters"
        fix = "use a smaller model (model.shrink), a smaller rl.micro_batch_tokens, or fewer run.processes"
        yield _limit("memory", need, total, text, fix)
        return
    training = sizing.training_memory(shape, plan)
    largest = max((name for name in training if name != "overhead"), key=lambda name: training[name])
    cures = {
        "logits": "set gpu.fused_logits=true",
        "activations kept": "set gpu.checkpointing=true, or raise gpu.sequence_parallel",
        "activations of a layer": "raise gpu.sequence_parallel, or lower env.max_context_tokens",
    }
    fix = cures.get(largest, "use more GPUs")
    text = f"of {_gib(hardware.memory)} per GPU in an update; the most is {largest} ({_gib(training[largest])})"
    yield _limit("training memory", sum(training.values()), hardware.memory, text, fix)

    rollout = sizing.rollout_memory(shape, plan, hardware)
    used = int(plan.rollout_memory * hardware.memory) + rollout["trainer state"] + rollout["overhead"]
    text = f"of {_gib(hardware.memory)} per GPU in rollouts, with {_gib(rollout['trainer state'])} of trainer state"
    share = (hardware.memory - rollout["trainer state"] - rollout["overhead"]) / hardware.memory
    fix = f"use gpu.rollout_memory={int(share * 100) / 100} or less" + ("" if plan.offload else ", or gpu.offload=true")
    yield _limit("rollout memory", used, hardware.memory, text, fix, near=1.0)

    full = sizing.sequences_in_memory(shape, plan, hardware, plan.window)
    wanted = min(plan.max_batch, -(-config.rl.prompts * config.rl.group * plan.tensor_parallel // plan.gpus))
    usual = max(1, workload(config, request, request.fill).tokens // 2)  # contexts are half as long on average
    typical = sizing.sequences_in_memory(shape, plan, hardware, usual)
    value = f"{shape.kv_bytes_per_token / 1024:.0f} KiB a token"
    text = (
        f": a replica holds {full} contexts of {plan.window} tokens or {typical} of {usual}, and is asked for {wanted}"
    )
    if full == 0:
        yield Finding("error", "keys and values", value, text, "raise gpu.tensor_parallel or gpu.rollout_memory")
    elif typical < wanted:
        fix = f"use rollout.max_batch={max(1, typical)} (others wait), or raise gpu.tensor_parallel"
        yield Finding("warning", "keys and values", value, text, fix)
    else:
        yield Finding("ok", "keys and values", value, text)


def check_disk(config: Config, shape: ModelShape) -> Iterator[Finding]:
    """Checkpoints that are kept, one that is being written, and finished models, against the free space."""
    one = sizing.checkpoint_bytes(shape)
    kept = (config.rl.keep + 1 if config.rl.steps else 0) + (config.sft.keep + 1 if config.sft.enabled else 0)
    need = one * kept + 2 * shape.parameters * sizing.MASTER_BYTES
    folder = next(path for path in (config.run.dir.absolute(), *config.run.dir.absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    text = f"of {_gib(free)} free in {folder}: {kept} checkpoints of {_gib(one)}, and two models"
    yield _limit("disk", need, free, text, "use another run.dir, or lower rl.keep and sft.keep")
    if config.gpu.nodes > 1:
        text = "has to be on a file system that all machines share"
        yield Finding("warning", "run.dir", str(config.run.dir), text, "mount one, if it is not")


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


def estimate_step(
    config: Config, shape: ModelShape, plan: Plan, hardware: Hardware | None, request: Request
) -> dict[str, Any]:
    """Memory, tokens, tool calls, seconds and price of an RL step, for usual and for full episodes."""
    estimate: dict[str, Any] = {"parameters": shape.parameters, "kv_bytes_per_token": shape.kv_bytes_per_token}
    if hardware is not None:
        estimate["gpu"] = asdict(hardware)
        estimate["training_memory"] = sizing.training_memory(shape, plan)
        estimate["rollout_memory"] = sizing.rollout_memory(shape, plan, hardware)
    for name, fill in (("usual", request.fill), ("full", 1.0)):
        work = workload(config, request, fill)
        entry: dict[str, Any] = {
            "tokens_per_episode": work.tokens,
            "turns_per_episode": work.turns,
            "tokens_per_step": work.step_tokens,
            "tool_calls_per_step": work.tool_calls,
        }
        if hardware is not None:
            seconds = sizing.step_seconds(shape, plan, hardware, work)
            total = sum(seconds.values())
            prices = {"gpu_hour": request.gpu_hour, "tool_call": request.tool_call}
            entry["seconds"] = {part: round(value, 1) for part, value in seconds.items()}
            entry["seconds_per_step"] = round(total)
            entry["price_per_step"] = round(sizing.step_price(total, plan.gpus, work.tool_calls, **prices), 2)
        estimate[name] = entry
    return estimate


def render(findings: list[Finding], estimate: dict[str, Any], request: Request) -> str:
    """Lines for a terminal."""
    lines = [f"{finding.level:<8} {finding}" for finding in findings]
    if not estimate:
        return "\n".join(lines)
    lines += ["", f"estimate: {estimate['parameters']:,} parameters"]
    for what in ("training_memory", "rollout_memory"):
        parts = estimate.get(what, {})
        if parts:
            shown = ", ".join(f"{name} {_gib(size)}" for name, size in parts.items())
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


def _limit(key: str, need: int, limit: int, text: str, fix: str, near: float = 0.9) -> Finding:
    """An error where more is needed than there is, a warning where it is ``near`` that."""
    level: checks.Level = "error" if need > limit else "warning" if need > near * limit else "ok"
    return Finding(level, key, _gib(need), text, "" if level == "ok" else fix)


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


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
