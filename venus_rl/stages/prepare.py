"""What happens before any work: checks that stop a run that cannot succeed, and the policy that it starts from."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any

from venus_env.corpus.errors import CorpusError
from venus_env.corpus.local import LocalCorpus
from venus_env.setting import Setting
from venus_env.tasks.task import Task
from venus_rl.config import Config, ConfigError
from venus_rl.run_folder import RunFolder, fingerprint

logger = logging.getLogger(__name__)

BASE_MODEL = Path(__file__).resolve().parents[1] / "model" / "base"


def threads_per_process(config: Config) -> int:
    """Torch threads of a training process: ``run.threads``, or an equal share of the cores."""
    return config.run.threads or max(1, (os.cpu_count() or 1) // config.run.processes)


def check_sizes(config: Config) -> None:
    """Stop on batch sizes that do not divide.

    Raises:
        ConfigError: Names the keys and the nearest sizes that work.
    """
    processes = config.run.processes
    if config.sft.enabled and config.sft.batch_size % processes:
        raise ConfigError(
            f"sft.batch_size={config.sft.batch_size} is not a multiple of run.processes={processes}; "
            f"use sft.batch_size={_multiple(config.sft.batch_size, processes)}"
        )
    if not config.rl.steps:
        return
    rollouts = config.rl.prompts * config.rl.group
    if rollouts % processes:
        raise ConfigError(
            f"rl.prompts × rl.group = {config.rl.prompts} × {config.rl.group} = {rollouts} rollouts do not divide "
            f"among run.processes={processes}; use rl.group={_multiple(config.rl.group, processes)}"
        )
    if config.rl.group < 2:
        raise ConfigError("rl.group=1 has no group to compare with; use rl.group=2 or more")


def check_model(config: Config) -> None:
    """Stop on a model that is not there, cannot be made, or cannot read what it is to be trained on.

    Raises:
        ConfigError: Names ``model.path`` or ``model.init``, or the length that is too much and the model's window.
    """
    init = config.model.init
    if init is None:
        path = _model_path(config)
        for pattern, what in (("config.json", "no config.json"), ("*.safetensors", "no *.safetensors weights")):
            if not any(path.glob(pattern)):
                raise ConfigError(
                    f"model.path={config.model.path}: {path} is no Hugging Face folder (it has {what}); "
                    "give one, or set model.init.hidden=160 to make a small random model"
                )
        window = model_window(path)
        limit = f"the model in {path} reads ({window})"
    else:
        from venus_rl.model.build import ModelSpec

        try:
            ModelSpec(**init.model_dump(exclude={"vocab_size"}))
        except ValueError as error:
            raise ConfigError(f"model.init: {error}") from error
        window, limit = init.positions, f"model.init.positions={init.positions}"
    wanted = {"env.max_context_tokens": config.env.max_context_tokens}
    if "max_tokens" in config.sft.model_fields_set:  # the default gives way to a shorter window by itself
        wanted["sft.max_tokens"] = config.sft.max_tokens or window
    for name, tokens in wanted.items():
        if tokens > window:
            raise ConfigError(f"{name}={tokens} is more tokens than {limit}; set {name}={window} or less")


def check_tasks(config: Config, setting: Setting) -> None:
    """Stop on tasks that are not there, or too few for a step of RL.

    Raises:
        ConfigError: Names ``env.tasks``, ``data.hops``, ``rl.hops`` or ``rl.prompts``.
    """
    select_tasks(setting, "train", config.data.hops, "data.hops")
    count = len(select_tasks(setting, "train", config.rl.hops, "rl.hops"))
    if config.rl.steps and config.rl.prompts > count:
        raise ConfigError(
            f"rl.prompts={config.rl.prompts} questions per step, but {setting.config.tasks} has {count} to train on "
            f"(rl.hops={config.rl.hops}); use rl.prompts={count} or less"
        )


def open_setting(config: Config) -> Setting:
    """Open corpus and tools.

    Raises:
        ConfigError: Missing or damaged corpus; names ``env.corpus`` and what is wrong.
    """
    try:
        return Setting.open(config.env)
    except (OSError, ValueError, CorpusError) as error:
        raise ConfigError(f"env.corpus={config.env.corpus}: {error}") from error


def select_tasks(setting: Setting, split: str, hops: list[int] | None = None, key: str = "hops") -> list[Task]:
    """Return the tasks of a split, optionally only those with the given hop counts, which the setting ``key`` names.

    Raises:
        ConfigError: Unreadable file, or no such task; names ``env.tasks``.
    """
    try:
        tasks = setting.tasks(split)
    except (OSError, ValueError) as error:
        asked = f" (eval.split={split})" if split not in ("train", "test") else ""
        raise ConfigError(f"env.tasks={setting.config.tasks}: {error}{asked}") from error
    chosen = [task for task in tasks if hops is None or task.hops in hops]
    if not chosen:
        known = sorted({task.hops for task in tasks if task.hops is not None})
        raise ConfigError(
            f"{key}={hops}: no {split} task has that many hops; {setting.config.tasks} has {known or 'no hop counts'}"
        )
    return chosen


def initial_model(folder: RunFolder, setting: Setting) -> Path:
    """Return the folder of the policy that training starts from.

    A folder (``model.path``) is used where it lies; ``base`` is the one shipped with the package; ``model.init`` is
    made once, with a tokenizer trained on the corpus and the protocol, in ``RUN/model``.

    Call :func:`check_model` first.
    """
    config = folder.config
    if config.model.init is None:
        return _model_path(config)
    key = fingerprint("init", config.model.init.model_dump(), config.run.seed, setting.corpus.content_hash)
    if folder.finished("model", key) is None:
        _make_model(folder, setting, key)
    return folder.root / "model"


def _model_path(config: Config) -> Path:
    return BASE_MODEL if config.model.path == "base" else Path(str(config.model.path))


def _make_model(folder: RunFolder, setting: Setting, key: str) -> None:
    from venus_rl.model.build import ModelSpec, init_model, save_policy
    from venus_rl.model.pretrain import corpus_texts
    from venus_rl.model.tokenizer import train_tokenizer

    init = folder.config.model.init
    assert init is not None
    if not isinstance(setting.corpus, LocalCorpus):
        raise ConfigError("model.init trains a tokenizer on the corpus and needs a local one: set env.corpus to a file")
    path = folder.begin("model", key)
    logger.info("training a tokenizer of %d entries on %s", init.vocab_size, folder.config.env.corpus)
    texts = corpus_texts(setting.corpus.passages(), select_tasks(setting, "train"))
    tokenizer = train_tokenizer(texts, init.vocab_size)
    model = init_model(ModelSpec(**init.model_dump(exclude={"vocab_size"})), tokenizer, seed=folder.config.run.seed)
    save_policy(model, tokenizer, path)
    folder.finish("model", key, 0.0, parameters=sum(p.numel() for p in model.parameters()))


def model_window(path: Path) -> int:
    """Longest sequence, in tokens, that the model in ``path`` takes; a very large number where it names no limit.

    Raises:
        ConfigError: Its ``config.json`` is damaged.
    """
    file = path / "config.json"
    try:
        return int(json.loads(file.read_text(encoding="utf-8")).get("max_position_embeddings", 2**31))
    except ValueError as error:
        raise ConfigError(f"model.path={path}: {file} is damaged ({error})") from error


def lora_settings(config: Config) -> dict[str, Any]:
    """The settings of the adapters that are trained; empty without."""
    return (
        config.model.model_dump(include={"lora_rank", "lora_alpha", "lora_targets"}) if config.model.lora_rank else {}
    )


def model_key(path: Path) -> str:
    """Fingerprint of the weights in a Hugging Face folder."""
    digest = hashlib.sha256()
    for file in sorted(path.glob("*.safetensors")):
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


def _multiple(value: int, of: int) -> int:
    return -(-value // of) * of
