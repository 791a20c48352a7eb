"""Maps a Venus configuration onto verl's: two pure functions from :class:`Config` to dotted verl keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from venus_rl.config import Config
from venus_rl.verl_plugin.advantage import ESTIMATOR

# FSDP2 on gloo: everything in float32, since bf16 is slower than fp32 on CPUs and gloo reduces fp32.
_FP32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
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
    return {
        "data.train_files": str(train_file),
        "data.val_files": None,
        "data.train_batch_size": batch,
        # Rows of several conversations need a dense mask. Where one is longer than a micro-batch, each goes alone
        # and needs none: packing up to the longest would cost its square in memory.
        "data.micro_batch_size_per_gpu": 1,
        "data.use_dynamic_bsz": longest <= config.sft.micro_batch_tokens,
        "data.max_token_len_per_gpu": max(config.sft.micro_batch_tokens, longest),
        "data.max_length": longest,
        "data.num_workers": 0,
        "data.custom_cls.path": str(dataset),
        "data.custom_cls.name": "RenderedConversations",
        "data.rows": steps * batch,
        "data.seed": config.run.seed,
        "model.path": str(model),
        "model.override_config.attn_implementation": config.model.attention,
        **_lora(config, "model"),
        "model.use_remove_padding": True,
        "model.enable_gradient_checkpointing": False,
        "engine.strategy": "fsdp2",
        "engine.model_dtype": "fp32",
        "engine.mixed_precision": _FP32,
        "engine.use_torch_compile": False,
        "engine.seed": config.run.seed,
        "optim.lr": config.sft.lr,
        "optim.lr_scheduler_type": "cosine",
        "optim.lr_warmup_steps_ratio": config.sft.warmup,
        "optim.weight_decay": config.sft.weight_decay,
        "optim.betas": [0.9, 0.95],
        "checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        "checkpoint.load_contents": ["model", "optimizer", "extra"],
        "trainer.device": "cpu",
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
        "trainer.n_gpus_per_node": config.run.processes,
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
    window = config.env.max_context_tokens
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
        "actor_rollout_ref.model.override_config.attn_implementation": config.model.attention,
        **_lora(config, "actor_rollout_ref.model"),
        "actor_rollout_ref.model.lora.merge": True,  # the rollout engine gets plain weights
        "actor_rollout_ref.model.use_remove_padding": True,
        "actor_rollout_ref.model.enable_gradient_checkpointing": False,
        f"{actor}.strategy": "fsdp2",
        f"{actor}.fsdp_config.strategy": "fsdp2",
        f"{actor}.fsdp_config.model_dtype": "fp32",
        f"{actor}.fsdp_config.mixed_precision": _FP32,
        f"{actor}.fsdp_config.use_torch_compile": False,
        f"{actor}.fsdp_config.seed": config.run.seed,
        f"{actor}.use_torch_compile": False,
        f"{actor}.ppo_mini_batch_size": config.rl.prompts,  # in prompts; verl multiplies by rollout.n
        f"{actor}.use_dynamic_bsz": True,
        f"{actor}.ppo_max_token_len_per_gpu": max(config.rl.micro_batch_tokens, window),
        f"{actor}.loss_agg_mode": "token-mean",  # sequence means would divide by excluded rollouts too
        f"{actor}.clip_ratio": config.rl.clip,
        f"{actor}.clip_ratio_low": config.rl.clip,
        f"{actor}.clip_ratio_high": config.rl.clip,
        f"{actor}.entropy_coeff": config.rl.entropy,
        f"{actor}.use_kl_loss": config.rl.kl > 0,
        f"{actor}.kl_loss_coef": config.rl.kl,
        f"{actor}.optim.lr": config.rl.lr,
        f"{actor}.optim.weight_decay": config.rl.weight_decay,
        f"{actor}.optim.betas": [0.9, 0.95],
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{actor}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{ref}.strategy": "fsdp2",
        f"{ref}.fsdp_config.strategy": "fsdp2",
        f"{ref}.fsdp_config.model_dtype": "fp32",
        f"{ref}.fsdp_config.mixed_precision": _FP32,
        f"{ref}.fsdp_config.use_torch_compile": False,
        f"{rollout}.n": config.rl.group,
        f"{rollout}.temperature": config.rollout.temperature,
        f"{rollout}.top_p": config.rollout.top_p,
        f"{rollout}.dtype": config.model.dtype,
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.max_num_seqs": config.rollout.max_batch,
        f"{rollout}.calculate_log_probs": True,
        f"{rollout}.seed": config.run.seed,
        f"{rollout}.agent.num_workers": config.rollout.workers,
        f"{rollout}.agent.agent_loop_config_path": str(agent_loop_file),
        f"{rollout}.agent.default_agent_loop": AGENT_LOOP,
        "reward.num_workers": 1,
        "trainer.v1.sampler.custom_sampler.path": "pkg://venus_rl.verl_plugin.replay",
        "trainer.v1.sampler.custom_sampler.name": "WatchfulReplayBuffer",
        "trainer.v1.sampler.sampler_kwargs": {"timeout_s": config.rl.step_timeout_s},
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "transfer_queue.backend.SimpleStorage.total_storage_size": 100_000,
        "trainer.device": "cpu",
        "trainer.nnodes": 1,
        "trainer.n_gpus_per_node": config.run.processes,
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
        # verl's actors ask for more logical CPUs than a laptop has; with too few, start-up waits for ever.
        "ray_kwargs.ray_init.num_cpus": 8 + 4 * config.run.processes,
        "ray_kwargs.ray_init.num_gpus": config.run.processes,
        "ray_kwargs.ray_init.include_dashboard": False,
        "ray_kwargs.ray_init.object_store_memory": 400_000_000,
        **_engine_options(config, model),
    }


def _engine_options(config: Config, model: Path) -> dict[str, Any]:
    if config.rollout.engine == "vllm":
        from venus_rl.verl_plugin.vllm_options import is_cpu_build, vllm_options

        return vllm_options(config, model, cpu=is_cpu_build())
    from venus_rl.verl_plugin.rollout import ENGINE

    rollout = "actor_rollout_ref.rollout"
    return {
        f"{rollout}.name": ENGINE,
        f"{rollout}.max_model_len": config.env.max_context_tokens,
        f"{rollout}.free_cache_engine": True,
    }


def _lora(config: Config, group: str) -> dict[str, Any]:
    """Keys of verl's model group ``group`` for LoRA."""
    return {
        f"{group}.lora_rank": config.model.lora_rank,
        f"{group}.lora_alpha": config.model.lora_alpha,
        f"{group}.target_modules": config.model.lora_targets,
    }
