"""Stage ``eval``: plays held-out questions with a checkpoint, through the same session and tokens as training."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from venus_env.beliefs.base import open_belief
from venus_env.evaluation.baselines import closed_book_score, single_search_score
from venus_env.evaluation.card import ResultCard, make_card, read_card, write_card, write_text_atomic
from venus_env.evaluation.metrics import Estimate
from venus_env.evaluation.runner import evaluate
from venus_env.setting import Setting
from venus_env.tasks.task import Task
from venus_env.tools.search import SearchTool
from venus_rl.config import Config
from venus_rl.device import device_of
from venus_rl.run_folder import RunFolder, fingerprint
from venus_rl.stages.prepare import select_tasks, threads_per_process

logger = logging.getLogger(__name__)


def questions(config: Config, setting: Setting) -> list[Task]:
    """The held-out questions: evenly spread over the split, so that fewer questions keep its mix of kinds."""
    tasks = select_tasks(setting, config.eval.split)
    count = config.eval.questions
    if count is None or count >= len(tasks):
        return tasks
    return [tasks[index * len(tasks) // count] for index in range(count)]


def run(folder: RunFolder, setting: Setting, name: str, policy: Path, policy_key: str, tasks: list[Task]) -> ResultCard:
    """Evaluate the checkpoint ``policy`` and write ``RUN/eval/{name}.json``; a finished evaluation is read back.

    Args:
        folder: The run.
        setting: The environment.
        name: Name of the checkpoint: ``initial``, ``sft`` or ``rl``.
        policy: Its Hugging Face folder.
        policy_key: Fingerprint of its weights.
        tasks: Questions from :func:`questions`.
    """
    import torch

    from venus_env.policies.hf import HFPolicy

    config = folder.config
    torch.set_num_threads(threads_per_process(config))
    path = folder.stage("eval") / f"{name}.json"
    key = fingerprint(
        policy_key, config.eval.model_dump(exclude={"stages"}), config.env.model_dump(mode="json"), config.run.seed
    )
    if path.exists() and (card := read_card(path)).notes.get("fingerprint") == key:
        return card
    sampling: dict[str, Any] = {
        "temperature": config.eval.temperature,
        "top_p": config.eval.top_p,
        "max_turn_tokens": config.env.answer_tokens,
    }
    device = device_of(config).kind
    model = HFPolicy(policy, **sampling, seed=config.run.seed, max_batch=config.rollout.max_batch, device=device)
    belief = open_belief("lexical", setting.corpus)
    logger.info("evaluating %s on %d %s questions", name, len(tasks), config.eval.split)
    trajectories = asyncio.run(
        evaluate(
            model,
            tasks,
            lambda task, seed: setting.session(task, seed, belief=belief),
            concurrency=config.rollout.max_batch,
            samples=config.eval.samples,
            seed=config.run.seed,
        )
    )
    write_text_atomic(
        path.with_name(f"{name}-trajectories.jsonl"),
        "".join(t.model_dump_json(by_alias=True) + "\n" for t in trajectories),
    )
    card = make_card(
        trajectories,
        policy={"checkpoint": name, **sampling},
        seed=config.run.seed,
        samples=config.eval.samples,
        corpus_hash=setting.corpus.content_hash,
        tools=setting.tools,
        config=config.env,
        rewards=config.env.rewards,
        baselines=_baselines(config, setting, model, tasks),
        notes={"fingerprint": key, "tasks": config.env.tasks, "split": config.eval.split},
    )
    write_card(card, path)
    return card


def _baselines(config: Config, setting: Setting, model: Any, tasks: list[Task]) -> dict[str, Estimate]:
    search = next(tool for tool in setting.tools if isinstance(tool, SearchTool))
    baselines = {"single_search": asyncio.run(single_search_score(search, tasks))}
    if config.eval.closed_book:
        closed_book = closed_book_score(model, tasks, setting.tools, config.env, seed=config.run.seed)
        baselines["closed_book"] = asyncio.run(closed_book)
    return baselines
