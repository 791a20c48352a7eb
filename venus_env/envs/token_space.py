"""A space of token sequences: arrays of ids whose length varies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

_SAMPLE_LENGTH = 64


class TokenIds(Space[NDArray[np.int64]]):
    """One-dimensional ``int64`` arrays of ``min_length`` to ``max_length`` ids in ``[0, vocab_size)``.

    A sample is a short random sequence, the same for the same seed. ``gymnasium.spaces.Sequence`` would check and
    copy each id as an object of its own; here 200,000 ids are checked at once.

    Args:
        vocab_size: Number of ids.
        max_length: Largest length.
        min_length: Smallest length.
        seed: Seed of ``sample``.
    """

    def __init__(
        self,
        vocab_size: int,
        max_length: int,
        *,
        min_length: int = 0,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        if vocab_size < 1:
            raise ValueError(f"TokenIds: vocab_size must be at least 1, got {vocab_size}")
        if not 0 <= min_length <= max_length:
            raise ValueError(f"TokenIds: need 0 <= min_length <= max_length, got {min_length} and {max_length}")
        self.vocab_size = vocab_size
        self.min_length = min_length
        self.max_length = max_length
        super().__init__(dtype=np.int64, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: a sequence has no fixed length to flatten to."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[np.int64]:
        """Draw a sequence; masks and probabilities have no meaning here and are refused."""
        if mask is not None or probability is not None:
            raise ValueError("TokenIds.sample takes neither a mask nor probabilities")
        longest = min(self.max_length, max(self.min_length, _SAMPLE_LENGTH))
        length = int(self.np_random.integers(self.min_length, longest + 1))
        return self.np_random.integers(self.vocab_size, size=length, dtype=np.int64)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an array of this space; a list of ids is not, nor is an array of another integer type."""
        if not isinstance(x, np.ndarray) or x.dtype != np.int64 or x.ndim != 1:
            return False
        if not self.min_length <= len(x) <= self.max_length:
            return False
        return len(x) == 0 or bool(x.min() >= 0 and x.max() < self.vocab_size)

    def to_jsonable(self, sample_n: Iterable[NDArray[np.int64]]) -> list[list[int]]:
        """Lists of ids."""
        return [sample.tolist() for sample in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[NDArray[np.int64]]:
        """Arrays of ids."""
        return [np.array(sample, dtype=np.int64) for sample in sample_n]

    def __repr__(self) -> str:
        return f"TokenIds({self.vocab_size}, {self.max_length}, min_length={self.min_length})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TokenIds)
            and self.vocab_size == other.vocab_size
            and self.min_length == other.min_length
            and self.max_length == other.max_length
        )
