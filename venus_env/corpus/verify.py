"""Checking a whole index: the files against the manifest, and the parts of the index against one another."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from venus_env.corpus.build import COUNTS, indexed_text
from venus_env.corpus.errors import CorpusDamaged
from venus_env.corpus.local import LocalCorpus
from venus_env.corpus.manifest import Manifest, rebuild_hint
from venus_env.corpus.rows import stored_line
from venus_env.corpus.store import PassageStore
from venus_env.corpus.text import leading_words, words

_SAMPLES = 32
_QUERY_WORDS = 60
_DEPTH = 10


def verify_index(directory: str | Path) -> Manifest:
    """Re-hash every file of an index, and check that passages, lookup tables, word counts and rankings agree.

    Raises:
        CorpusError: There is no index.
        CorpusDamaged: Something differs; the message says what.
    """
    corpus = LocalCorpus(directory, full_check=True)
    manifest = corpus.manifest
    data = corpus.directory / manifest.data
    store = PassageStore(data)
    problems = [*_passages(store, manifest, data), *_rankings(corpus, store)]
    if problems:
        raise CorpusDamaged(f"{directory}: {'; '.join(problems)}; {rebuild_hint(Path(directory))}")
    return manifest


def _passages(store: PassageStore, manifest: Manifest, data: Path) -> list[str]:
    """Compare every passage with the tables that lead to it."""
    digest, counts, ids, pages = hashlib.sha256(), Counter[str](), set[bytes](), set[str]()
    problems = []
    for row, passage in enumerate(tqdm(store.passages(), total=len(store), desc="passages", disable=None)):
        digest.update(stored_line(passage))
        counts.update(words(indexed_text(passage)))
        ids.add(hashlib.blake2b(passage.id.encode(), digest_size=8).digest())
        if passage.url not in pages:
            pages.add(passage.url)
            page = store.page(passage.url)
            if page is None or page.passages[0] != passage:
                problems.append(f"row {row}: its page {passage.url} does not begin with it")
    expected = {
        "passages": (len(store), manifest.passages),
        "distinct ids": (len(ids), manifest.passages),
        "pages": (len(pages), manifest.pages),
        "content hash": (digest.hexdigest(), manifest.content_hash),
        "words": (counts.total(), manifest.words),
    }
    problems += [
        f"{name}: {found}, the manifest says {said}" for name, (found, said) in expected.items() if found != said
    ]
    if json.loads((data / COUNTS).read_text(encoding="utf-8")) != counts:
        problems.append(f"{COUNTS} does not count the words of the passages")
    return problems[:5]


def _rankings(corpus: LocalCorpus, store: PassageStore) -> list[str]:
    """Search for a sample of passages by their own words: an index of other passages does not find them."""
    step = max(len(store) // _SAMPLES, 1)
    sample = [store.passage(row) for row in range(0, len(store), step)][:_SAMPLES]
    queries = [leading_words(indexed_text(passage), _QUERY_WORDS) for passage in sample]
    lost = 0
    for passage, hits in zip(sample, corpus.search_now(queries, _DEPTH), strict=True):
        found = {hit.passage.url for hit in hits} | {hit.passage.text for hit in hits}
        lost += not found.intersection((passage.url, passage.text))
    # A passage that many others resemble can miss the first ten; a wrong index loses nearly all.
    return [f"{lost} of {len(sample)} passages are not found by their own words"] if 4 * lost > len(sample) else []
