"""From a name, a file or a folder to an open corpus."""

from __future__ import annotations

import logging
import os
import threading
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from corpora import SHIPPED
from venus_env.corpus.build import build_index
from venus_env.corpus.document import Corpus
from venus_env.corpus.errors import CorpusDamaged, CorpusError
from venus_env.corpus.local import LocalCorpus
from venus_env.corpus.manifest import MANIFEST, SCHEMA, check_files, read_manifest
from venus_env.corpus.rows import SUFFIXES, file_sha256

logger = logging.getLogger(__name__)

_ROWS = (*SUFFIXES, ".parquet")

# Environments of one process share one open index per data folder.
_open: WeakValueDictionary[Path, LocalCorpus] = WeakValueDictionary()
_opening = threading.Lock()


def open_corpus(spec: str | Path | Corpus, cache_dir: str | Path | None = None) -> Corpus:
    """Open a corpus.

    Args:
        spec: ``"embedded"`` or ``"full"``, which ship with the package; a .jsonl, .jsonl.gz or .parquet file
            in any layout that can be told by its columns, indexed on first use in the cache folder under the hash of
            its bytes, so that a changed file is a new index; the folder of an index; or a corpus, which is returned as
            it is.
        cache_dir: Where indexes of files are kept, by default the user's cache folder.

    Raises:
        CorpusError: There is no such corpus, or its file holds no passages.
        CorpusDamaged: The index is damaged or stale. (Indexes in the cache folder are rebuilt instead.)
    """
    if not isinstance(spec, str | Path):
        if isinstance(spec, Corpus):
            return spec
        raise TypeError(f"open_corpus: expected a name, a path or a Corpus, got {type(spec).__name__}")
    return _open_local(str(spec), None if cache_dir is None else str(Path(cache_dir).absolute()))


def shipped_source(name: str, cache: Path) -> Path:
    """Give the passage file of a corpus that ships with the package.

    Where it comes in two files by licence, they are joined in the cache folder: gzip files one after the other are a
    gzip file.
    """
    parts = [SHIPPED[name] / "passages.jsonl.gz", SHIPPED[name] / "passages-sharealike.jsonl.gz"]
    if not parts[0].is_file():
        raise CorpusError(f"the {name} corpus is missing from this installation ({parts[0]}); reinstall the package")
    if not parts[1].is_file():
        return parts[0]
    digest = "".join(file_sha256(part)[:8] for part in parts)
    joined = cache / f"{name}-{digest}.jsonl.gz"
    if not joined.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = joined.with_name(f".{joined.name}-{os.getpid()}")
        unfinished.write_bytes(b"".join(part.read_bytes() for part in parts))
        unfinished.replace(joined)
    return joined


def _open_local(spec: str, cache_dir: str | None) -> LocalCorpus:
    # Absolute, so that a copy opens the same file whatever the working directory of its process is.
    path = shipped_source(spec, _cache(cache_dir)) if spec in SHIPPED else Path(spec).absolute()
    reopen = partial(_open_local, spec if spec in SHIPPED else str(path), cache_dir)
    if path.is_dir():
        return _shared(path, reopen)
    if not path.exists():
        raise CorpusError(
            f"{path}: no such corpus; give {' or '.join(map(repr, SHIPPED))}, a {' or '.join(_ROWS)} file, or the "
            "folder of an index"
        )
    if not path.name.endswith(_ROWS):
        raise CorpusError(
            f"{path}: a corpus file ends in {' or '.join(_ROWS)}; for anything else build an index and give its "
            f"folder: python -m venus_env corpus build {path} --out DIR"
        )
    # The layout of the index is part of the name: releases with different ones share the folder.
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    index = _cache(cache_dir) / f"{stem}-{file_sha256(path)[:16]}-v{SCHEMA.rpartition('/')[2]}"
    try:
        if (index / MANIFEST).exists():
            return _shared(index, reopen)
    except CorpusDamaged as error:
        logger.warning("rebuilding a cached index: %s", error)
    build_index(path, index)
    return _shared(index, reopen)


def _shared(directory: Path, reopen: partial[LocalCorpus]) -> LocalCorpus:
    with _opening:
        manifest = read_manifest(directory)
        corpus = _open.get(directory.resolve() / manifest.data)
        if corpus is not None:
            check_files(directory, manifest, full=False)
            return corpus
        corpus = LocalCorpus(directory, reopen=reopen)
        _open[corpus.directory / corpus.manifest.data] = corpus
        return corpus


def _cache(cache_dir: str | None) -> Path:
    if cache_dir is not None:
        return Path(cache_dir)
    import platformdirs

    return Path(platformdirs.user_cache_dir("venus-research")) / "corpora"
