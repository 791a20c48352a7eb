"""What verl 0.9.1 does that ``docs/decisions.md`` works around.

Each test fails when verl no longer does it: then the workaround it names can go.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
import torch
import verl
from torch.utils.data import DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from verl import DataProto
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est
from verl.trainer.ppo.v1 import PPOTrainerSync
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_the_pinned_version_is_installed() -> None:
    assert verl.__version__ == "0.9.1"


# ---- decision 2: advantages ----


def test_an_estimator_sees_rewards_and_masks_but_no_turns() -> None:
    """Otherwise the trainer could hand turn records over instead of offering finished advantages."""
    from verl.trainer.ppo.ray_trainer import compute_advantage

    seen: dict[str, Any] = {}

    @register_adv_est("venus_upstream_probe")
    def probe(**arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        seen.update(arguments)
        return arguments["token_level_rewards"], arguments["token_level_rewards"]

    try:
        data = DataProto.from_dict(
            tensors={"token_level_rewards": torch.zeros(2, 3), "response_mask": torch.ones(2, 3)},
            non_tensors={"uid": np.array(["a", "a"], dtype=object), "extra_fields": np.array([{}, {}], dtype=object)},
        )
        compute_advantage(data, adv_estimator="venus_upstream_probe", config={})
    finally:
        del ADV_ESTIMATOR_REGISTRY["venus_upstream_probe"]
    assert set(seen) == {"token_level_rewards", "response_mask", "config", "index"}


# ---- decision 3: lost rollouts ----


def test_a_raising_agent_loop_is_swallowed() -> None:
    """The step goes on with the siblings, so the loop must report a lost rollout itself, and the trainer must count."""
    from verl.trainer.ppo.v1.agent_loop_tq import _settle_session_tasks

    async def settle() -> list[BaseException]:
        async def fail() -> None:
            raise ConnectionError("search backend is down")

        async def succeed() -> None:
            return None

        return await _settle_session_tasks([asyncio.ensure_future(fail()), asyncio.ensure_future(succeed())])

    assert [type(error) for error in asyncio.run(settle())] == [ConnectionError]


def test_groups_with_lost_rollouts_are_not_replaced_by_default(rl_config: Callable[..., Any]) -> None:
    buffer = trainer(rl_config())._build_replay_buffer()
    assert buffer.sync_refill_failed_groups is False


# ---- decision 4: the SFT dataset repeats itself ----


def fit(loader: StatefulDataLoader[Any], sampler: Any, resume_step: int, steps: int, epochs: int) -> list[int]:
    """Run verl's own SFT loop from ``resume_step`` with a worker that only notes; returns the steps it trained."""
    from tensordict import TensorDict
    from verl.trainer.sft_trainer import SFTTrainer

    trained: list[int] = []

    class Worker:
        def train_batch(self, data: TensorDict) -> None:
            trained.append(data["input_ids"].shape[0])

        def step_profile(self) -> None: ...

    engine = SimpleNamespace(
        is_mp_src_rank_with_outputs=lambda: False,
        get_data_parallel_rank=lambda: 0,
        get_data_parallel_size=lambda: 1,
        get_data_parallel_group=lambda: None,
    )
    own = SFTTrainer.__new__(SFTTrainer)
    own.__dict__.update(
        engine=engine,
        training_client=Worker(),
        resume_global_step=resume_step,
        total_training_steps=steps,
        steps_per_epoch=len(loader),
        train_sampler=sampler,
        train_dataloader=loader,
        val_dataloader=None,
        global_batch_size=2,
        model_config=SimpleNamespace(tokenizer=SimpleNamespace(pad_token_id=0)),
        rank=0,
        device_name="cpu",
        start_profile_step=-1,
        end_profile_step=-1,
        test_freq=-1,
        save_freq=-1,
        ckpt_handler=SimpleNamespace(save_checkpoint=lambda step: None),
        config=SimpleNamespace(
            trainer=SimpleNamespace(total_epochs=epochs),
            model=SimpleNamespace(use_remove_padding=True),
            data=SimpleNamespace(
                use_dynamic_bsz=True, max_token_len_per_gpu=64, micro_batch_size_per_gpu=2, pad_mode="right"
            ),
        ),
    )
    own.fit()
    return trained


def make_loader(rows: int) -> tuple[StatefulDataLoader[Any], Any]:
    items = [{"input_ids": torch.tensor([n]), "attention_mask": torch.ones(1)} for n in range(rows)]
    sampler: Any = DistributedSampler(items, num_replicas=1, rank=0, shuffle=True, drop_last=True)  # type: ignore[arg-type]
    return StatefulDataLoader(items, batch_size=2, sampler=sampler, drop_last=True), sampler


def left_after_resume(rows: int, saved_after: int, epochs: int) -> int:
    """Number of steps that verl trains after resuming a run of 6 steps from a checkpoint."""
    loader, _ = make_loader(rows)
    iterator = iter(loader)
    for _ in range(saved_after):
        next(iterator)
    resumed, sampler = make_loader(rows)
    resumed.load_state_dict(loader.state_dict())
    return len(fit(resumed, sampler, saved_after, steps=6, epochs=epochs))


def test_sft_resumes_from_an_epoch_boundary_into_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs of 3 steps: from step 2 the remaining 4 are trained, from step 3 none of the remaining 3."""
    monkeypatch.setattr(torch.distributed, "get_rank", lambda *_: 0)
    assert [left_after_resume(6, step, epochs=2) for step in (1, 2, 3)] == [5, 4, 0]
    # One epoch of 6 steps, as our dataset makes it, has no such boundary.
    assert [left_after_resume(12, step, epochs=1) for step in (1, 2, 3)] == [5, 4, 3]


def test_the_file_logger_overwrites_its_file_on_every_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So a resumed stage collects what the interrupted attempt logged before it starts verl again."""
    from verl.utils.tracking import FileLogger

    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(path))
    for step in (1, 2):
        logger = FileLogger("venus", "sft")
        logger.log({"loss": 0.5}, step)
        logger.finish()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"step": 2, "data": {"loss": 0.5}}]


# ---- decision 5: non-public touches ----


def test_adapters_of_rollout_engines_have_no_public_registry() -> None:
    from verl.workers.rollout import base

    assert isinstance(base._ROLLOUT_REGISTRY, dict)
    assert [name for name in dir(base) if "register" in name.lower()] == []
    with pytest.raises(AssertionError, match="not found"):
        base.get_rollout_class("unheard_of", "async")


def source(*parts: str) -> str:
    """A file of verl that only vLLM's environment can import."""
    return (Path(verl.__file__).parent.joinpath(*parts)).read_text(encoding="utf-8")


def test_replicas_are_registered_by_name_and_may_be_replaced() -> None:
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    before = RolloutReplicaRegistry._registry["vllm"]
    try:
        RolloutReplicaRegistry.register("vllm", lambda: int)  # type: ignore[arg-type,return-value]
        assert RolloutReplicaRegistry.get("vllm") is int
    finally:
        RolloutReplicaRegistry.register("vllm", before)


def test_verl_knows_vllm_by_the_name_of_its_distribution() -> None:
    """Why ``requirements/layer.py`` writes a record of that name beside the CPU build's own."""
    assert 'package_name = "vllm"\npackage_version = get_version(package_name)' in source(
        "third_party/vllm/__init__.py"
    )


def test_verls_vllm_server_returns_log_probabilities_of_sampled_tokens_only() -> None:
    """Why scoring is a method of a subclass, on the engine that verl keeps in ``self.engine``."""
    server = source("workers/rollout/vllm_rollout/vllm_async_server.py")
    assert "log_probs = [logprobs[token_ids[i]].logprob for i, logprobs in" in server
    assert "self.engine = engine_client" in server
    assert "logprob_token_ids" not in server


def test_the_sender_of_weights_waits_for_ever() -> None:
    sender = source("workers/rollout/vllm_rollout/bucketed_weight_transfer.py")
    assert "zmq.Context.instance()" in sender
    assert "self.socket.recv()" in sender
    assert not any(word in sender for word in ("RCVTIMEO", "poll(", "Poller"))


def test_verl_loads_weights_into_vllm_with_the_loaders_that_the_cpu_build_drops() -> None:
    extension = source("workers/rollout/vllm_rollout/utils.py")
    assert "model.load_weights(param_updates)" in extension
    assert "reload_weights" not in extension


def trainer(config: Any, mode: str = "sync") -> PPOTrainerSync:
    made = object.__new__(PPOTrainerSync)
    made.config, made.trainer_mode = config, mode
    return made


def keys(config: Any, prefix: str = "") -> list[str]:
    from omegaconf import DictConfig

    found = []
    for key in config:
        child = config._get_node(key)
        found += keys(child, f"{prefix}{key}.") if isinstance(child, DictConfig) and not child._is_none() else []
        found.append(f"{prefix}{key}")
    return found


def test_worker_classes_are_hard_coded(rl_config: Callable[..., Any]) -> None:
    from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

    own = trainer(rl_config())
    own._init_resource_pool_mgr()
    (worker,) = own.role_worker_mapping.values()
    assert issubclass(worker.__ray_metadata__.modified_class, ActorRolloutRefWorker)
    # What we subclass: the classes of actor and reference are attributes.
    assert ActorRolloutRefWorker.actor_worker_cls is ActorRolloutRefWorker.ref_worker_cls is TrainingWorker


def own_sampler(config: Any) -> Any:
    """The configuration without our replay buffer."""
    config.trainer.v1.sampler.custom_sampler.path = None
    return config


def test_the_polling_interval_is_two_seconds_and_has_no_key(rl_config: Callable[..., Any]) -> None:
    config = own_sampler(rl_config())
    assert trainer(config)._build_replay_buffer().poll_interval == 2.0
    assert [key for key in keys(config) if "poll_interval" in key] == []


def test_any_other_trainer_mode_selects_the_asynchronous_buffer(rl_config: Callable[..., Any]) -> None:
    assert type(trainer(own_sampler(rl_config()))._build_replay_buffer()) is ReplayBuffer
    assert type(trainer(own_sampler(rl_config()), "venus")._build_replay_buffer()) is ReplayBufferAsync


# ---- decisions 27 to 30: order, checkpoints, waiting, adapters ----


def test_prompts_have_random_names_and_rollouts_come_as_they_finish() -> None:
    assert "uuid.uuid4()" in inspect.getsource(PPOTrainerSync._fetch_one_gen_batch)
    assert "for key, tag in partition_snapshot.items()" in inspect.getsource(ReplayBuffer._materialize_batch)
    assert "sort" not in inspect.getsource(PPOTrainerSync._balance_batch)


def test_the_tracker_is_truncated_before_it_is_written() -> None:
    assert 'with open(local_latest_checkpointed_iteration, "w")' in inspect.getsource(PPOTrainerSync._save_checkpoint)


def test_the_buffer_waits_for_ever() -> None:
    source = inspect.getsource(ReplayBuffer.sample) + inspect.getsource(ReplayBuffer._wait_for_next_poll)
    assert "while True:" in source
    assert "raise TimeoutError" not in source
    assert "ray" not in inspect.getmodule(ReplayBuffer).__dict__  # it has no way of seeing that a worker died


def test_merged_adapters_are_sent_as_bfloat16() -> None:
    from verl.workers.engine import FSDPEngineWithLMHead

    assert ".to(torch.bfloat16" in inspect.getsource(FSDPEngineWithLMHead._merged_lora_per_tensor_param)


def test_the_backend_string_of_a_cpu_platform_is_rejected_by_torch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from verl.utils.distributed import initialize_global_process_group, initialize_global_process_group_ray
    from verl.workers.engine_workers import TrainingWorker

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    for start in (initialize_global_process_group, initialize_global_process_group_ray):
        with pytest.raises(Exception, match=r"cpu:gloo,cpu:gloo|[Dd]uplicate device"):
            start(timeout_second=60)
        assert not torch.distributed.is_initialized()
    # The way around: a group that exists is left alone, and the worker names no backend of its own.
    monkeypatch.setenv("DIST_INIT_METHOD", f"file://{tmp_path}/group")
    initialize_global_process_group_ray(backend="cpu:gloo")
    try:
        initialize_global_process_group_ray()
    finally:
        torch.distributed.destroy_process_group()
    assert "initialize_global_process_group_ray(timeout_second=None)" in inspect.getsource(TrainingWorker.__init__)


def test_the_reference_model_asks_for_pinned_memory() -> None:
    from verl.workers.engine import FSDPEngineWithLMHead

    source = inspect.getsource(FSDPEngineWithLMHead._build_fsdp_module)
    wanted = "if self.engine_config.offload_policy or self.engine_config.forward_only:"
    _, found, block = source.partition(wanted)
    assert found
    assert "CPUOffloadPolicy(pin_memory=True)" in block[:400]
    if not torch.accelerator.is_available():
        with pytest.raises(RuntimeError):
            torch.zeros(1).pin_memory()


def test_engine_configurations_are_frozen(rl_config: Callable[..., Any]) -> None:
    """Why the engine sets ``forward_only`` past the dataclass."""
    from verl.utils.config import omega_conf_to_dataclass

    engine = omega_conf_to_dataclass(rl_config().actor_rollout_ref.actor.fsdp_config)
    with pytest.raises(Exception, match=r"frozen|immutable|cannot assign|modify"):
        engine.strategy = "fsdp"


# ---- decision 6: logical GPUs ----


def test_workers_are_counted_in_gpus_or_npus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from verl.single_controller.ray import ResourcePoolManager

    manager = ResourcePoolManager(resource_pool_spec={"pool": [1]}, mapping={})
    state = ray._private.state
    monkeypatch.setattr(state, "available_resources_per_node", lambda: {"node": {"CPU": 8.0}})
    with pytest.raises(ValueError, match="Total available GPUs 0 is less than total desired GPUs 1"):
        manager._check_resource_available()
    monkeypatch.setattr(state, "available_resources_per_node", lambda: {"node": {"CPU": 8.0, "GPU": 1.0}})
    manager._check_resource_available()
