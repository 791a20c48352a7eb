"""Building an index from a passage file: one builder at a time, and never a half-written index."""

from __future__ import annotations

import json
import logging
import secrets
import shutil
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from venus_env.corpus.dense import DenseWriter, encoder_name
from venus_env.corpus.errors import CorpusDamaged, CorpusError
from venus_env.corpus.lexical import LexicalWriter
from venus_env.corpus.manifest import MANIFEST, Manifest, check_files, describe_files, read_manifest
from venus_env.corpus.rows import file_sha256, read_passages
from venus_env.corpus.store import PassageStore, StoreWriter
from venus_env.corpus.text import stem, words

logger = logging.getLogger(__name__)

COUNTS = "words.json"
_LOCK = ".lock"
_DATA_PREFIX = "data-"


def build_index(source: str | Path, out: str | Path, *, force: bool = False) -> Manifest:
    """Build the index of a passage file, or keep the one that is there when nothing changed.

    Args:
        source: ``.jsonl`` or ``.jsonl.gz`` with rows of ``venus.passage/1``.
        out: Folder of the index; made if absent, replaced in one step if it holds an index.
        force: Build even if the index is current and sound.

    Raises:
        CorpusError: The source is not a passage file, or ``out`` holds something that is no index.
    """
    from filelock import FileLock

    source, out = Path(source), Path(out)
    if not source.is_file():
        raise CorpusError(f"{source}: no such file; give a .jsonl or .jsonl.gz file of passages")
    try:
        _claim(out)
        with FileLock(out / _LOCK):
            digest = file_sha256(source)
            current = None if force else _current(out, digest)
            if current is None:
                current = _build(source, digest, out)
            _sweep(out, keep=current.data)
    except OSError as error:
        raise CorpusError(f"{out}: cannot write the index here ({error}); choose another folder") from error
    return current


def _claim(out: Path) -> None:
    """Make the folder, or make sure that it is ours to write in."""
    out.mkdir(parents=True, exist_ok=True)
    names = {path.name for path in out.iterdir()}
    strangers = {name for name in names if name != MANIFEST and not name.startswith((".", _DATA_PREFIX))}
    if strangers and MANIFEST not in names:
        raise CorpusError(f"{out}: holds other files ({min(strangers)}) and no index; choose an empty folder")


def _current(out: Path, source_sha256: str) -> Manifest | None:
    """Give the manifest in place if it is sound and was made from this very source by this version."""
    if not (out / MANIFEST).exists():
        return None
    try:
        manifest = read_manifest(out)
        if manifest.source_sha256 != source_sha256 or manifest.encoder != encoder_name():
            return None
        check_files(out, manifest, full=True)
    except CorpusDamaged as error:
        logger.warning("rebuilding a damaged index: %s", error)
        return None
    return manifest


def _build(source: Path, source_sha256: str, out: Path) -> Manifest:
    data = out / f"{_DATA_PREFIX}{secrets.token_hex(6)}"
    data.mkdir()
    store, lexical, counts = StoreWriter(data), LexicalWriter(data), Counter[str]()
    # Nothing is drawn where stderr is no terminal.
    for passage in tqdm(read_passages(source), desc=f"{source.name}: words", unit="passage", disable=None):
        store.add(passage)
        found = words(indexed_text(passage.title, passage.text))
        counts.update(found)
        lexical.add(stem(found))
    content_hash = store.close()
    lexical.close()
    del lexical  # its token lists are the largest thing in memory
    (data / COUNTS).write_text(json.dumps(dict(sorted(counts.items())), ensure_ascii=False), encoding="utf-8")

    stored, dense = PassageStore(data), DenseWriter(data)
    for passage in tqdm(stored.passages(), desc=f"{source.name}: vectors", total=len(stored), disable=None):
        dense.add(indexed_text(passage.title, passage.text))
    dense.close()

    manifest = Manifest(
        content_hash=content_hash,
        source=source.name,
        source_sha256=source_sha256,
        encoder=encoder_name(),
        passages=len(stored),
        pages=store.pages,
        words=counts.total(),
        data=data.name,
        files=describe_files(data),
    )
    manifest.write(out)
    return manifest


def indexed_text(title: str, text: str) -> str:
    """Give the text by which a passage is found: the title of its page counts like the passage itself."""
    return f"{title}\n{text}"


def _sweep(out: Path, keep: str) -> None:
    """Remove what earlier or killed builds left; those who have an old index open keep their mapped files."""
    for path in out.iterdir():
        if path.is_dir() and path.name.startswith(_DATA_PREFIX) and path.name != keep:
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith(f".{MANIFEST}-"):
            path.unlink(missing_ok=True)
