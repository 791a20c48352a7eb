"""What can be told about a configuration before any work: findings that training refuses and the doctor prints.

Each check is a function from a configuration (and facts about the machine or the model) to :class:`Finding` records;
none of them reads a file. ``python -m venus_rl.train`` stops at the first error (:func:`refuse`),
``python -m venus_rl.doctor`` shows them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from venus_env.protocol.turns import Message
from venus_env.tokens import Renderer
from venus_rl.config import Config, ConfigError
from venus_rl.device import Device
from venus_rl.model.shape import ModelShape

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: ``error``: training will not work; ``warning``: it may, at a price; ``ok``.
        key: Configuration key, or what was looked at.
        value: Its value.
        text: What that means.
        fix: What to do about it; empty where nothing needs doing.
    """

    level: Level
    key: str
    value: str
    text: str
    fix: str = ""

    def __str__(self) -> str:
        """Key, value, meaning and fix in one sentence."""
        equals = " = " if " " in self.key else "="
        return f"{self.key}{equals}{self.value} {self.text}" + (f"; {self.fix}" if self.fix else "")


def refuse(findings: Iterable[Finding]) -> None:
    """Stop at the first error.

    Raises:
        ConfigError: With key, value, meaning and fix.
    """
    for finding in findings:
        if finding.level == "error":
            raise ConfigError(str(finding))


def check_sizes(config: Config, device: Device) -> Iterator[Finding]:
    """Batches that do not divide, a group of one, more workers than prompts; only of stages that run."""
    batch, parts = config.sft.batch_size, device.sft_batches
    if config.sft.enabled:
        what = device.count if device.kind == "cpu" else f"gpu.per_node / gpu.sequence_parallel = {parts}"
        yield _divides(
            "sft.batch_size", str(batch), batch, parts, what, f"use sft.batch_size={_multiple(batch, parts)}"
        )
    if not config.rl.steps:
        return
    rl, processes = config.rl, device.processes
    rollouts = rl.prompts * rl.group
    group = next(size for size in range(rl.group, rl.group + processes + 1) if rl.prompts * size % processes == 0)
    yield _divides(
        "rl.prompts × rl.group",
        f"{rl.prompts} × {rl.group} = {rollouts} rollouts",
        rollouts,
        processes,
        device.count,
        f"use rl.group={group}",
    )
    if rl.group < 2:
        yield Finding("error", "rl.group", "1", "has no group to compare with", "use rl.group=2 or more")
    else:
        yield Finding("ok", "rl.group", str(rl.group), "rollouts of a question are compared with each other")
    if device.workers > rl.prompts:
        yield Finding(
            "error",
            "rollout.workers",
            str(device.workers),
            f"agent-loop processes, but only rl.prompts={rl.prompts} questions a step to share among them",
            f"use rollout.workers={rl.prompts} or less",
        )
    else:
        yield Finding(
            "ok", "rollout.workers", str(device.workers), f"agent-loop processes share {rl.prompts} questions"
        )


def check_parallelism(config: Config, device: Device, shape: ModelShape) -> Iterator[Finding]:
    """Tensor and sequence parallel sizes against GPUs and attention heads."""
    if device.kind == "cpu":
        return
    gpu, total = config.gpu, device.processes
    for key, size in (
        ("gpu.tensor_parallel", gpu.tensor_parallel),
        ("gpu.sequence_parallel", gpu.sequence_parallel),
    ):
        fits = [n for n in range(1, gpu.per_node + 1) if gpu.per_node % n == 0 and _heads_split(shape, n)]
        nearest = f"use {key}={max((n for n in fits if n <= size), default=1)}"
        heads = f"{shape.heads} query and {shape.kv_heads} key heads"
        if total % size or gpu.per_node % min(size, gpu.per_node):
            yield Finding("error", key, str(size), f"does not divide {total} GPUs, {gpu.per_node} a machine", nearest)
        elif not _heads_split(shape, size):
            yield Finding("error", key, str(size), f"does not divide {heads} evenly", nearest)
        elif size > gpu.per_node:
            yield Finding(
                "warning", key, str(size), "spans machines, at the speed of the network between them", nearest
            )
        else:
            yield Finding("ok", key, str(size), f"divides {total} GPUs and {heads}")
    if gpu.sequence_parallel > 1 and device.attention != "flash_attention_2":
        yield Finding(
            "error",
            "model.attention",
            device.attention,
            f"cannot share a sequence among gpu.sequence_parallel={gpu.sequence_parallel} GPUs",
            "install flash-attn, or use gpu.sequence_parallel=1",
        )


def check_window(config: Config, window: int, limit: str) -> Iterator[Finding]:
    """Budgets against the longest sequence that the model takes.

    Args:
        config: The configuration.
        window: That length in tokens.
        limit: Where it is set, for messages.
    """
    wanted = {"env.max_context_tokens": config.env.max_context_tokens}
    if "max_tokens" in config.sft.model_fields_set:  # the default gives way to a shorter window by itself
        wanted["sft.max_tokens"] = config.sft.max_tokens or window
    for key, tokens in wanted.items():
        if tokens > window:
            text, fix = f"is more tokens than {limit}", f"set {key}={window} or less"
            yield Finding("error", key, str(tokens), text, fix)
        else:
            yield Finding("ok", key, str(tokens), f"fits: {limit}")


def check_tokenizer(tokenizer: Any, where: str) -> Iterator[Finding]:
    """Chat template, end of a turn, and whether earlier thinking stays.

    Args:
        tokenizer: A Hugging Face tokenizer.
        where: Its folder, for messages.
    """
    if not getattr(tokenizer, "chat_template", None):
        fix = "use the chat (instruct or thinking) version of the model, or add its chat_template.jinja to the folder"
        yield Finding("error", "tokenizer", where, "has no chat template, so it cannot render a conversation", fix)
        return
    try:
        renderer = Renderer(tokenizer)
    except ValueError as error:
        fix = "use a tokenizer with a ChatML-like template"
        yield Finding("error", "tokenizer", where, f"does not fit an append-only conversation: {error}", fix)
        return
    end, eos = renderer.layout.end_of_turn, tokenizer.eos_token
    if eos != end:
        yield Finding(
            "error",
            "tokenizer eos_token",
            repr(eos),
            f"is not what its chat template ends a turn with ({end!r}); rollouts would not stop at the end of a turn",
            f'set "eos_token": "{end}" in {where}/tokenizer_config.json',
        )
    else:
        yield Finding("ok", "tokenizer eos_token", repr(eos), "ends a turn in the chat template, too")
    yield _thinking(renderer)


def check_prompts(lengths: Iterable[tuple[str, int]], config: Config) -> Iterator[Finding]:
    """Questions that leave no room for a turn.

    Args:
        lengths: Task id and length of its prompt in tokens.
        config: The configuration.
    """
    env, longest = config.env, 0
    for task, tokens in lengths:
        longest = max(longest, tokens)
        needed = tokens + env.answer_tokens
        if needed > env.max_context_tokens:
            yield Finding(
                "error",
                "env.max_context_tokens",
                str(env.max_context_tokens),
                f"is too short for task {task!r}: prompt and one turn take {needed} tokens",
                f"use env.max_context_tokens={2 * needed} or more, or env.prompt=compact",
            )
            return
    yield Finding("ok", "prompt", f"{longest} tokens", f"at most, of env.max_context_tokens={env.max_context_tokens}")


def _thinking(renderer: Renderer) -> Finding:
    """Compare the append-only ids with the template's own rendering of a conversation with thinking."""
    call = '<tool_call>\n{"name": "search", "arguments": {"query": ["x"]}}\n</tool_call>'
    turn = f"<think>\nfirst thought\n</think>\n\n{call}"
    messages: list[Message] = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": turn},
        {"role": "user", "content": "<tool_response>\nfound\n</tool_response>"},
    ]
    template = str(renderer.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    ours = renderer.decode(renderer.encode(messages).ids)
    if template == ours:
        return Finding(
            "ok", "chat template", "prefix property", "holds: its own rendering equals ours, thinking included"
        )
    lost = "drops or changes earlier turns" if "first thought" in template else "drops earlier thinking"
    return Finding(
        "warning",
        "chat template",
        "prefix property",
        f"does not hold: it {lost}; training keeps every turn as it was sampled",
        "serve the trained model by tokens (venus_env.policies), or with a template that keeps earlier turns",
    )


def _divides(key: str, value: str, number: int, parts: int, what: str, fix: str) -> Finding:
    if number % parts:
        verb = "do not divide among" if "×" in key else "is not a multiple of"
        return Finding("error", key, value, f"{verb} {what}", fix)
    return Finding("ok", key, value, f"{'divide' if '×' in key else 'divides'} among {what}")


def _heads_split(shape: ModelShape, size: int) -> bool:
    """Key heads are split, or each is copied to the same number of GPUs."""
    return shape.heads % size == 0 and (shape.kv_heads % size == 0 or size % shape.kv_heads == 0)


def _multiple(value: int, of: int) -> int:
    return -(-value // of) * of
