"""Stage ``rl``: IGPO or GRPO through verl's V1 trainer, in a process of its own."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from venus_env.setting import Setting
from venus_env.tasks.task import Task
from venus_env.tokens import Renderer
from venus_rl.checkpoints import repair, step_folder
from venus_rl.checks import check_prompts, refuse
from venus_rl.config import Config, ConfigError
from venus_rl.device import device_of
from venus_rl.merge import export
from venus_rl.process import run_stage, stage_environment
from venus_rl.run_folder import RunFolder, fingerprint
from venus_rl.stages.prepare import lora_settings, model_key, prompt_lengths, select_tasks, threads_per_process


def run(folder: RunFolder, setting: Setting, model: Path) -> Path:
    """Train ``model`` and return the folder of the trained policy.

    Args:
        folder: The run.
        setting: The environment.
        model: Hugging Face folder to start from.
    """
    config = folder.config
    key = _key(config, model)
    target = folder.stage("rl") / "model"
    finished = folder.finished("rl", key)
    if finished and int(finished["steps"]) == config.rl.steps:
        return target
    from venus_rl.verl_plugin.rl import write_prompts  # imports verl: not before there is something to train

    tasks = select_tasks(setting, "train", config.rl.hops)
    _check_prompts(config, setting, model, tasks)  # a refused command must not mark the folder as begun
    out = folder.begin("rl", key)
    started = time.monotonic()
    write_prompts(tasks, out / "prompts.parquet")
    done = repair(out / "checkpoints")
    command = [
        *(sys.executable, "-m", "venus_rl.verl_plugin.rl", "--config", str(folder.root / "config.json")),
        *("--model", str(model), "--out", str(out)),
    ]
    show = {"episode/score": "score", "episode/turns": "turns", "actor/entropy": "entropy"}
    environment = stage_environment(threads_per_process(config), device_of(config).kind) | {
        "TENSORBOARD_DIR": str((out / "tensorboard").resolve())
    }
    if done < config.rl.steps:  # else only the publication was interrupted
        run_stage(
            command,
            log=out / "log.txt",
            environment=environment,
            metrics=out / "metrics.jsonl",
            done=done,
            total=config.rl.steps,
            label=config.rl.algorithm,
            show=show,
            lock=folder.lock,
        )
    export(step_folder(out / "checkpoints", config.rl.steps) / "actor" / "huggingface", target)
    folder.finish("rl", key, time.monotonic() - started, steps=config.rl.steps)
    return target


def _check_prompts(config: Config, setting: Setting, model: Path, tasks: list[Task]) -> None:
    """Stop where a question leaves no room for a turn.

    Raises:
        ConfigError: Names the task and ``env.max_context_tokens``.
    """
    from transformers import AutoTokenizer

    renderer = Renderer(AutoTokenizer.from_pretrained(model))
    refuse(check_prompts(prompt_lengths(setting, renderer, tasks), config))


def check_engine(config: Config, model: Path) -> None:
    """Stop where the rollout engine is not there, or cannot run ``model``.

    Raises:
        ConfigError: Says what to install, or to use instead.
    """
    if device_of(config).engine == "vllm":
        from venus_rl.verl_plugin import vllm_options

        vllm_options.check_model(model)


def check(folder: RunFolder, model: Path) -> None:
    """Stop where the folder holds this stage with other settings; arguments as of :func:`run`.

    Raises:
        ConfigError: It does, or it holds more steps than are asked for.
    """
    finished = folder.finished("rl", _key(folder.config, model))
    if finished and int(finished["steps"]) > folder.config.rl.steps:
        raise ConfigError(
            f"rl.steps={folder.config.rl.steps}, but {folder.root / 'rl'} has been trained for {finished['steps']}: "
            f"use rl.steps={finished['steps']} or more, or another run.dir"
        )


def _key(config: Config, model: Path) -> str:
    """Fingerprint of the stage. More steps continue a finished run; everything else makes another one."""
    settings = config.rl.model_dump(exclude={"steps", "save_every", "keep", "step_timeout_s"})
    return fingerprint(
        settings,
        config.env.model_dump(mode="json"),
        config.rollout.model_dump(),
        lora_settings(config),
        model_key(model),
        config.run.seed,
        device_of(config).processes,
    )
