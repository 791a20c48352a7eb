from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import torch

from venus_rl.sft.dataset import RenderedConversations

TOKENIZER = SimpleNamespace(pad_token_id=9)
ROWS = [
    {"input_ids": [1, 2, 3], "loss_mask": [0, 1, 1]},
    {"input_ids": [4, 5, 6, 7, 8], "loss_mask": [0, 0, 1, 0, 1]},
    {"input_ids": [2], "loss_mask": [1]},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "a.parquet", row_group_size=2)
    return tmp_path / "a.parquet"


def test_rows_come_back_unpadded(file: Path) -> None:
    dataset = RenderedConversations(str(file), TOKENIZER, {"pad_mode": "no_padding", "max_length": 5})
    assert len(dataset) == 3
    for index, row in enumerate(ROWS):
        item = dataset[index]
        assert set(item) == {"input_ids", "position_ids", "loss_mask"}
        assert all(tensor.dtype == torch.long for tensor in item.values())
        assert item["input_ids"].tolist() == row["input_ids"]
        assert item["loss_mask"].tolist() == row["loss_mask"]
        assert item["position_ids"].tolist() == list(range(len(row["input_ids"])))


def test_rows_are_padded_on_the_right(file: Path) -> None:
    item = RenderedConversations([file], TOKENIZER, {"pad_mode": "right", "max_length": 5})[0]
    assert {key: tensor.tolist() for key, tensor in item.items()} == {
        "input_ids": [1, 2, 3, 9, 9],
        "attention_mask": [1, 1, 1, 0, 0],
        "position_ids": [0, 1, 2, 0, 0],
        "loss_mask": [0, 1, 1, 0, 0],
    }


def test_several_files_and_a_limit(file: Path) -> None:
    assert len(RenderedConversations([file, file], TOKENIZER)) == 6
    limited = RenderedConversations([file, file], TOKENIZER, max_samples=4)
    assert [item["input_ids"].tolist() for item in (limited[i] for i in range(4))] == [
        *(row["input_ids"] for row in ROWS),
        ROWS[0]["input_ids"],
    ]


def test_rows_sets_the_length_by_seeded_passes_over_the_files(file: Path) -> None:
    def order(seed: int) -> list[int]:
        dataset = RenderedConversations(file, TOKENIZER, {"rows": 11, "seed": seed})
        return [int(dataset[i]["input_ids"][0]) for i in range(len(dataset))]

    first = order(1)
    assert len(first) == 11
    for start in (0, 3, 6):
        assert sorted(first[start : start + 3]) == [1, 2, 4]
    assert max(Counter(first[9:]).values()) == 1
    assert order(1) == first
    assert any(order(seed) != first for seed in (2, 3, 4))
    assert len(RenderedConversations(file, TOKENIZER, {"rows": 2})) == 2


def test_errors_name_the_fix(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"1 of 3 trajectories are longer than max_length=4 .longest 5.*max_tokens=4"):
        RenderedConversations(file, TOKENIZER, {"max_length": 4})
    with pytest.raises(ValueError, match="pad_mode 'left'"):
        RenderedConversations(file, TOKENIZER, {"pad_mode": "left"})
    with pytest.raises(ValueError, match="needs max_length"):
        RenderedConversations(file, TOKENIZER, {"pad_mode": "right"})
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"messages": "x"}]), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet: no column 'input_ids' \(columns: messages\)"):
        RenderedConversations(tmp_path / "b.parquet", TOKENIZER)
    broken = pyarrow.Table.from_pylist([{"input_ids": [1, 2], "loss_mask": [1]}])
    pyarrow.parquet.write_table(broken, tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="row 1: 2 input_ids but 1 loss_mask"):
        RenderedConversations(tmp_path / "c.parquet", TOKENIZER)


@pytest.mark.slow
def test_verls_trainer_builds_and_collates_it(file: Path) -> None:
    pytest.importorskip("verl")
    from omegaconf import OmegaConf
    from verl.trainer.sft_trainer import create_sft_dataset
    from verl.utils.dataset.dataset_utils import SFTTensorCollator

    config: Any = OmegaConf.create(
        {
            "custom_cls": {"path": "pkg://venus_rl.sft.dataset", "name": "RenderedConversations"},
            "pad_mode": "no_padding",
            "max_length": 5,
        }
    )
    dataset = create_sft_dataset([str(file)], config, TOKENIZER, None)
    batch = SFTTensorCollator("no_padding")([dataset[0], dataset[1]])
    assert [t.tolist() for t in batch["input_ids"].unbind()] == [ROWS[0]["input_ids"], ROWS[1]["input_ids"]]
    assert [t.tolist() for t in batch["loss_mask"].unbind()] == [ROWS[0]["loss_mask"], ROWS[1]["loss_mask"]]
    config.pad_mode = "right"
    padded = create_sft_dataset(OmegaConf.create([str(file)]), config, TOKENIZER, None)
    batch = SFTTensorCollator("right")([padded[0], padded[2]])
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (2, 5)
