"""Train a deep-research policy: data, agentic SFT, IGPO through verl, evaluation.

    python -m venus_rl.train                                    everything, on the embedded world, with the small policy
    python -m venus_rl.train --config configs/tiny-cpu.yaml rl.steps=20 run.dir=runs/longer
    python -m venus_rl.train stage=rl rl.algorithm=grpo run.dir=runs/grpo
    python -m venus_rl.train env.corpus=my/passages.jsonl env.tasks=my/questions.jsonl sft.data=my/trajectories

Stages run in order (data, sft, rl; eval before and after each). A finished stage is skipped, an interrupted one resumes
when the same command runs again. Everything is in the run folder (run.dir): see venus_rl/run_folder.py.
"""

from __future__ import annotations

import argparse
import errno
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venus_rl.config import Config, ConfigError, load_config
from venus_rl.process import StageFailed
from venus_rl.settings import key_help

if TYPE_CHECKING:
    from venus_env.setting import Setting
    from venus_env.tasks.task import Task
    from venus_rl.run_folder import RunFolder

logger = logging.getLogger("venus_rl")


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit status (0 done, 1 a stage failed, 2 wrong input, 130 interrupted)."""
    parser = argparse.ArgumentParser(
        prog="python -m venus_rl.train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=key_help(Config),
    )
    parser.add_argument("--config", type=Path, help="YAML file of settings; key=value arguments override it")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="one setting, e.g. rl.steps=20")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S")
    for noisy in ("httpx", "bm25s", "faiss", "matplotlib"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        run(load_config(arguments.config, arguments.overrides))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except StageFailed as error:
        print(f"error: {error}\nThe same command goes on from the last checkpoint.", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"error: {error}: make room; the same command goes on from the last checkpoint.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from the last checkpoint.", file=sys.stderr)
        return 130
    return 0


def run(config: Config) -> dict[str, Any]:
    """Run the stages that ``config.stage`` asks for and return the result card."""
    # Imported here: --help and a wrong key must not wait for torch.
    from venus_rl.device import pinned
    from venus_rl.run_folder import RunFolder
    from venus_rl.stages import data, evaluate, prepare

    started = time.monotonic()
    config = pinned(config)
    # All that can be refused is refused before the run folder is touched …
    prepare.check_sizes(config)
    prepare.check_model(config)
    prepare.check_tokenizer(config)
    data.check_sources(config)
    if config.stage == "rl" and config.sft.enabled and not (config.run.dir / "sft" / "model").is_dir():
        raise ConfigError("stage=rl starts from the tuned policy: run stage=sft first, or set sft.enabled=false")
    setting = prepare.open_setting(config)
    prepare.check_tasks(config, setting)
    questions = evaluate.questions(config, setting)
    folder = RunFolder(config)
    with folder.locked():
        return _run_stages(folder, setting, questions, started)


def _run_stages(folder: RunFolder, setting: Setting, questions: list[Task], started: float) -> dict[str, Any]:
    from venus_rl.stages import data, evaluate, prepare, report, rl, sft

    config = folder.config

    def wants(stage: str) -> bool:
        return config.stage in (stage, "all")

    def measure(name: str, policy: Path) -> None:
        if wants("eval") and name in config.eval.stages:
            evaluate.run(folder, setting, name, policy, prepare.model_key(policy), questions)

    # … and what the folder holds with other settings, before anything in it is replaced.
    model = prepare.initial_model(folder, setting)
    tuned = folder.root / "sft" / "model"
    if config.rl.steps and wants("rl"):
        rl.check_engine(config, model)
    rows = None
    if config.sft.enabled and config.stage in ("data", "sft", "all"):
        rows = data.run(folder, setting, model)
        if wants("sft"):
            sft.check(folder, model, rows)
    if config.rl.steps and wants("rl") and (tuned.is_dir() or not config.sft.enabled):
        rl.check(folder, tuned if config.sft.enabled else model)
    folder.save_config()

    policy = model
    measure("initial", policy)
    if config.sft.enabled:
        if rows is not None and wants("sft"):
            sft.run(folder, model, rows)
        if tuned.is_dir():
            policy = tuned
            measure("sft", policy)
    if config.rl.steps:
        if wants("rl"):
            rl.run(folder, setting, policy)
        trained = folder.root / "rl" / "model"
        if trained.is_dir():
            measure("rl", trained)
    if wants("eval"):
        return report.run(folder, setting, seconds=time.monotonic() - started)
    return {}


if __name__ == "__main__":
    raise SystemExit(main())
