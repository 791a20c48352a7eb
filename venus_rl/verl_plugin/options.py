"""Maps a Venus configuration onto verl's: two pure functions from :class:`Config` to dotted verl keys."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from venus_rl.config import Config
from venus_rl.device import Device, Kind, device_of
from venus_rl.verl_plugin.advantage import ESTIMATOR

# Masters and optimiser state are float32 everywhere. GPUs compute in bf16 and reduce in fp32; on gloo everything is
# float32, since bf16 is slower than fp32 on CPUs and gloo reduces fp32.
_PRECISION: dict[Kind, dict[str, str]] = {
    "cpu": {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
    "cuda": {"param_dtype": "bf16", "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
}
_LONGEST_DENSE_ROW = 8192
AGENT_LOOP = "venus_research"
AGENT_LOOP_CLASS = "venus_rl.verl_plugin.agent_loop.ResearchAgentLoop"


def sft_options(
    config: Config, *, model: Path, train_file: Path, checkpoints: Path, steps: int, batch: int, longest: int
) -> dict[str, Any]:
    """Return verl ``sft_trainer_engine`` keys.

    Args:
        config: The run's configuration.
        model: Hugging Face folder to start from.
        train_file: Parquet of rendered conversations (:mod:`venus_rl.data.build`).
        checkpoints: Where verl keeps ``global_step_N``.
        steps: Optimiser steps of the whole stage; the dataset repeats itself to cover them in one verl epoch, because
            verl 0.9.1 resumes from a checkpoint on an epoch boundary into an empty epoch.
        batch: Conversations per optimiser step.
        longest: Tokens of the longest conversation.
    """
    dataset = Path(__file__).resolve().parents[1] / "sft" / "dataset.py"
    device = device_of(config)
    return {
        "data.train_files": str(train_file),
        "data.val_files": None,
        "data.train_batch_size": batch,
        "data.micro_batch_size_per_gpu": 1,
        "data.use_dynamic_bsz": _packs(device, longest, config.sft.micro_batch_tokens),
        "data.max_token_len_per_gpu": _tokens_per_process(device, longest, config.sft.micro_batch_tokens),
        "data.max_length": longest,
        "data.num_workers": 0,
        "data.custom_cls.path": str(dataset),
        "data.custom_cls.name": "RenderedConversations",
        "data.rows": steps * batch,
        "data.seed": config.run.seed,
        "model.path": str(model),
        **_model_options("model", config, device),
        **_fsdp_options("engine", config, device),
        "optim.lr": config.sft.lr,
        "optim.lr_scheduler_type": "cosine",
        "optim.lr_warmup_steps_ratio": config.sft.warmup,
        "optim.weight_decay": config.sft.weight_decay,
        "optim.betas": [0.9, 0.95],
        "checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        "checkpoint.load_contents": ["model", "optimizer", "extra"],
        "trainer.device": device.kind,
        "trainer.seed": config.run.seed,
        "trainer.total_epochs": 1,
        "trainer.total_training_steps": steps,
        "trainer.save_freq": config.sft.save_every,
        "trainer.test_freq": -1,
        "trainer.max_ckpt_to_keep": None,  # venus_rl.checkpoints prunes
        "trainer.logger": ["file", "tensorboard"],
        "trainer.project_name": "venus",
        "trainer.experiment_name": "sft",
        "trainer.default_local_dir": str(checkpoints),
        "trainer.resume_mode": "auto",
        "trainer.n_gpus_per_node": device.per_node,
    }


def rl_options(
    config: Config, *, model: Path, train_file: Path, agent_loop_file: Path, checkpoints: Path
) -> dict[str, Any]:
    """Return verl ``ppo_trainer`` keys.

    Args:
        config: The run's configuration.
        model: Hugging Face folder RL starts from (also the KL reference).
        train_file: Parquet of prompts (:func:`venus_rl.verl_plugin.rl.write_prompts`).
        agent_loop_file: YAML that names the agent loop.
        checkpoints: Where verl keeps ``global_step_N``.
    """
    actor, ref, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.ref", "actor_rollout_ref.rollout"
    window, device = config.env.max_context_tokens, device_of(config)
    return {
        "algorithm.adv_estimator": ESTIMATOR,
        "algorithm.use_kl_in_reward": False,
        "algorithm.rollout_correction.rollout_is": config.rl.rollout_is,
        "algorithm.rollout_correction.rollout_is_threshold": config.rl.rollout_is_threshold,
        "algorithm.rollout_correction.rollout_rs": config.rl.rollout_rs,
        "algorithm.rollout_correction.rollout_rs_threshold": config.rl.rollout_rs_threshold,
        "data.train_files": str(train_file),
        "data.val_files": str(train_file),  # verl wants a file; validation is the eval stage's work
        "data.val_max_samples": 1,
        "data.train_batch_size": config.rl.prompts,
        "data.max_prompt_length": window,
        "data.max_response_length": window,
        "data.dataloader_num_workers": 0,
        "data.shuffle": True,
        "data.seed": config.run.seed,
        "actor_rollout_ref.model.path": str(model),
        **_model_options("actor_rollout_ref.model", config, device),
        **_fsdp_options(f"{actor}.fsdp_config", config, device),
        "actor_rollout_ref.model.lora.merge": True,  # the rollout engine gets plain weights
        f"{actor}.strategy": "fsdp2",
        f"{actor}.use_torch_compile": False,
        f"{actor}.ppo_mini_batch_size": config.rl.prompts,  # in prompts; verl multiplies by rollout.n
        f"{actor}.use_dynamic_bsz": _packs(device, window, config.rl.micro_batch_tokens),
        f"{actor}.ppo_micro_batch_size_per_gpu": 1,  # without packing
        f"{actor}.ppo_max_token_len_per_gpu": _tokens_per_process(device, window, config.rl.micro_batch_tokens),
        f"{actor}.loss_agg_mode": "token-mean",  # sequence means would divide by excluded rollouts too
        f"{actor}.clip_ratio": config.rl.clip,
        f"{actor}.clip_ratio_low": config.rl.clip,
        f"{actor}.clip_ratio_high": config.rl.clip,
        f"{actor}.entropy_coeff": config.rl.entropy,
        f"{actor}.use_kl_loss": config.rl.kl > 0,
        f"{actor}.kl_loss_coef": config.rl.kl,
        f"{actor}.kl_loss_type": "low_var_kl",
        f"{actor}.optim.lr": config.rl.lr,
        f"{actor}.optim.weight_decay": config.rl.weight_decay,
        f"{actor}.optim.betas": [0.9, 0.95],
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{actor}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{ref}.strategy": "fsdp2",
        **_fsdp_options(f"{ref}.fsdp_config", config, device),
        f"{ref}.log_prob_micro_batch_size_per_gpu": 1,  # without packing
        f"{rollout}.n": config.rl.group,
        f"{rollout}.temperature": config.rollout.temperature,
        f"{rollout}.top_p": config.rollout.top_p,
        f"{rollout}.dtype": device.dtype,
        f"{rollout}.tensor_model_parallel_size": device.tensor_parallel,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": 1,  # without packing
        f"{rollout}.max_num_seqs": config.rollout.max_batch,
        f"{rollout}.calculate_log_probs": True,
        f"{rollout}.seed": config.run.seed,
        f"{rollout}.agent.num_workers": device.workers,
        f"{rollout}.agent.agent_loop_config_path": str(agent_loop_file),
        f"{rollout}.agent.default_agent_loop": AGENT_LOOP,
        "reward.num_workers": 1,
        "trainer.v1.sampler.custom_sampler.path": "pkg://venus_rl.verl_plugin.replay",
        "trainer.v1.sampler.custom_sampler.name": "WatchfulReplayBuffer",
        "trainer.v1.sampler.sampler_kwargs": {"timeout_s": config.rl.step_timeout_s},
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "transfer_queue.backend.SimpleStorage.total_storage_size": 100_000,
        "trainer.device": device.kind,
        "trainer.nnodes": device.nodes,
        "trainer.n_gpus_per_node": device.per_node,
        "trainer.logger": ["tensorboard"],
        "trainer.project_name": "venus",
        "trainer.experiment_name": "rl",
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": config.rl.save_every,
        "trainer.max_actor_ckpt_to_keep": None,  # venus_rl.checkpoints prunes
        "trainer.total_epochs": 1_000_000,  # steps decide
        "trainer.total_training_steps": config.rl.steps,
        "trainer.default_local_dir": str(checkpoints),
        "trainer.resume_mode": "auto",
        **_ray_options(device),
        **_engine_options(config, device, model),
    }


def _engine_options(config: Config, device: Device, model: Path) -> dict[str, Any]:
    if device.engine == "vllm":
        from venus_rl.verl_plugin.vllm_options import is_cpu_build, vllm_options

        # On a CPU vLLM would take this as the share of main memory that has to be free when it starts.
        share = {"actor_rollout_ref.rollout.gpu_memory_utilization": config.gpu.rollout_memory}
        return vllm_options(config, model, cpu=is_cpu_build()) | (share if device.kind == "cuda" else {})
    from venus_rl.verl_plugin.rollout import ENGINE

    rollout = "actor_rollout_ref.rollout"
    return {
        f"{rollout}.name": ENGINE,
        f"{rollout}.max_model_len": config.env.max_context_tokens,
        f"{rollout}.free_cache_engine": True,
    }


def _model_options(group: str, config: Config, device: Device) -> dict[str, Any]:
    cuda = device.kind == "cuda"
    return {
        f"{group}.override_config.attn_implementation": device.attention,
        f"{group}.use_remove_padding": True,
        f"{group}.enable_gradient_checkpointing": cuda and config.gpu.checkpointing,
        f"{group}.use_fused_kernels": cuda and config.gpu.fused_logits,
        f"{group}.fused_kernel_options.impl_backend": "torch",  # chunked; needs no kernel beyond torch's
        f"{group}.lora_rank": config.model.lora_rank,
        f"{group}.lora_alpha": config.model.lora_alpha,
        f"{group}.target_modules": config.model.lora_targets,
    }


def _fsdp_options(group: str, config: Config, device: Device) -> dict[str, Any]:
    offload = device.kind == "cuda" and config.gpu.offload
    return {
        f"{group}.strategy": "fsdp2",
        f"{group}.model_dtype": "fp32",
        f"{group}.mixed_precision": _PRECISION[device.kind],
        f"{group}.use_torch_compile": False,
        f"{group}.seed": config.run.seed,
        f"{group}.ulysses_sequence_parallel_size": device.sequence_parallel,
        f"{group}.param_offload": offload,
        f"{group}.optimizer_offload": offload,
    }


def _packs(device: Device, longest: int, micro_batch_tokens: int) -> bool:
    """Whether several sequences share a forward pass.

    Without FlashAttention packed sequences need a dense mask, the square of the row in memory and time. So they are not
    packed where one may be longer than a micro-batch (rows would grow to the longest), nor into very long rows: each
    then goes alone and needs no mask.
    """
    if device.attention == "flash_attention_2":
        return True
    return longest <= micro_batch_tokens <= _LONGEST_DENSE_ROW


def _tokens_per_process(device: Device, longest: int, micro_batch_tokens: int) -> int:
    """Room for the longest sequence; verl multiplies by the processes that share one."""
    return max(micro_batch_tokens, math.ceil(longest / device.sequence_parallel))


def _ray_options(device: Device) -> dict[str, Any]:
    group = "ray_kwargs.ray_init"
    if device.kind == "cuda":
        # Ray counts CPUs and GPUs itself, and refuses to be told when it joins a cluster that runs already. Its workers
        # on other machines do not inherit this process's environment.
        names = ("VERL_PLATFORM", "VERL_USE_EXTERNAL_MODULES", "TOKENIZERS_PARALLELISM", "HF_HUB_OFFLINE")
        environment = {f"{group}.runtime_env.env_vars.{name}": os.environ.get(name, "") for name in names}
        return {f"{group}.include_dashboard": False} | (environment if device.nodes > 1 else {})
    return {
        # verl's actors ask for more logical CPUs than a laptop has; with too few, start-up waits for ever.
        f"{group}.num_cpus": 8 + 4 * device.processes,
        f"{group}.num_gpus": device.processes,
        f"{group}.include_dashboard": False,
        f"{group}.object_store_memory": 400_000_000,
    }
