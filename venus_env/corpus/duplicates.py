"""Finding documents that say the same: word for word, or nearly.

Two texts are exact duplicates if their words agree (:func:`venus_env.corpus.text.words`: case, accents and punctuation
do not count). Near duplicates share at least ``NEAR`` of their five-word sequences (Jaccard), as estimated by MinHash:
64 minima of one byte each (Li and König 2010), so an estimate near .8 is good to about ±.05. Candidates are found by
banding. A document costs 136 bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from venus_env.corpus.text import words

NEAR = 0.8
_SHINGLE = 5
_MIN_WORDS = 20  # five-word sequences of shorter texts are too few to judge by
_HASHES = 64
_BANDS = 16  # of four minima each: a pair with a likeness of .8 is missed once in five thousand times
_BLOCK = 8192

_rng = np.random.Generator(np.random.PCG64(20_240_801))
_FACTORS = _rng.integers(1, 2**63, _HASHES, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_OFFSETS = _rng.integers(0, 2**63, _HASHES, dtype=np.uint64)
_PLACES = _rng.integers(1, 2**63, _SHINGLE, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


@dataclass(frozen=True, slots=True)
class Sketches:
    """Fingerprints of many documents, one row each.

    Attributes:
        exact: Hash of the words, shape (n,).
        minima: Low bytes of the MinHash minima, shape (n, 64).
        bands: Hashes of four full minima each, shape (n, 16); 0 for documents that are too short to compare.
    """

    exact: npt.NDArray[np.uint64]
    minima: npt.NDArray[np.uint8]
    bands: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.exact)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A document that repeats an earlier one.

    Attributes:
        number: Which document.
        of: The earlier one; itself not a duplicate.
        kind: ``exact`` or ``near``.
        similarity: Estimated Jaccard index of their five-word sequences.
    """

    number: int
    of: int
    kind: Literal["exact", "near"]
    similarity: float


def sketch(texts: Iterable[str]) -> Sketches:
    """Fingerprint texts."""
    exact, minima, bands = [], [], []
    for text in texts:
        found = words(text)
        content = " ".join(found) or text.strip()  # emoji only: no words, yet not all the same
        exact.append(int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "little"))
        lowest = _minima(found)
        minima.append((lowest & np.uint64(0xFF)).astype(np.uint8))
        bands.append(_band_keys(lowest) if len(found) >= _MIN_WORDS else np.zeros(_BANDS, dtype=np.uint32))
    return Sketches(
        np.asarray(exact, dtype=np.uint64),
        np.asarray(minima, dtype=np.uint8).reshape(-1, _HASHES),
        np.asarray(bands, dtype=np.uint32).reshape(-1, _BANDS),
    )


def join_sketches(parts: list[Sketches]) -> Sketches:
    """Put sketches one behind the other."""
    return Sketches(
        np.concatenate([part.exact for part in parts]),
        np.concatenate([part.minima for part in parts]),
        np.concatenate([part.bands for part in parts]),
    )


def find_duplicates(sketches: Sketches, near: float = NEAR) -> list[Duplicate]:
    """Find the documents that repeat an earlier one, in order; the first of a group is the original."""
    columns: list[npt.NDArray[Any]] = [sketches.exact, *(sketches.bands[:, band] for band in range(_BANDS))]
    occurs_again = np.zeros(len(sketches), dtype=bool)
    for column in columns:
        _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
        occurs_again |= (counts > 1)[inverse] & (column != 0)
    duplicates = []
    exact: dict[int, int] = {}
    by_band: dict[tuple[int, int], int] = {}
    for number in np.flatnonzero(occurs_again).tolist():
        original = exact.setdefault(int(sketches.exact[number]), number)
        if original != number:
            duplicates.append(Duplicate(number, original, "exact", 1.0))
            continue
        keys = [(band, key) for band, key in enumerate(sketches.bands[number].tolist()) if key]
        candidates = sorted({by_band[key] for key in keys if key in by_band})
        likeness = [_similarity(sketches.minima[number], sketches.minima[other]) for other in candidates]
        if likeness and max(likeness) >= near:
            best = int(np.argmax(likeness))
            duplicates.append(Duplicate(number, candidates[best], "near", round(likeness[best], 3)))
            continue
        for key in keys:
            by_band.setdefault(key, number)
    return duplicates


def _minima(found: list[str]) -> npt.NDArray[np.uint64]:
    """Smallest value of each of 64 hash functions over the five-word sequences of a text."""
    hashes = np.fromiter((zlib.crc32(word.encode()) for word in found), dtype=np.uint64, count=len(found))
    lowest = np.full(_HASHES, np.iinfo(np.uint64).max, dtype=np.uint64)
    count = max(len(found) - _SHINGLE + 1, 0)
    shingles = np.zeros(count, dtype=np.uint64)
    for place, factor in enumerate(_PLACES):
        shingles += hashes[place : place + count] * factor
    shingles ^= shingles >> np.uint64(29)
    for start in range(0, count, _BLOCK):
        values = shingles[start : start + _BLOCK, None] * _FACTORS + _OFFSETS
        lowest = np.minimum(lowest, (values >> np.uint64(24)).min(axis=0))
    return lowest


def _band_keys(lowest: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    mixed = (lowest.reshape(_BANDS, -1) * _FACTORS[: _HASHES // _BANDS]).sum(axis=1, dtype=np.uint64)
    keys: npt.NDArray[np.uint32] = (mixed >> np.uint64(32)).astype(np.uint32)
    keys[keys == 0] = 1  # 0 stands for: not compared
    return keys


def _similarity(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> float:
    agreeing = float((one == other).mean())
    chance = 1 / 256  # how often the bytes of different minima agree
    return max(0.0, (agreeing - chance) / (1 - chance))
