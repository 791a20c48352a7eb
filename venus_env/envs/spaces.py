"""A space of Unicode text: ``gymnasium.spaces.Text`` lists its characters one by one and so cannot hold prose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import Text
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector.utils import batch_differing_spaces, create_shared_memory

# Ranges to sample from: they need one, two, three and four bytes of UTF-8, and leave out the surrogates.
_RANGES = ((0x20, 0x7F), (0xA1, 0x250), (0x4E00, 0x9FA6), (0x1F300, 0x1F650))
_SAMPLE_LENGTH = 64


class UnicodeText(Text):
    """All texts of ``min_length`` to ``max_length`` characters that UTF-8 can encode.

    A sample is a short random text of mixed scripts, the same for the same seed.

    Libraries that know spaces by their type (TorchRL, say) treat it as the ``Text`` that it is, but it has no list of
    characters: the inherited ``character_set`` holds only the blank with which Gymnasium fills empty batches. Having no
    fixed length, a text flattens to itself. Vector environments cannot share memory for it, as each copy would take
    ``max_length`` characters: make them with ``shared_memory=False``.

    Args:
        max_length: Largest length in characters.
        min_length: Smallest length in characters.
        seed: Seed of ``sample``.
    """

    def __init__(self, max_length: int, *, min_length: int = 0, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=min_length, charset=" ", seed=seed)

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


# What Gymnasium does with a Text needs the list of its characters and room for max_length of them.


def _no_fixed_length(space: UnicodeText) -> Any:
    raise ValueError(f"{space} cannot be flattened to an array, as its texts have no fixed length")


def _no_shared_memory(space: UnicodeText, n: int = 1, ctx: Any = None) -> Any:
    raise CustomSpaceError(f"{space} has no shared memory; make the vector environment with shared_memory=False")


flatdim.register(UnicodeText, _no_fixed_length)
flatten_space.register(UnicodeText, lambda space: space)
flatten.register(UnicodeText, lambda space, text: text)
unflatten.register(UnicodeText, lambda space, text: text)
create_shared_memory.register(UnicodeText, _no_shared_memory)
batch_differing_spaces.register(UnicodeText, batch_differing_spaces.dispatch(Text))  # looked up by the exact type
