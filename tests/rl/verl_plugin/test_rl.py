from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hydra.core.global_hydra import GlobalHydra

from venus_env.tasks.task import Task
from venus_rl.verl_plugin.rl import verl_config, write_prompts

TASKS = [
    Task(id="a", question="Who?", answers=("Ann", "A. Mayor"), hops=2, source="world"),
    Task(id="b", question="Wo liegt “Köln”?", answers=("am Rhein",)),
]


def test_the_task_travels_with_its_prompt(tmp_path: Path) -> None:
    path = tmp_path / "prompts.parquet"
    write_prompts(TASKS, path)
    rows = pd.read_parquet(path).to_dict("records")
    assert [Task.model_validate_json(row["extra_info"]["task"]) for row in rows] == TASKS
    assert [row["extra_info"]["index"] for row in rows] == [0, 1]
    assert [row["prompt"][0] for row in rows] == [{"role": "user", "content": task.question} for task in TASKS]
    assert rows[0]["reward_model"]["ground_truth"] == "Ann<|answer_split|>A. Mayor"
    assert [row["data_source"] for row in rows] == ["world", "venus"]
    assert {row["agent_name"] for row in rows} == {"venus_research"}


def test_writing_again_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    for tasks in (TASKS, TASKS[:1]):
        write_prompts(tasks, tmp_path / "prompts.parquet")
    assert len(pd.read_parquet(tmp_path / "prompts.parquet")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["prompts.parquet"]


def test_options_override_and_extend_verls_configuration() -> None:
    config = verl_config("ppo_trainer", {"data.train_batch_size": 3, "data.not_in_verl": [1, 2]})
    assert config.data.train_batch_size == 3
    assert list(config.data.not_in_verl) == [1, 2]
    assert not GlobalHydra.instance().is_initialized()  # the next composition starts clean
    with pytest.raises(Exception, match="no_such_config"):
        verl_config("no_such_config", {})
