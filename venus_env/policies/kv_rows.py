"""Key-value memory for batched generation: rows that grow in place, and a store of prefixes worth keeping.

A row holds the keys and values of one sequence, token t in column t, so positions need no padding arithmetic and rows
of different length live side by side. Finished rows are swapped out without touching the others.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Ids = NDArray[np.int64]

_COLUMN_STEP = 256  # columns are added in blocks, so that growth (a copy of everything) is rare
_MIN_SHARED = 16  # shorter shared prefixes are not worth the copy


class KVRows:
    """A stand-in for ``transformers``' cache object over a block of contiguous rows.

    Before a forward pass, :meth:`aim` says which rows and columns it writes; the model then calls :meth:`update` per
    layer. The last column is scratch: padding tokens write there and nobody reads it.

    Args:
        max_rows: Most rows that will ever be reserved.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []
        self._rows = 0
        self._columns = 0
        self._start = self._count = self._width = 0
        self._row_index: torch.Tensor | None = None
        self._positions: torch.Tensor | None = None

    def reserve(self, rows: int, columns: int) -> None:
        """Make room for ``rows`` rows of ``columns`` tokens each, keeping what is there."""
        columns += 1  # scratch
        if rows <= self._rows and columns <= self._columns:
            return
        if rows > self._rows:
            self._rows = max(rows, min(2 * self._rows, self._max_rows))
        if columns > self._columns:
            self._columns = -(-columns // _COLUMN_STEP) * _COLUMN_STEP
        self._keys = [self._grown(tensor) for tensor in self._keys]
        self._values = [self._grown(tensor) for tensor in self._values]

    def _grown(self, old: torch.Tensor) -> torch.Tensor:
        # Zeros, not empty memory: a masked column still takes part as 0 x value, and 0 x NaN is NaN.
        new = old.new_zeros((self._rows, old.shape[1], self._columns, old.shape[3]))
        new[: old.shape[0], :, : old.shape[2]] = old
        return new

    @property
    def scratch(self) -> int:
        """The column for padding tokens."""
        return self._columns - 1

    def aim(self, start: int, positions: torch.Tensor, width: int) -> None:
        """Point the next forward pass at rows ``start..`` and columns ``positions``.

        Args:
            start: First row.
            positions: Column of each input token, shape (rows, tokens).
            width: How many leading columns attention may see.
        """
        import torch

        self._start, self._count, self._width = start, positions.shape[0], width
        self._row_index = torch.arange(start, start + self._count, device=positions.device)[:, None]
        self._positions = positions

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Called by the attention layers: write the new keys and values, return all visible ones."""
        while layer >= len(self._keys):
            shape = (self._rows, keys.shape[1], self._columns, keys.shape[3])
            self._keys.append(keys.new_zeros(shape))
            self._values.append(values.new_zeros(shape))
        rows = slice(self._start, self._start + self._count)
        # Index tensors around a slice put their dimensions first: the target is (rows, tokens, heads, head size).
        self._keys[layer][self._row_index, :, self._positions] = keys.transpose(1, 2)
        self._values[layer][self._row_index, :, self._positions] = values.transpose(1, 2)
        return self._keys[layer][rows, :, : self._width], self._values[layer][rows, :, : self._width]

    def get_seq_length(self, layer: int = 0) -> int:
        """Part of the cache protocol; positions are always passed explicitly, so this is only a hint."""
        return self._width

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` tokens of one row over another."""
        for tensor in (*self._keys, *self._values):
            tensor[target, :, :length] = tensor[source, :, :length]

    def take(self, row: int, length: int) -> list[torch.Tensor]:
        """A copy of the first ``length`` tokens of a row, for the prefix store."""
        return [tensor[row, :, :length].clone() for tensor in (*self._keys, *self._values)]

    def put(self, row: int, saved: list[torch.Tensor], length: int) -> None:
        """Write the first ``length`` tokens of a saved row into a row."""
        half = len(saved) // 2
        if not self._keys:  # a fresh pool learns its shapes from what it is given
            for store, part in ((self._keys, saved[:half]), (self._values, saved[half:])):
                store.extend(t.new_zeros((self._rows, t.shape[0], self._columns, t.shape[2])) for t in part)
        for tensor, old in zip((*self._keys, *self._values), saved, strict=True):
            tensor[row, :, :length] = old[:, :length]


class PrefixStore:
    """Finished sequences by recency; a conversation's next turn starts from where its last one ended.

    Args:
        budget_bytes: Least recently used entries go when the total exceeds this; 0 keeps nothing.
    """

    def __init__(self, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._bytes = 0
        self._entries: OrderedDict[int, tuple[Ids, list[torch.Tensor], int]] = OrderedDict()
        self._next_key = 0

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forget everything (the weights changed)."""
        self._entries.clear()
        self._bytes = 0

    def find(self, ids: Ids) -> tuple[int, list[torch.Tensor]]:
        """Longest stored prefix of ``ids`` that leaves at least one token to compute: its length, and its tensors."""
        best, best_key = 0, -1
        for key, (known, _, _) in self._entries.items():
            length = shared_length(known, ids)
            if length > best:
                best, best_key = length, key
        if best_key < 0:
            return 0, []
        self._entries.move_to_end(best_key)
        return best, self._entries[best_key][1]

    def add(self, ids: Ids, tensors: list[torch.Tensor]) -> None:
        """Keep a finished sequence in place of those that it extends."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if size > self._budget:
            return
        for key, (known, _, _) in list(self._entries.items()):
            if len(known) <= len(ids) and np.array_equal(known, ids[: len(known)]):
                self._drop(key)
        self._entries[self._next_key] = (ids, tensors, size)
        self._next_key += 1
        self._bytes += size
        while self._bytes > self._budget:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: int) -> None:
        self._bytes -= self._entries.pop(key)[2]


def shared_length(known: Ids, ids: Ids) -> int:
    """Length of the common prefix, at most ``len(ids) - 1``; 0 if too short to be worth reusing."""
    limit = min(len(known), len(ids) - 1)
    if limit < _MIN_SHARED or known[_MIN_SHARED - 1] != ids[_MIN_SHARED - 1]:
        return 0
    differs = known[:limit] != ids[:limit]
    length = int(differs.argmax()) if differs.any() else limit
    return length if length >= _MIN_SHARED else 0
