"""What a run uses of the machine: one description that the CPU and the GPU path share.

``run.device`` chooses between the keys of ``run`` (CPU) and of ``gpu``. Everything that differs between the two is
decided here, once; the rest of the package asks a :class:`Device`.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import dataclass
from typing import Literal

from venus_rl.config import Config

Kind = Literal["cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class Device:
    """How a run is spread over a machine or several.

    Attributes:
        kind: ``cpu`` or ``cuda``.
        nodes: Machines.
        per_node: Training processes per machine: GPUs, or data-parallel workers on the CPU.
        tensor_parallel: Processes that a rollout replica spans.
        sequence_parallel: Processes that share one sequence in training.
        engine: Rollout engine.
        dtype: Parameter type in rollouts.
        attention: Attention implementation in training.
        workers: Agent-loop processes.
    """

    kind: Kind
    nodes: int
    per_node: int
    tensor_parallel: int
    sequence_parallel: int
    engine: Literal["transformers", "vllm"]
    dtype: Literal["float32", "bfloat16"]
    attention: Literal["sdpa", "eager", "flash_attention_2"]
    workers: int

    @property
    def processes(self) -> int:
        """Training processes in RL, over all machines."""
        return self.nodes * self.per_node

    @property
    def replicas(self) -> int:
        """Rollout replicas."""
        return self.processes // self.tensor_parallel

    @property
    def sft_batches(self) -> int:
        """Data-parallel groups in SFT, which runs on the first machine: batches are divided among them."""
        return max(1, self.per_node // self.sequence_parallel)

    @property
    def whole_sequences(self) -> bool:
        """Whether a training process sees sequences whole, as scoring them in one pass needs."""
        return self.sequence_parallel == 1

    @property
    def count(self) -> str:
        """The setting that says how many processes there are, for messages."""
        return (
            f"run.processes={self.processes}" if self.kind == "cpu" else f"gpu.nodes × gpu.per_node = {self.processes}"
        )


def device_of(config: Config) -> Device:
    """Describe how ``config`` runs on this machine."""
    kind = config.run.device if config.run.device != "auto" else detect()
    cuda, gpu, model = kind == "cuda", config.gpu, config.model
    engine = config.rollout.engine if config.rollout.engine != "auto" else _engine(cuda)
    return Device(
        kind=kind,
        nodes=gpu.nodes if cuda else 1,
        per_node=gpu.per_node if cuda else config.run.processes,
        tensor_parallel=gpu.tensor_parallel
        if cuda and engine == "vllm"
        else 1,  # a transformers replica is one process
        sequence_parallel=gpu.sequence_parallel if cuda else 1,
        engine=engine,
        dtype=model.dtype if model.dtype != "auto" else ("bfloat16" if cuda else "float32"),
        attention=model.attention if model.attention != "auto" else _attention(cuda),
        workers=config.rollout.workers if cuda else min(config.rollout.workers, os.cpu_count() or 1),
    )


def pinned(config: Config) -> Config:
    """Replace ``auto`` of device and engine by what this machine has, for processes that do not see its GPUs."""
    device = device_of(config)
    run = config.run.model_copy(update={"device": device.kind})
    rollout = config.rollout.model_copy(update={"engine": device.engine})
    return config.model_copy(update={"run": run, "rollout": rollout})


@functools.cache
def detect() -> Kind:
    """``cuda`` where torch sees a GPU."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _engine(cuda: bool) -> Literal["transformers", "vllm"]:
    return "vllm" if cuda and importlib.util.find_spec("vllm") else "transformers"


def _attention(cuda: bool) -> Literal["sdpa", "flash_attention_2"]:
    return "flash_attention_2" if cuda and importlib.util.find_spec("flash_attn") else "sdpa"
