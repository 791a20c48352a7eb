"""The SFT stage as torchrun processes: ``python -m torch.distributed.run … -m venus_rl.sft.launch --config FILE …``.

``python -m venus_rl.train stage=sft`` starts it. verl's ``SFTTrainer`` does the work. On a CPU the process group is
made here, because verl 0.9.1 builds the backend string ``"cpu:gloo,cpu:gloo"`` there (verl/utils/distributed.py:63),
which torch rejects; and its checkpoints are marked and pruned here (:mod:`venus_rl.checkpoints`).
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path
from typing import Any

from venus_rl.checkpoints import mark_complete, prune, saving, step_folder
from venus_rl.config import Config
from venus_rl.device import device_of
from venus_rl.verl_plugin.options import sft_options
from venus_rl.verl_plugin.rl import verl_config


class MarkedCheckpoints:
    """verl's checkpoint handler, with every finished checkpoint marked and the old ones removed.

    Args:
        handler: verl's.
        keep: Number of checkpoints that are kept.
    """

    def __init__(self, handler: Any, keep: int) -> None:
        self._handler = handler
        self._keep = keep

    def load_checkpoint(self) -> int:
        """Load the newest checkpoint; returns its step, 0 without one."""
        return int(self._handler.load_checkpoint())

    def save_checkpoint(self, step: int) -> None:
        """Save one; verl returns when all processes have written theirs."""
        root = Path(self._handler.default_local_dir)
        with saving(root):
            self._handler.save_checkpoint(step)
            if self._handler.rank == 0:
                mark_complete(step_folder(root, step))
                prune(root, self._keep)


def main(argv: list[str] | None = None) -> None:
    """Run the stage."""
    parser = argparse.ArgumentParser(description="SFT stage of venus_rl.train")
    parser.add_argument("--config", type=Path, required=True, help="JSON of the run's configuration")
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face folder to start from")
    parser.add_argument("--train-file", type=Path, required=True, help="parquet of rendered conversations")
    parser.add_argument("--steps", type=int, required=True, help="optimiser steps of the whole stage")
    parser.add_argument("--batch", type=int, required=True, help="conversations per optimiser step")
    parser.add_argument("--longest", type=int, required=True, help="tokens of the longest conversation")
    parser.add_argument("--out", type=Path, required=True, help="folder of the stage")
    arguments = parser.parse_args(argv)
    config = Config.model_validate_json(arguments.config.read_text(encoding="utf-8"))

    import torch
    from verl.trainer.sft_trainer import SFTTrainer
    from verl.utils.distributed import initialize_global_process_group

    from venus_rl.verl_plugin import workers as workers  # registers the CPU engine

    class Trainer(SFTTrainer):  # type: ignore[misc]
        def _build_ckpt_handler(self) -> None:
            super()._build_ckpt_handler()
            self.ckpt_handler: Any = MarkedCheckpoints(self.ckpt_handler, config.sft.keep)

    options = sft_options(
        config,
        model=arguments.model.resolve(),
        train_file=arguments.train_file.resolve(),
        checkpoints=(arguments.out / "checkpoints").resolve(),
        steps=arguments.steps,
        batch=arguments.batch,
        longest=arguments.longest,
    )
    torch.manual_seed(config.run.seed)
    if device_of(config).kind == "cuda":
        initialize_global_process_group()
    else:
        torch.distributed.init_process_group("cpu:gloo", timeout=timedelta(minutes=10))
    try:
        Trainer(config=verl_config("sft_trainer_engine", options)).fit()
    finally:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    from torch.distributed.elastic.multiprocessing.errors import record

    record(main)()  # torchrun then ends its log with the error instead of a link to a manual
