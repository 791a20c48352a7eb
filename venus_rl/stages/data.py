"""Stage ``data``: conversations for SFT, from oracle episodes and from trajectory files, rendered to tokens."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from venus_env.protocol.prompt import system_prompt
from venus_env.setting import Setting
from venus_rl.config import Config, ConfigError
from venus_rl.data.build import SFT_FILE, build_sft
from venus_rl.data.generate import TRAJECTORIES_FILE, record_oracle
from venus_rl.data.options import CleanConfig
from venus_rl.data.pipeline import CLEAN_FILE, PAGE_FILE, clean
from venus_rl.data.sources import find_files
from venus_rl.run_folder import RunFolder
from venus_rl.stages.prepare import model_window, select_tasks

logger = logging.getLogger(__name__)

DEFAULT_ORACLE = 4000


@dataclass(frozen=True)
class TrainData:
    """Rendered conversations.

    Attributes:
        file: Parquet with ``input_ids`` and ``loss_mask``.
        rows: Number of conversations.
        longest: Tokens of the longest one.
        fingerprint: Changes with anything that the conversations depend on.
    """

    file: Path
    rows: int
    longest: int
    fingerprint: str


def run(folder: RunFolder, setting: Setting, model: Path) -> TrainData:
    """Record, read and render; work that an earlier run with the same inputs did is reused.

    Raises:
        ConfigError: Nothing to learn from; names ``sft.data`` or ``data.oracle``.
    """
    from transformers import AutoTokenizer

    config = folder.config
    out = folder.stage("data")
    sources: list[str | Path] = []
    episodes = oracle_episodes(config)
    tasks = select_tasks(setting, "train", config.data.hops, "data.hops") if episodes else []
    try:
        if episodes:
            recorded = record_oracle(
                setting, tasks, out, episodes=episodes, recover=config.data.recover, seed=config.run.seed
            )
            logger.info("oracle: kept %(kept)s of %(episodes)s episodes, dropped %(dropped)s", recorded.report)
            sources.append(recorded.path / TRAJECTORIES_FILE)
        if config.sft.data:
            sources.append(config.sft.data)
        prompt = system_prompt(setting.tools, config.env.prompt, config.env.current_date)
        if config.data.clean is not None:
            sources = [_cleaned(sources, config.data.clean, out, prompt)]
        window = model_window(model)
        limit = min(config.sft.max_tokens or window, window)
        built = build_sft(sources, AutoTokenizer.from_pretrained(model), out, max_tokens=limit, prompt=prompt)
    except (OSError, ValueError) as error:
        raise ConfigError(f"sft.data={config.sft.data}, data.oracle={episodes}: {error}") from error
    report = built.report
    logger.info(
        "sft: %s of %s conversations, %s tokens (longest %d), dropped %s",
        *(report["kept"], report["rows"], report["total_tokens"], report["tokens"]["max"], report["dropped"] or "none"),
    )
    return TrainData(built.path / SFT_FILE, int(report["kept"]), int(report["tokens"]["max"]), built.path.name)


def _cleaned(sources: list[str | Path], config: CleanConfig, out: Path, prompt: str) -> Path:
    """Take conversations through the cleaning pipeline.

    Raises:
        ValueError: None is left.
    """
    made = clean(sources, config, out, prompt=prompt)
    rows = made.report["rows"]
    if not rows["written"]:
        raise ValueError(f"data.clean leaves none of {rows['read']} rows: {made.report['rejected']}; see {made.path}")
    logger.info(
        "clean: kept %(kept)s of %(read)s conversations, wrote %(written)s; report in %(path)s",
        {**rows, "path": made.path / PAGE_FILE},
    )
    return made.path / CLEAN_FILE


def check_sources(config: Config) -> None:
    """Stop on conversations that are not there.

    Raises:
        ConfigError: ``sft.data`` matches no file, or there is no source at all.
    """
    if not config.sft.enabled or config.stage not in ("data", "sft", "all"):
        return
    try:
        if config.sft.data:
            find_files([config.sft.data])
    except OSError as error:
        raise ConfigError(f"sft.data={error}") from error
    if not config.sft.data and not oracle_episodes(config):
        raise ConfigError(
            "data.oracle=0 and no sft.data leave nothing to learn from: give one of them, or set sft.enabled=false"
        )


def oracle_episodes(config: Config) -> int:
    """Number of oracle episodes to record: ``data.oracle``, or the default where no ``sft.data`` is given."""
    if config.data.oracle is not None:
        return config.data.oracle
    return 0 if config.sft.data else DEFAULT_ORACLE
