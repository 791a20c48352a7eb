"""From a configuration to the formulas of :mod:`venus_rl.sizing`, and from their numbers to findings."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import psutil

from venus_rl import sizing
from venus_rl.checks import Finding, Level
from venus_rl.config import Config
from venus_rl.device import Device
from venus_rl.model.shape import ModelShape
from venus_rl.sizing import GIB, Hardware, Plan, Workload


@dataclass(frozen=True)
class Request:
    """What the command line asks beside the configuration.

    Attributes:
        gpu: Name in :data:`venus_rl.sizing.HARDWARE` to plan for; None takes what is here.
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
        rollout_memory=gpu.rollout_memory if cuda and device.engine == "vllm" else 0.0,
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


def check_memory(
    config: Config, shape: ModelShape, plan: Plan, hardware: Hardware | None, request: Request
) -> Iterator[Finding]:
    """Peak of an update, and room for keys and values, against the memory that there is."""
    if hardware is None:
        need = sizing.cpu_memory(shape, replace(plan, window=workload(config, request, request.fill).tokens))
        total = psutil.virtual_memory().total
        text = f"of {gib(total)} main memory, for {shape.parameters / 1e6:,.1f} M parameters"
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
    text = f"of {gib(hardware.memory)} per GPU in an update; the most is {largest} ({gib(training[largest])})"
    yield _limit("training memory", sum(training.values()), hardware.memory, text, fix)

    rollout = sizing.rollout_memory(shape, plan, hardware)
    used = int(plan.rollout_memory * hardware.memory) + rollout["trainer state"] + rollout["overhead"]
    text = f"of {gib(hardware.memory)} per GPU in rollouts, with {gib(rollout['trainer state'])} of trainer state"
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
    text = f"of {gib(free)} free in {folder}: {kept} checkpoints of {gib(one)}, and two models"
    yield _limit("disk", need, free, text, "use another run.dir, or lower rl.keep and sft.keep")
    if config.gpu.nodes > 1:
        text = "has to be on a file system that all machines share"
        yield Finding("warning", "run.dir", str(config.run.dir), text, "mount one, if it is not")


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


def _limit(key: str, need: int, limit: int, text: str, fix: str, near: float = 0.9) -> Finding:
    """An error where more is needed than there is, a warning where it is ``near`` that."""
    level: Level = "error" if need > limit else "warning" if need > near * limit else "ok"
    return Finding(level, key, gib(need), text, "" if level == "ok" else fix)


def gib(size: float) -> str:
    """A size for people."""
    return f"{size / GIB:.1f} GiB"
