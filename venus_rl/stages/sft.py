"""Stage ``sft``: verl's SFT trainer on the rendered conversations, in a torchrun process of its own."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from venus_env.evaluation.card import write_text_atomic
from venus_rl.checkpoints import repair, step_folder
from venus_rl.config import Config, ConfigError
from venus_rl.device import device_of
from venus_rl.merge import export
from venus_rl.process import run_stage, stage_environment
from venus_rl.run_folder import RunFolder, fingerprint
from venus_rl.stages.data import TrainData
from venus_rl.stages.prepare import lora_settings, model_key, threads_per_process


def run(folder: RunFolder, model: Path, data: TrainData) -> Path:
    """Fine-tune ``model`` and return the folder of the tuned policy.

    Args:
        folder: The run.
        model: Hugging Face folder to start from.
        data: What the data stage made.
    """
    config = folder.config
    batch, steps, key = _plan(config, model, data)
    device = device_of(config)
    target = folder.stage("sft") / "model"
    if folder.finished("sft", key):
        return target
    out = folder.begin("sft", key)
    started = time.monotonic()
    raw = out / "verl-metrics.jsonl"
    _collect(raw, out / "metrics.jsonl")  # what an interrupted attempt left
    done = repair(out / "checkpoints")
    environment = stage_environment(threads_per_process(config), device.kind) | {
        "VERL_FILE_LOGGER_PATH": str(raw.resolve()),
        "TENSORBOARD_DIR": str((out / "tensorboard").resolve()),
    }
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={device.per_node}"),
        *("-m", "venus_rl.sft.launch", "--config", str(folder.root / "config.json"), "--model", str(model)),
        *(
            "--train-file",
            str(data.file),
            "--steps",
            str(steps),
            "--batch",
            str(batch),
            "--longest",
            str(data.longest),
            "--out",
            str(out),
        ),
    ]
    show = {"train/loss": "loss", "train/lr": "lr"}
    if done < steps:  # else only the publication was interrupted
        run_stage(
            command,
            log=out / "log.txt",
            environment=environment,
            metrics=raw,
            done=done,
            total=steps,
            label="sft",
            show=show,
            lock=folder.lock,
        )
    _collect(raw, out / "metrics.jsonl")
    export(step_folder(out / "checkpoints", steps) / "huggingface", target)
    folder.finish("sft", key, time.monotonic() - started, steps=steps, batch=batch)
    return target


def check(folder: RunFolder, model: Path, data: TrainData) -> None:
    """Stop where the folder holds this stage with other settings; arguments as of :func:`run`.

    Raises:
        ConfigError: It does, or there are too few conversations.
    """
    folder.finished("sft", _plan(folder.config, model, data)[2])


def _plan(config: Config, model: Path, data: TrainData) -> tuple[int, int, str]:
    """Batch size, number of steps and fingerprint of the stage."""
    device = device_of(config)
    batch = min(config.sft.batch_size, data.rows // device.sft_batches * device.sft_batches)
    if batch < 1:
        raise ConfigError(
            f"{data.rows} conversations are too few for {device.count}: raise data.oracle or give more in sft.data"
        )
    steps = config.sft.steps or config.sft.epochs * data.rows // batch
    settings = config.sft.model_dump(exclude={"save_every", "keep"})
    key = fingerprint(
        settings, lora_settings(config), data.fingerprint, model_key(model), config.run.seed, device.per_node
    )
    return batch, steps, key


def _collect(raw: Path, metrics: Path) -> None:
    """Merge verl's metrics file, which it overwrites on every start, into the stage's own, by step."""
    rows: dict[int, dict[str, Any]] = {}
    for path in (metrics, raw):
        if not path.exists():
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue  # the last line of a killed process
            rows[int(row["step"])] = {
                "step": row["step"],
                **row.get("data", {k: v for k, v in row.items() if k != "step"}),
            }
    tokens = 0
    for step in sorted(rows):  # verl counts them from the last start
        tokens += rows[step].get("train/global_tokens", 0)
        rows[step]["train/total_tokens(B)"] = tokens / 1e9
    write_text_atomic(metrics, "".join(json.dumps(rows[step]) + "\n" for step in sorted(rows)))
    raw.unlink(missing_ok=True)
