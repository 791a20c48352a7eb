from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from venus_env.corpus import Corpus, CorpusDamaged, CorpusError, LocalCorpus, open_corpus
from venus_env.corpus.build import build_index


def local(corpus: Corpus) -> LocalCorpus:
    assert isinstance(corpus, LocalCorpus)
    return corpus


def test_file_is_indexed_once_and_again_when_it_changes(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    first = local(open_corpus(write(rows), cache))
    assert open_corpus(write(rows), cache) is first
    rows[1]["text"] = "Oslo has trams."
    second = local(open_corpus(str(write(rows)), cache))
    assert second.content_hash != first.content_hash
    assert second.search_now(["trams"], 1)[0][0].passage.id == "oslo"
    assert len(list(cache.iterdir())) == 2


def test_damaged_cache_is_rebuilt_and_damaged_folder_is_refused(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, cache = write(rows), tmp_path / "cache"
    directory = local(open_corpus(source, cache)).directory
    next(directory.glob("data-*/words.json")).write_text("{}")
    with pytest.raises(CorpusDamaged):
        open_corpus(directory)
    assert local(open_corpus(source, cache)).unigram_counts()["lyon"] == 4
    assert "rebuilding a cached index" in caplog.text


def test_corpora_pass_through_and_everything_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such corpus; give 'embedded' or 'full'"):
        open_corpus("nowhere")
    with pytest.raises(CorpusError, match="no index here"):
        open_corpus(tmp_path)
    with pytest.raises(TypeError, match="got int"):
        open_corpus(3)  # type: ignore[arg-type]
    text = tmp_path / "notes.txt"
    text.write_text("x")
    with pytest.raises(CorpusError, match="ends in"):
        open_corpus(text, tmp_path / "cache")


def test_copies_reopen(write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path) -> None:
    corpus = local(open_corpus(write(rows), tmp_path / "cache"))
    assert open_corpus(corpus) is corpus
    assert copy.deepcopy(corpus) is corpus
    frozen = pickle.dumps(corpus)
    assert len(frozen) < 1000
    assert pickle.loads(frozen) is corpus
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).search_now(['radium'], 1)[0][0].passage.id)"
    elsewhere = subprocess.run(
        [sys.executable, "-c", code], input=frozen, capture_output=True, check=True, cwd=tmp_path, timeout=60
    )
    assert elsewhere.stdout.decode().strip() == "curie"


def test_copy_of_a_changed_corpus_is_refused(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    build_index(write(rows), tmp_path / "index")
    frozen = pickle.dumps(LocalCorpus(tmp_path / "index"))
    rows[1]["text"] = "Oslo has trams."
    build_index(write(rows), tmp_path / "index")
    with pytest.raises(CorpusDamaged, match="changed since this copy was pickled"):
        pickle.loads(frozen)


def test_import_stays_light() -> None:
    code = (
        "import sys, venus_env.corpus, venus_env.tools, venus_env.corpus.cli\n"
        "heavy = {'torch', 'transformers', 'verl', 'ray', 'faiss', 'bm25s', 'omegaconf', 'wordllama', 'tokenizers'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=60)
    assert output.stdout.strip() == "[]"
