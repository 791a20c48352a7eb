"""What happens before any work: checks that stop a run that cannot succeed, and the policy that it starts from."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from venus_env.corpus.errors import CorpusError
from venus_env.corpus.local import LocalCorpus
from venus_env.protocol.prompt import system_prompt
from venus_env.setting import Setting
from venus_env.tasks.task import Task
from venus_env.tokens import Renderer
from venus_rl import checks
from venus_rl.checks import refuse
from venus_rl.config import Config, ConfigError, ShrinkConfig
from venus_rl.device import device_of
from venus_rl.model import BASE_MODEL
from venus_rl.model.shape import SHAPES, ModelShape, make_shrunk, read_shape, shrink_shape
from venus_rl.run_folder import RunFolder, fingerprint

logger = logging.getLogger(__name__)


def threads_per_process(config: Config) -> int:
    """Torch threads of a training process: ``run.threads``, or an equal share of the cores."""
    return config.run.threads or max(1, (os.cpu_count() or 1) // device_of(config).per_node)


def check_sizes(config: Config) -> None:
    """Stop on batch sizes, groups and parallel sizes that do not divide.

    Raises:
        ConfigError: Names the keys and the nearest sizes that work.
    """
    refuse(checks.check_sizes(config, device_of(config)))


def check_model(config: Config) -> None:
    """Stop on a model that is not there, cannot be made, or cannot read what it is to be trained on.

    Raises:
        ConfigError: Names ``model.path`` or ``model.init``, or the length that is too much and the model's window.
    """
    init = config.model.init
    if config.model.shrink is not None:
        shape = model_shape(config)
        window, limit = shape.positions, f"the shrunk model reads ({shape.positions})"
    elif init is None:
        path = model_path(config)
        for pattern, what in (("config.json", "no config.json"), ("*.safetensors", "no *.safetensors weights")):
            if not any(path.glob(pattern)):
                raise ConfigError(
                    f"model.path={config.model.path}: {path} is no Hugging Face folder (it has {what}); "
                    "give one, or set model.init.hidden=160 to make a small random model"
                    + (", or model.shrink=16 to try this configuration with one" if config.model.shape else "")
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
    refuse(checks.check_window(config, window, limit))
    device = device_of(config)
    if device.kind == "cuda":
        refuse(checks.check_parallelism(config, device, model_shape(config)))


def check_tokenizer(config: Config) -> None:
    """Stop on a tokenizer that cannot render or end a turn. Call :func:`check_model` first.

    Raises:
        ConfigError: Names the folder and what is missing.
    """
    if config.model.init is None:  # else it is made to fit
        path = tokenizer_path(config)
        refuse(checks.check_tokenizer(load_tokenizer(config), str(path)))


def load_tokenizer(config: Config) -> Any:
    """Load the tokenizer of :func:`tokenizer_path`.

    Raises:
        ConfigError: There is none, or it is damaged.
    """
    from transformers import AutoTokenizer

    path = tokenizer_path(config)
    if not any(path.glob("tokenizer*")):
        raise ConfigError(
            f"model.path={config.model.path}: {path} has no tokenizer files; give the model's whole folder"
        )
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:  # tokenizers raises bare Exception on damaged files
        raise ConfigError(f"model.path={config.model.path}: {path} has no usable tokenizer ({error})") from error


def model_shape(config: Config) -> ModelShape:
    """Sizes of the policy that training starts from: read from its folder, else known by ``model.shape``; shrunk.

    Raises:
        ConfigError: The folder is not there and ``model.shape`` is not set, or it is no dense decoder.
    """
    model = config.model
    if model.init is not None:
        init = model.init
        sizes = (init.vocab_size, init.hidden, init.layers, init.heads, init.heads, init.head_dim, init.feed_forward)
        return ModelShape(*sizes, init.positions, rope_theta=init.rope_theta)
    path = model_path(config)
    if (path / "config.json").is_file():
        try:
            shape = read_shape(path)
        except (OSError, ValueError) as error:
            raise ConfigError(f"model.path={model.path}: {error}") from error
    elif model.shape is not None:
        shape = SHAPES[model.shape]
    else:
        raise ConfigError(
            f"model.path={model.path}: {path} has no config.json to read sizes from; give the model's folder, or its "
            f"sizes by name: model.shape={next(iter(SHAPES))} (known: {', '.join(SHAPES)})"
        )
    if model.shrink is None:
        return shape
    if tokenizer_path(config) == BASE_MODEL:
        shape = replace(shape, vocab=read_shape(BASE_MODEL).vocab)
    if isinstance(model.shrink, ShrinkConfig):
        return shrink_shape(shape, **model.shrink.model_dump(exclude_none=True))
    return shrink_shape(shape, model.shrink)


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


def prompt_lengths(setting: Setting, renderer: Renderer, tasks: list[Task]) -> Iterator[tuple[str, int]]:
    """Yield id and tokens of each task's prompt; the system prompt, long and always the same, is encoded once."""
    env = setting.config
    frame = len(renderer.encode_prompt(system_prompt(setting.tools, env.prompt, env.current_date), ""))
    empty = len(renderer.encode_user(""))
    for task in tasks:
        yield task.id, frame + len(renderer.encode_user(task.question)) - empty


def initial_model(folder: RunFolder, setting: Setting) -> Path:
    """Return the folder of the policy that training starts from.

    A folder (``model.path``) is used where it lies; ``base`` is the one shipped with the package; ``model.init`` is
    made once, with a tokenizer trained on the corpus and the protocol, in ``RUN/model``; ``model.shrink`` is, too, with
    the tokenizer of ``model.path`` or, where that is not on this machine, the shipped one.

    Call :func:`check_model` first.
    """
    config = folder.config
    if config.model.shrink is not None:
        shape = model_shape(config)
        key = fingerprint("shrink", asdict(shape), config.run.seed, tokenizer_path(config))
        if folder.finished("model", key) is None:
            _make_shrunk(folder, shape, key)
        return folder.root / "model"
    if config.model.init is None:
        return model_path(config)
    key = fingerprint("init", config.model.init.model_dump(), config.run.seed, setting.corpus.content_hash)
    if folder.finished("model", key) is None:
        _make_model(folder, setting, key)
    return folder.root / "model"


def model_path(config: Config) -> Path:
    """Folder of ``model.path``, whether it exists or not."""
    return BASE_MODEL if config.model.path in ("base", None) else Path(str(config.model.path))


def tokenizer_path(config: Config) -> Path:
    """Folder of the tokenizer; a shrunk model takes the shipped one where ``model.path`` is not on this machine."""
    path = model_path(config)
    absent = config.model.shrink is not None and not any(path.glob("tokenizer*"))
    return BASE_MODEL if absent else path


def _make_shrunk(folder: RunFolder, shape: ModelShape, key: str) -> None:
    from venus_rl.model.build import save_policy

    tokenizer = load_tokenizer(folder.config)
    end_of_turn = Renderer(tokenizer).end_of_turn_id
    path = folder.begin("model", key)
    model = make_shrunk(shape, tokenizer, end_of_turn, seed=folder.config.run.seed)
    count = sum(parameter.numel() for parameter in model.parameters())
    logger.info("model.shrink: %s parameters at random, in the shape of %s", f"{count:,}", folder.config.model.path)
    save_policy(model, tokenizer, path)
    folder.finish("model", key, 0.0, parameters=count)


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
