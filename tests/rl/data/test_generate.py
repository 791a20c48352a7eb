from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from venus_env.setting import EnvConfig, Setting
from venus_env.tasks.task import Task
from venus_rl.data.build import build_sft
from venus_rl.data.generate import TRAJECTORIES_FILE, OracleMix, record_oracle
from venus_rl.data.normalise import ReadReport, read_conversations


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting.open(EnvConfig(prompt="compact", tool_style="compact", current_date=None))


@pytest.fixture(scope="module")
def tasks(setting: Setting) -> list[Task]:
    return setting.tasks("train")[:12]


def conversations(path: Path) -> list[Any]:
    return list(read_conversations([path / TRAJECTORIES_FILE], ReadReport()))


def test_correct_episodes_are_recorded_and_become_training_rows(
    setting: Setting, tasks: list[Task], tmp_path: Path, chatml_tokenizer: Any
) -> None:
    recorded = record_oracle(setting, tasks, tmp_path, episodes=20, seed=3, progress=False)
    report = recorded.report
    assert report["kept"] >= 19
    assert report["kept"] + sum(report["dropped"].values()) == report["episodes"] == 20
    rows = conversations(recorded.path)
    assert len(rows) == report["kept"]
    played = Counter(row.question for row in rows)
    assert set(played.values()) <= {1, 2}  # 20 episodes are one pass over 12 tasks and 8 of the next
    for row in rows:
        assert row.messages[-1]["content"].endswith(f"<answer>{row.answers[0]}</answer>")
    built = build_sft([recorded.path / TRAJECTORIES_FILE], chatml_tokenizer, tmp_path, max_tokens=4000, progress=False)
    assert built.report["kept"] == report["kept"]


def test_the_result_depends_on_the_seed_only_and_is_reused(setting: Setting, tasks: list[Task], tmp_path: Path) -> None:
    def run(folder: str, seed: int) -> tuple[bytes, bool]:
        made = record_oracle(setting, tasks[:4], tmp_path / folder, recover=0.5, seed=seed, progress=False)
        return (made.path / TRAJECTORIES_FILE).read_bytes(), made.reused

    first = run("a", 1)
    assert run("a", 1) == (first[0], True)
    assert run("b", 1) == (first[0], False)
    assert run("a", 2)[0] != first[0]


def test_the_share_of_detours(setting: Setting, tasks: list[Task], tmp_path: Path) -> None:
    def visits_beyond_the_path(recover: float) -> int:
        made = record_oracle(setting, tasks, tmp_path, recover=recover, progress=False)
        extra = 0
        for row in conversations(made.path):
            task = next(task for task in tasks if task.question == row.question)
            calls = [m["content"] for m in row.messages if m["role"] == "assistant" and '"visit"' in m["content"]]
            extra += not all(any(step.url in call for step in task.evidence) for call in calls)
        return extra

    assert visits_beyond_the_path(0.0) == 0
    assert visits_beyond_the_path(1.0) >= len(tasks) // 2


def test_wrong_episodes_are_counted_and_none_left_is_an_error(
    setting: Setting, tasks: list[Task], tmp_path: Path
) -> None:
    unanswerable = [
        task.model_copy(update={"id": f"no-{task.id}", "answers": ("qqq",), "evidence": ()}) for task in tasks[:2]
    ]
    made = record_oracle(setting, [*tasks[:2], *unanswerable], tmp_path, progress=False)
    assert made.report["dropped"] == {"wrong_answer": 2}
    with pytest.raises(ValueError, match=r"none of 2 episodes correctly: \{'wrong_answer': 2\}"):
        record_oracle(setting, unanswerable, tmp_path, progress=False)
    with pytest.raises(ValueError, match="share"):
        OracleMix(1.5, 0)
