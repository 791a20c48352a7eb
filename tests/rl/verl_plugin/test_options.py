from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from venus_rl.config import Config, load_config
from venus_rl.verl_plugin.options import AGENT_LOOP_CLASS, rl_options, sft_options
from venus_rl.verl_plugin.rl import verl_config

# Keys that verl's YAML does not list; anything else that it does not know is a spelling mistake.
OURS = {"data.rows", "data.seed"}  # read by our dataset
FREE_FORM = {
    "model.override_config.attn_implementation",
    "engine.mixed_precision",  # a field of verl's dataclass
    "actor_rollout_ref.model.override_config.attn_implementation",
    "actor_rollout_ref.actor.fsdp_config.mixed_precision",
    "actor_rollout_ref.ref.fsdp_config.mixed_precision",
    "actor_rollout_ref.rollout.name",  # mandatory, without a default
    "ray_kwargs.ray_init.num_gpus",  # arguments of ray.init
    "ray_kwargs.ray_init.include_dashboard",
    "ray_kwargs.ray_init.object_store_memory",
}


def sft(config: Config, **changes: Any) -> dict[str, Any]:
    paths = {"model": Path("m"), "train_file": Path("t.parquet"), "checkpoints": Path("c")}
    return sft_options(config, **{**paths, "steps": 30, "batch": 8, "longest": 700, **changes})


def rl(config: Config) -> dict[str, Any]:
    return rl_options(
        config, model=Path("m"), train_file=Path("t"), agent_loop_file=Path("a.yaml"), checkpoints=Path("c")
    )


@pytest.mark.parametrize(("name", "make"), [("sft_trainer_engine", sft), ("ppo_trainer", rl)])
def test_every_key_is_one_of_verls(name: str, make: Callable[[Config], dict[str, Any]]) -> None:
    base, absent = verl_config(name, {}), object()
    options = make(Config())
    unknown = {key for key in options if OmegaConf.select(base, key, default=absent) is absent}
    assert unknown <= OURS | FREE_FORM
    composed = verl_config(name, options)
    for key, value in options.items():
        chosen = OmegaConf.select(composed, key)
        assert (OmegaConf.to_container(chosen) if OmegaConf.is_config(chosen) else chosen) == value


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_verl_accepts_the_rl_options(rl_config: Callable[..., Any], kl: float) -> None:
    from verl.trainer import main_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass

    config = rl_config(rl={"kl": kl})
    assert need_reference_policy(config) == (kl > 0)  # no reference is loaded for nothing
    assert not need_critic(config)
    main_ppo.validate_config(config=config, use_reference_policy=kl > 0, use_critic=False)
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert rollout.agent.default_agent_loop == "venus_research"
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert (actor.strategy, actor.loss_agg_mode, actor.use_kl_loss) == ("fsdp2", "token-mean", kl > 0)
    assert actor.fsdp_config.mixed_precision["param_dtype"] == "fp32"


def test_verl_accepts_the_sft_options(policy_folder: Path) -> None:
    from verl.utils.config import omega_conf_to_dataclass

    config = verl_config("sft_trainer_engine", sft(Config(), model=policy_folder))
    engine = omega_conf_to_dataclass(config.engine)
    assert (engine.strategy, engine.mixed_precision["reduce_dtype"]) == ("fsdp2", "fp32")
    assert omega_conf_to_dataclass(config.optim).lr_scheduler_type == "cosine"
    assert "hf_model" in omega_conf_to_dataclass(config.checkpoint).save_contents


def test_the_sft_dataset_covers_all_steps_in_one_epoch(make_config: Callable[..., Config]) -> None:
    options = sft(make_config(run={"processes": 2, "seed": 5}))
    assert options["data.rows"] == 30 * 8
    assert (options["trainer.total_epochs"], options["trainer.total_training_steps"]) == (1, 30)
    assert {options["data.seed"], options["trainer.seed"], options["engine.seed"]} == {5}
    assert Path(options["data.custom_cls.path"]).is_file()


def four(**gpu: Any) -> Config:
    config = load_config(Path("configs/dr-venus-4b.yaml"), ["run.device=cuda", "model.attention=flash_attention_2"])
    return config.model_copy(update={"gpu": config.gpu.model_copy(update=gpu)})


@pytest.mark.parametrize(("name", "make"), [("sft_trainer_engine", sft), ("ppo_trainer", rl)])
def test_the_gpu_options_are_verls_too(name: str, make: Callable[[Config], dict[str, Any]]) -> None:
    base, absent = verl_config(name, {}), object()
    options = make(four(nodes=2))
    unknown = {key for key in options if OmegaConf.select(base, key, default=absent) is absent}
    assert {key for key in unknown if ".env_vars." not in key} <= OURS | FREE_FORM


def test_gpus_train_in_bf16_with_float32_masters_and_share_sequences() -> None:
    options = rl(four(nodes=2))
    engine = "actor_rollout_ref.actor.fsdp_config"
    assert options[f"{engine}.model_dtype"] == "fp32"
    assert options[f"{engine}.mixed_precision"]["param_dtype"] == "bf16"
    assert options[f"{engine}.ulysses_sequence_parallel_size"] == 8
    assert options[f"{engine}.param_offload"] is options[f"{engine}.optimizer_offload"] is True
    model = "actor_rollout_ref.model"
    assert options[f"{model}.enable_gradient_checkpointing"] is options[f"{model}.use_fused_kernels"] is True
    assert (options["trainer.nnodes"], options["trainer.n_gpus_per_node"], options["trainer.device"]) == (2, 8, "cuda")
    assert options["actor_rollout_ref.actor.ppo_mini_batch_size"] == 16  # prompts; 128 rollouts
    assert options["actor_rollout_ref.actor.kl_loss_type"] == "low_var_kl"
    # 261,000 tokens over 8 GPUs are 32,625; verl multiplies by 8 again.
    assert options["actor_rollout_ref.actor.ppo_max_token_len_per_gpu"] == 32_768
    assert options["actor_rollout_ref.actor.use_dynamic_bsz"] is True
    assert not any("num_cpus" in key or "num_gpus" in key for key in options)  # refused when joining a cluster
    assert sft(four(), longest=200_000)["data.max_token_len_per_gpu"] == 25_000


def test_very_long_rows_are_not_packed_without_flash_attention() -> None:
    config = load_config(Path("configs/dr-venus-4b.yaml"), ["run.device=cpu", "model.shrink=16"])
    key = "actor_rollout_ref.actor.use_dynamic_bsz"
    assert rl(config)[key] is sft(config, longest=3000)["data.use_dynamic_bsz"] is False


def test_verl_accepts_unpacked_rows(rl_config: Callable[..., Any]) -> None:
    from verl.trainer import main_ppo

    config = rl_config(rl={"kl": 0.1, "micro_batch_tokens": 128})
    assert not config.actor_rollout_ref.actor.use_dynamic_bsz
    main_ppo.validate_config(config=config, use_reference_policy=True, use_critic=False)


@pytest.mark.parametrize(("longest", "room"), [(700, 2048), (3000, 3000)])
def test_the_longest_conversation_always_fits_in_a_micro_batch(longest: int, room: int) -> None:
    options = sft(Config(), longest=longest)
    assert (options["data.max_token_len_per_gpu"], options["data.max_length"]) == (room, longest)
    assert options["data.use_dynamic_bsz"] is (longest <= 2048)  # beyond it, one conversation a row: no dense mask
    assert options["data.micro_batch_size_per_gpu"] == 1


def test_the_longest_episode_always_fits_in_a_micro_batch(make_config: Callable[..., Config]) -> None:
    key = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
    assert rl(make_config(rl={"micro_batch_tokens": 4096}))[key] == 4096
    assert rl(make_config(rl={"micro_batch_tokens": 128}))[key] == 1024


def test_one_optimiser_step_per_rl_step(make_config: Callable[..., Config]) -> None:
    options = rl(make_config(rl={"prompts": 6, "group": 4, "steps": 9}))
    assert options["data.train_batch_size"] == options["actor_rollout_ref.actor.ppo_mini_batch_size"] == 6
    assert options["actor_rollout_ref.rollout.n"] == 4
    assert options["trainer.total_training_steps"] == 9


def test_a_worker_gets_a_logical_gpu_for_every_process(make_config: Callable[..., Config]) -> None:
    options = rl(make_config(run={"processes": 3}))
    assert options["ray_kwargs.ray_init.num_gpus"] == options["trainer.n_gpus_per_node"] == 3


def test_the_agent_loop_can_be_imported_by_its_name() -> None:
    from verl.utils.import_utils import load_class_from_fqn

    assert load_class_from_fqn(AGENT_LOOP_CLASS).__name__ == "ResearchAgentLoop"


def test_trainer_mode_stays_sync(rl_config: Callable[..., Any]) -> None:
    assert rl_config().trainer.v1.trainer_mode == "sync"


def test_adapters_are_verls_own_and_merged_for_the_rollouts(make_config: Callable[..., Config]) -> None:
    config = make_config(model={"lora_rank": 8, "lora_alpha": 32, "lora_targets": ["q_proj", "v_proj"]})
    for options, group in ((sft(config), "model"), (rl(config), "actor_rollout_ref.model")):
        keys = (f"{group}.{key}" for key in ("lora_rank", "lora_alpha", "target_modules"))
        assert [options[key] for key in keys] == [8, 32, ["q_proj", "v_proj"]]
    assert rl(config)["actor_rollout_ref.model.lora.merge"] is True
    assert rl(make_config())["actor_rollout_ref.model.lora_rank"] == 0


def test_off_policy_correction_has_verls_names(rl_config: Callable[..., Any]) -> None:
    from verl.trainer.config.algorithm import RolloutCorrectionConfig
    from verl.utils.config import omega_conf_to_dataclass

    chosen = {"rollout_is": "sequence", "rollout_is_threshold": 3.0, "rollout_rs": "token_k1"}
    config = rl_config(rl={**chosen, "rollout_rs_threshold": "0.5_2.0"}).algorithm.rollout_correction
    correction = omega_conf_to_dataclass(config, RolloutCorrectionConfig)
    assert {name: getattr(correction, name) for name in chosen} == chosen
    assert correction.rollout_rs_threshold == "0.5_2.0"
    assert rl_config().algorithm.rollout_correction.rollout_is is None


def test_verl_removes_no_checkpoints(make_config: Callable[..., Config]) -> None:
    config = make_config(rl={"keep": 1}, sft={"keep": 1})
    assert rl(config)["trainer.max_actor_ckpt_to_keep"] is None
    assert sft(config)["trainer.max_ckpt_to_keep"] is None
