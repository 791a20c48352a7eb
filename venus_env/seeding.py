"""One way to derive a seed from what identifies a random choice, so that a resumed run repeats the original."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: int | str) -> int:
    """Return a seed in [0, 2**31) that depends on every part and on nothing else.

    Unlike ``hash()``, the result is the same in every process and Python version; unlike sums, neighbouring parts give
    unrelated seeds.

    Args:
        *parts: For example run seed, step, task id, sample, turn.
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 33
