"""A space of Unicode text: ``gymnasium.spaces.Text`` lists its characters one by one and so cannot hold prose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.spaces import Space

# Ranges to sample from: they need one, two, three and four bytes of UTF-8, and leave out the surrogates.
_RANGES = ((0x20, 0x7F), (0xA1, 0x250), (0x4E00, 0x9FA6), (0x1F300, 0x1F650))
_SAMPLE_LENGTH = 64


class UnicodeText(Space[str]):
    """All texts of ``min_length`` to ``max_length`` characters that UTF-8 can encode.

    A sample is a short random text of mixed scripts, the same for the same seed.

    Args:
        max_length: Largest length in characters.
        min_length: Smallest length in characters.
        seed: Seed of ``sample``.
    """

    def __init__(self, max_length: int, *, min_length: int = 0, seed: int | np.random.Generator | None = None) -> None:
        if not 0 <= min_length <= max_length:
            raise ValueError(f"UnicodeText: need 0 <= min_length <= max_length, got {min_length} and {max_length}")
        self.min_length = min_length
        self.max_length = max_length
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed length to flatten to."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Draw a text; masks and probabilities have no meaning here and are refused."""
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText.sample takes neither a mask nor probabilities")
        longest = min(self.max_length, max(self.min_length, _SAMPLE_LENGTH))
        length = int(self.np_random.integers(self.min_length, longest + 1))
        picks = self.np_random.integers(len(_RANGES), size=length)
        return "".join(chr(self.np_random.integers(*_RANGES[pick])) for pick in picks)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a text of this space; lone surrogates, which UTF-8 cannot encode, are not."""
        if not isinstance(x, str) or not self.min_length <= len(x) <= self.max_length:
            return False
        try:
            x.encode()
        except UnicodeEncodeError:
            return False
        return True

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Texts are their own JSON."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """Texts are their own JSON."""
        return [str(sample) for sample in sample_n]

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length}, min_length={self.min_length})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UnicodeText)
            and self.min_length == other.min_length
            and self.max_length == other.max_length
        )
