"""Tokenised trajectories as a torch dataset, in the shape that verl's SFT trainer takes.

Set ``data.custom_cls.path=pkg://venus_rl.sft.dataset data.custom_cls.name=RenderedConversations`` and give the trainer
files written by :func:`venus_rl.data.build.build_sft`. Ids and masks are used as they are: nothing is rendered or
truncated here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

_COLUMNS = ("input_ids", "loss_mask")


class RenderedConversations(Dataset[dict[str, torch.Tensor]]):
    """Rows ``input_ids, attention_mask, position_ids, loss_mask`` from parquet files.

    With ``pad_mode="no_padding"`` rows keep their length (and carry no ``attention_mask``, which nested tensors do not
    need); with ``"right"`` they are padded to ``max_length``.

    With ``rows`` the dataset has exactly that length, whatever the files hold: it goes through them as often as needed,
    in a new seeded order each time, so that one epoch of the trainer covers a whole run.

    Args:
        parquet_files: One file or several.
        tokenizer: Only its ``pad_token_id`` is used.
        config: The trainer's ``data`` section; read are ``pad_mode``, ``max_length``, ``rows`` and ``seed``.
        processor: Not used; the trainer passes it.
        max_samples: Keep only the first so many rows; all if not positive.

    Raises:
        ValueError: A file has other columns, or a trajectory is longer than ``max_length``.
    """

    def __init__(
        self,
        parquet_files: str | Path | Sequence[str | Path],
        tokenizer: Any,
        config: Mapping[str, Any] | None = None,
        processor: Any = None,
        max_samples: int = -1,
    ) -> None:
        config = config or {}
        self.pad_mode = str(config.get("pad_mode", "no_padding"))
        if self.pad_mode not in ("right", "no_padding"):
            raise ValueError(f"pad_mode {self.pad_mode!r} is not supported; use 'right' or 'no_padding'")
        limit = config.get("max_length")
        if limit is None and self.pad_mode == "right":
            raise ValueError("pad_mode 'right' needs max_length")
        self.max_length = None if limit is None else int(limit)
        pad = getattr(tokenizer, "pad_token_id", None)
        self.pad_token_id = 0 if pad is None else int(pad)
        files = [parquet_files] if isinstance(parquet_files, str | Path) else list(parquet_files)
        self._ids, self._mask, self._edges = _load([Path(file) for file in files], max_samples)
        lengths = np.diff(self._edges)
        if self.max_length is not None and len(lengths) and lengths.max() > self.max_length:
            raise ValueError(
                f"{int((lengths > self.max_length).sum())} of {len(lengths)} trajectories are longer than max_length="
                f"{self.max_length} (longest {lengths.max()}); build the file with max_tokens={self.max_length}"
            )

        rows = config.get("rows")
        self._order = _order(len(lengths), None if rows is None else int(rows), int(config.get("seed") or 0))

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        row = self._order[index]
        start, end = self._edges[row], self._edges[row + 1]
        input_ids = torch.from_numpy(self._ids[start:end].astype(np.int64))
        loss_mask = torch.from_numpy(self._mask[start:end].astype(np.int64))
        position_ids = torch.arange(len(input_ids))
        if self.pad_mode == "no_padding":
            return {"input_ids": input_ids, "position_ids": position_ids, "loss_mask": loss_mask}
        assert self.max_length is not None
        missing = self.max_length - len(input_ids)
        pad = torch.nn.functional.pad
        return {
            "input_ids": pad(input_ids, (0, missing), value=self.pad_token_id),
            "attention_mask": pad(torch.ones_like(input_ids), (0, missing)),
            "position_ids": pad(position_ids, (0, missing)),
            "loss_mask": pad(loss_mask, (0, missing)),
        }


def _order(count: int, rows: int | None, seed: int) -> np.ndarray[Any, Any]:
    """Which stored row stands at each index."""
    if rows is None:
        return np.arange(count)
    if count == 0:
        raise ValueError("the files hold no trajectories")
    passes = [np.random.default_rng([seed, number]).permutation(count) for number in range(-(-rows // count))]
    return np.concatenate(passes)[:rows] if passes else np.arange(0)


def _load(
    files: Sequence[Path], max_samples: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All ids and masks end to end, and the edges of the rows in them."""
    import pyarrow.parquet

    ids: list[np.ndarray[Any, Any]] = []
    masks: list[np.ndarray[Any, Any]] = []
    lengths: list[np.ndarray[Any, Any]] = []
    for file in files:
        names = pyarrow.parquet.read_schema(file).names
        missing = [column for column in _COLUMNS if column not in names]
        if missing:
            raise ValueError(f"{file}: no column {missing[0]!r} (columns: {', '.join(names)}); write it with build_sft")
        table = pyarrow.parquet.read_table(file, columns=list(_COLUMNS))
        if max_samples > 0:
            table = table.slice(0, max_samples - sum(len(part) for part in lengths))
        flat = [table.column(name).combine_chunks() for name in _COLUMNS]
        size = [array.value_lengths().to_numpy(zero_copy_only=False) for array in flat]
        for row in np.flatnonzero(size[0] != size[1])[:1]:
            raise ValueError(f"{file}, row {row + 1}: {size[0][row]} input_ids but {size[1][row]} loss_mask entries")
        ids.append(flat[0].flatten().to_numpy())
        masks.append(flat[1].flatten().to_numpy())
        lengths.append(size[0])
    if not lengths:
        raise ValueError("no parquet files given")
    return np.concatenate(ids), np.concatenate(masks), np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
