"""Pages that a query names: those whose whole title stands in it, word by word."""

from __future__ import annotations

import numpy as np

from venus_env.corpus.lexical import LexicalIndex
from venus_env.corpus.store import PassageStore
from venus_env.corpus.text import content_words, stem, words

# Longer titles are looked for only where they are the whole query; names far down a text are not what is asked for.
_TITLE_WORDS = 12
_QUERY_WORDS = 200


def named_pages(query: str, store: PassageStore, lexical: LexicalIndex) -> dict[int, float]:
    """Find the pages that a query names.

    Returns:
        Page number to the share of the query that its title makes up, in (0, 1]: the rarity of the title's topic words
        over that of the query's. A title that stands only inside a longer one (``York`` in ``New York``) does not
        count.
    """
    asked = words(query)
    topic = frozenset(content_words(asked))
    # A word's share of the whole, zero for function words.
    weights = np.where([word in topic for word in asked], lexical.rarity(stem(asked)), 0.0)
    total = float(weights.sum())
    if total <= 0:
        return {}
    spans = _spans(len(asked))
    found: dict[int, float] = {}
    taken: list[tuple[int, int]] = []
    for (start, end), pages in zip(spans, store.titled_any([asked[start:end] for start, end in spans]), strict=True):
        if not pages or any(first <= start and end <= last for first, last in taken):
            continue
        taken.append((start, end))
        share = float(weights[start:end].sum()) / total
        if share > 0:
            for page in pages:
                found[page] = max(share, found.get(page, 0.0))
    return found


def _spans(length: int) -> list[tuple[int, int]]:
    """Places of word sequences in a query, the longest first."""
    near = min(length, _QUERY_WORDS)
    spans = [
        (start, start + size) for size in range(min(near, _TITLE_WORDS), 0, -1) for start in range(near - size + 1)
    ]
    return spans if (0, length) in spans[:1] else [(0, length), *spans]
