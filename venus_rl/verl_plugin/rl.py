"""The RL stage as one process: ``python -m venus_rl.verl_plugin.rl --config FILE --model DIR --out RUN/rl``.

``python -m venus_rl.train stage=rl`` starts it; running it by hand is only useful for debugging. It prepares verl's
files, starts Ray and runs verl's own entry ``run_ppo`` with the trainer of :mod:`venus_rl.verl_plugin.trainer`.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from venus_env.tasks.task import Task
from venus_rl.config import Config, RLConfig
from venus_rl.device import device_of
from venus_rl.igpo.advantage import AdvantageConfig
from venus_rl.igpo.schedule import AdvantageSchedule
from venus_rl.verl_plugin.options import AGENT_LOOP, AGENT_LOOP_CLASS, rl_options


def write_prompts(tasks: list[Task], path: Path) -> None:
    """Write verl's prompt rows (parquet): one question per row, the task travels in ``extra_info``.

    Args:
        tasks: Training questions.
        path: Target file, replaced atomically.
    """
    import pandas as pd

    rows = [
        {
            "data_source": task.source or "venus",
            "agent_name": AGENT_LOOP,
            "prompt": [{"role": "user", "content": task.question}],
            "reward_model": {"style": "rule", "ground_truth": "<|answer_split|>".join(task.answers)},
            "extra_info": {"index": index, "task": task.model_dump_json()},
        }
        for index, task in enumerate(tasks)
    ]
    temporary = path.with_suffix(".tmp")
    pd.DataFrame(rows).to_parquet(temporary)
    os.replace(temporary, path)


def advantage_schedule(rl: RLConfig) -> AdvantageSchedule:
    """Return the advantage rules of a run's ``rl`` keys."""
    return AdvantageSchedule(
        base=AdvantageConfig(
            algorithm=rl.algorithm,
            mode=rl.normalisation,
            gamma=rl.gamma,
            discount_unit=rl.discount_unit,
            adaptive_gamma_min_weight=rl.adaptive_gamma,
            gain_weight=rl.gain_weight,
            normalise_std=rl.normalise_std,
            clamp=rl.clamp,
        ),
        total=rl.steps,
        curriculum_outcome=rl.curriculum_outcome,
        curriculum_gain=rl.curriculum_gain,
        warmup_threshold=rl.warmup_threshold,
        warmup_alpha=rl.warmup_alpha,
    )


class Runner:
    """verl's task runner (a Ray actor): builds the trainer and runs it to the end.

    Args:
        config: The run's configuration as JSON.
        out: Folder of the RL stage.
    """

    def __init__(self, config: str, out: str) -> None:
        self.venus = Config.model_validate_json(config)
        self.out = Path(out)

    def run(self, config: Any) -> None:
        """Train (called by verl's ``run_ppo``)."""
        import transfer_queue as tq
        from omegaconf import OmegaConf
        from verl.trainer.ppo.v1 import AgentLoopManagerTQ
        from verl.utils.logging_utils import configure_verl_logging

        from venus_rl.verl_plugin import cutoff
        from venus_rl.verl_plugin.trainer import VenusTrainer

        configure_verl_logging()
        config.transfer_queue.enable = True
        OmegaConf.resolve(config)
        rl = self.venus.rl
        tq.init(config.transfer_queue)
        counting = None if rl.completion_cutoff is None else cutoff.start(rl.prompts * rl.group, rl.completion_cutoff)
        try:
            trainer = VenusTrainer(
                config,
                out=self.out,
                schedule=advantage_schedule(rl),
                max_excluded=rl.max_excluded,
                keep=rl.keep,
                verify_scores=self.venus.rollout.verify_scores if device_of(self.venus).whole_sequences else 0,
            )
            trainer.init()
            manager = AgentLoopManagerTQ.create(
                config=config,
                llm_client=trainer.get_llm_client(),
                teacher_client=trainer.get_teacher_client(),
                reward_loop_worker_handles=trainer.get_reward_handles(),
            )
            trainer.fit(manager)
            trainer.logger.finish(exit_code=0)
        finally:
            del counting
            tq.close()


def verl_config(name: str, options: dict[str, Any]) -> Any:
    """Compose verl's configuration ``name`` and set ``options`` (dotted keys, added where verl has none)."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf, open_dict

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose(name)
    with open_dict(config):
        for key, value in options.items():
            OmegaConf.update(config, key, value, force_add=True)
    return config


def main(argv: list[str] | None = None) -> None:
    """Run the stage."""
    parser = argparse.ArgumentParser(description="RL stage of venus_rl.train")
    parser.add_argument("--config", type=Path, required=True, help="JSON of the run's configuration")
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face folder to start from")
    parser.add_argument("--out", type=Path, required=True, help="folder of the stage")
    arguments = parser.parse_args(argv)
    config = Config.model_validate_json(arguments.config.read_text(encoding="utf-8"))
    agent_loop_file = arguments.out / "agent_loop.yaml"
    entry = {"name": AGENT_LOOP, "_target_": AGENT_LOOP_CLASS, "config_path": str(arguments.config.resolve())}
    agent_loop_file.write_text(json.dumps([entry], indent=1), encoding="utf-8")  # JSON is YAML

    import ray
    from verl.trainer import main_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy

    options = rl_options(
        config,
        model=arguments.model.resolve(),
        train_file=(arguments.out / "prompts.parquet").resolve(),
        agent_loop_file=agent_loop_file.resolve(),
        checkpoints=(arguments.out / "checkpoints").resolve(),
    )
    verl = verl_config("ppo_trainer", options)
    main_ppo.auto_set_device(verl)
    main_ppo.validate_config(
        config=verl, use_reference_policy=need_reference_policy(verl), use_critic=need_critic(verl)
    )
    runner = ray.remote(num_cpus=1)(Runner)

    class _Bound:
        """``run_ppo`` makes the runner without arguments; this passes ours."""

        @staticmethod
        def remote() -> Any:
            return runner.remote(config.model_dump_json(), str(arguments.out.resolve()))

    try:
        main_ppo.run_ppo(verl, task_runner_class=_Bound)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
