"""Memory, tokens, time and money of a training step, by arithmetic. Pure functions; every constant is named here.

Units: bytes, seconds, tokens. Memory of a GPU counts what is certain to be there plus :data:`OVERHEAD`; time assumes
the efficiencies of :class:`Hardware`. Expect a step to differ by half either way, and the order of its parts to hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from venus_rl.model.shape import ModelShape

GIB = 2**30
MASTER_BYTES = 4
"""Per parameter: float32 masters."""
GRADIENT_BYTES = 4
"""Per parameter: float32 gradients, since FSDP2 reduces in float32."""
ADAM_BYTES = 8
"""Per parameter: two float32 moments."""
COMPUTE_BYTES = 2
"""Per parameter or activation: bfloat16."""
LOGIT_BYTES = 8
"""Per logit that exists: bfloat16 values and gradient, and a float32 copy while the softmax is taken."""
LOGIT_CHUNK = 512
"""Tokens whose logits exist at once with ``gpu.fused_logits`` (verl's torch backend)."""
PREFILL_BYTES = 2 * GIB
"""Activations and CUDA graphs of a vLLM replica, per GPU."""
OVERHEAD = 4 * GIB
"""Per GPU: CUDA contexts of trainer and vLLM, NCCL buffers, fragmentation."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """A GPU.

    Attributes:
        name: For messages.
        memory: Bytes.
        flops: Dense bfloat16 operations per second, by its data sheet.
        bandwidth: Bytes per second of its memory, by its data sheet.
        train_efficiency: Share of ``flops`` that training reaches, with FSDP and checkpointing.
        decode_efficiency: Share of ``bandwidth`` that generation reaches.
    """

    name: str
    memory: int
    flops: float
    bandwidth: float
    train_efficiency: float = 0.4
    decode_efficiency: float = 0.5


HARDWARE = {
    "a100-80gb": Hardware("A100 80 GB", 80 * GIB, 312e12, 2.0e12),
    "h100-80gb": Hardware("H100 80 GB", 80 * GIB, 989e12, 3.35e12),
    "h200": Hardware("H200", 141 * GIB, 989e12, 4.8e12),
    "l40s": Hardware("L40S", 48 * GIB, 362e12, 0.864e12),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How a model is spread and what is kept.

    Attributes:
        gpus: GPUs in all.
        tensor_parallel: GPUs of a rollout replica.
        sequence_parallel: GPUs that share a sequence in training.
        window: Longest sequence.
        micro_batch_tokens: Tokens per forward pass and GPU.
        checkpointing: Recompute activations.
        offload: Trainer state is in main memory during rollouts.
        fused_logits: Logits exist in chunks only.
        rollout_memory: Share of a GPU that vLLM fills; 0 where rollouts are by the transformers engine.
        reference: A reference model is kept (``rl.kl`` > 0).
        max_batch: Sequences that a replica generates together.
    """

    gpus: int
    tensor_parallel: int
    sequence_parallel: int
    window: int
    micro_batch_tokens: int
    checkpointing: bool = True
    offload: bool = False
    fused_logits: bool = True
    rollout_memory: float = 0.0
    reference: bool = False
    max_batch: int = 64

    @property
    def tokens_per_gpu(self) -> int:
        """Tokens of the largest micro-batch on one GPU."""
        return max(self.micro_batch_tokens, math.ceil(self.window / self.sequence_parallel))


@dataclass(frozen=True, slots=True)
class Workload:
    """What a step does.

    Attributes:
        episodes: Rollouts.
        tokens: Mean length of an episode.
        turns: Mean turns of an episode.
        generated: Mean tokens that the policy writes per turn.
        probes: One-token requests that score an episode's information gain: boundaries × tokens of the answer.
    """

    episodes: int
    tokens: int
    turns: int
    generated: int = 300
    probes: int = 66

    @property
    def step_tokens(self) -> int:
        """Tokens that are trained on in a step."""
        return self.episodes * self.tokens

    @property
    def tool_calls(self) -> int:
        """Tool calls of a step: every turn but the one that answers."""
        return self.episodes * (self.turns - 1)

    @property
    def written(self) -> int:
        """Tokens that the policy writes in an episode."""
        return min(self.tokens, self.turns * self.generated)


def training_memory(shape: ModelShape, plan: Plan) -> dict[str, int]:
    """Bytes on one GPU at the peak of an update (FSDP2 over all GPUs, Ulysses within ``sequence_parallel``)."""
    tokens, width = plan.tokens_per_gpu, COMPUTE_BYTES
    layer, embedding = shape.layer_parameters, shape.embedding_parameters
    kept_of_a_layer = (
        2 * shape.hidden  # input and output of the two halves
        + 2 * shape.attention_width  # queries, attention output
        + 2 * shape.kv_heads * shape.head_dim
        + 3 * shape.feed_forward  # gate, up, their product
    )
    full_layer = tokens * kept_of_a_layer * width
    layers = shape.layers
    kept = layers * tokens * shape.hidden * width if plan.checkpointing else layers * full_layer
    logit_tokens = min(tokens, LOGIT_CHUNK) if plan.fused_logits else tokens
    return {
        "masters, gradients, Adam": shape.parameters * (MASTER_BYTES + GRADIENT_BYTES + ADAM_BYTES) // plan.gpus,
        # This layer and the next in bfloat16, the embedding, and one layer's gradients before they are reduced.
        "gathered parameters": (2 * layer + embedding) * width + layer * GRADIENT_BYTES,
        "activations kept": kept,
        "activations of a layer": 2 * full_layer,  # values and their gradients
        "logits": logit_tokens * shape.vocab * LOGIT_BYTES,
        "overhead": OVERHEAD,
    }


def resident_memory(shape: ModelShape, plan: Plan) -> int:
    """Bytes of trainer state on one GPU while rollouts are generated."""
    state = 0 if plan.offload else shape.parameters * (MASTER_BYTES + ADAM_BYTES) // plan.gpus
    return state + (shape.parameters * MASTER_BYTES // plan.gpus if plan.reference and not plan.offload else 0)


def kv_bytes_per_gpu(shape: ModelShape, plan: Plan) -> float:
    """Bytes of keys and values of one token on each GPU of a replica; heads are copied where GPUs outnumber them."""
    return shape.kv_bytes_per_token / min(plan.tensor_parallel, shape.kv_heads)


def rollout_memory(shape: ModelShape, plan: Plan, hardware: Hardware) -> dict[str, int]:
    """Bytes on one GPU during rollouts; ``keys and values`` is what is left for them, and may be negative."""
    weights = shape.parameters * COMPUTE_BYTES // plan.tensor_parallel
    resident = resident_memory(shape, plan)
    if plan.rollout_memory:
        room = int(plan.rollout_memory * hardware.memory) - weights - PREFILL_BYTES
    else:
        room = hardware.memory - OVERHEAD - resident - weights
    return {"weights": weights, "keys and values": room, "trainer state": resident, "overhead": OVERHEAD}


def sequences_in_memory(shape: ModelShape, plan: Plan, hardware: Hardware, tokens: int) -> int:
    """Sequences of ``tokens`` whose keys and values fit into one replica at the same time."""
    room = rollout_memory(shape, plan, hardware)["keys and values"]
    return max(0, int(room / (kv_bytes_per_gpu(shape, plan) * tokens)))


def forward_flops(shape: ModelShape, tokens: int) -> float:
    """Operations of one forward pass over a sequence: two per parameter and token, and causal attention."""
    matrices = shape.layers * shape.layer_parameters + shape.vocab * shape.hidden
    return 2.0 * matrices * tokens + 2.0 * shape.layers * shape.attention_width * float(tokens) ** 2


def step_seconds(shape: ModelShape, plan: Plan, hardware: Hardware, work: Workload) -> dict[str, float]:
    """Seconds of the parts of one RL step; the waiting time of tools is not in it."""
    compute = plan.gpus * hardware.flops * hardware.train_efficiency
    passes = 4 if plan.checkpointing else 3  # forward, backward (twice a forward), recomputation
    forward = work.episodes * forward_flops(shape, work.tokens) / compute
    # Generation reads weights, keys and values once per token of the batch; contexts are half as long on average.
    replicas = plan.gpus // plan.tensor_parallel
    share = math.ceil(work.episodes / replicas)
    context = max(1, work.tokens // 2)
    batch = max(1, min(plan.max_batch, share, sequences_in_memory(shape, plan, hardware, context)))
    speed = hardware.bandwidth * hardware.decode_efficiency
    kv, weights = kv_bytes_per_gpu(shape, plan), shape.parameters * COMPUTE_BYTES / plan.tensor_parallel
    decode = share * work.written / batch * (weights + batch * context * kv) / speed
    read = work.tokens - work.written  # what tools wrote; the prefix is cached
    prefill = work.episodes * forward_flops(shape, work.tokens) * read / work.tokens / compute
    scoring = share * work.probes * context * kv / speed
    return {
        "generation": decode,
        "reading tool results": prefill,
        "scoring": scoring,
        "old log-probabilities": forward,
        "reference log-probabilities": forward if plan.reference else 0.0,
        "update": passes * forward,
    }


def checkpoint_bytes(shape: ModelShape) -> int:
    """Bytes of one checkpoint: masters and Adam in shards, and a float32 Hugging Face folder."""
    return shape.parameters * (MASTER_BYTES + ADAM_BYTES + MASTER_BYTES)


def step_price(seconds: float, gpus: int, tool_calls: int, *, gpu_hour: float, tool_call: float) -> float:
    """Price of a step in the currency of the two prices."""
    return seconds / 3600 * gpus * gpu_hour + tool_calls * tool_call


def cpu_memory(shape: ModelShape, plan: Plan) -> int:
    """Bytes of main memory for training on the CPU: everything in float32, one copy of the policy per replica."""
    state = shape.parameters * (MASTER_BYTES + GRADIENT_BYTES + ADAM_BYTES)
    replicas = plan.gpus * shape.parameters * MASTER_BYTES * (2 if plan.reference else 1)
    training = training_memory(shape, plan)
    parts = ("activations kept", "activations of a layer", "logits")
    batches = plan.gpus * sum(training[part] for part in parts) * MASTER_BYTES // COMPUTE_BYTES
    return state + replicas + batches + (6 + plan.gpus) * GIB  # Ray's processes, each with Python and torch
