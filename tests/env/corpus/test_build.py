from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from venus_env.corpus.build import build_index
from venus_env.corpus.errors import CorpusDamaged, CorpusError
from venus_env.corpus.local import LocalCorpus
from venus_env.corpus.manifest import MANIFEST, read_manifest


def test_counts_and_names(write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path) -> None:
    manifest = build_index(write(rows), tmp_path / "index")
    assert (manifest.passages, manifest.pages, manifest.source) == (5, 4, "pages.jsonl")
    assert read_manifest(tmp_path / "index") == manifest
    counts = LocalCorpus(tmp_path / "index").unigram_counts()
    assert counts["lyon"] == 4  # two titles, two texts
    assert counts["sao"] == 2
    assert sum(counts.values()) == manifest.words


def test_unchanged_source_is_not_built_again_and_changed_content_is(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "index"
    first = build_index(write(rows), out)
    assert build_index(write(rows), out) == first
    assert build_index(write(rows), out, force=True).data != first.data
    rows[1]["text"] = "Oslo has trams."
    changed = build_index(write(rows), out)
    assert changed.content_hash != first.content_hash
    assert [hit.passage.text for hit in LocalCorpus(out).search_now(["trams"], 1)[0]] == ["Oslo has trams."]
    assert [path.name for path in out.glob("data-*")] == [changed.data]


def test_damage_is_repaired_by_building(write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path) -> None:
    out = tmp_path / "index"
    first = build_index(write(rows), out)
    (out / first.data / "passages.jsonl").write_bytes(b"")
    again = build_index(write(rows), out)
    assert again.content_hash == first.content_hash
    assert len(LocalCorpus(out)) == 4


def test_failed_build_leaves_the_old_index(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "index"
    first = build_index(write(rows), out)
    rows[3]["text"] = ""
    with pytest.raises(CorpusError, match="line 4"):
        build_index(write(rows), out)
    assert LocalCorpus(out).content_hash == first.content_hash
    del rows[3]
    build_index(write(rows), out)
    assert len(list(out.glob("data-*"))) == 1  # what the failed build left is swept


def test_refuses_a_folder_with_other_things(write: Callable[..., Path], rows: list[dict[str, Any]]) -> None:
    source = write(rows)
    with pytest.raises(CorpusError, match="holds other files"):
        build_index(source, source.parent)
    with pytest.raises(CorpusError, match="no such file"):
        build_index(source.parent / "absent.jsonl", source.parent / "index")
    with pytest.raises(CorpusError, match="lies inside the input"):
        build_index(source.parent, source.parent / "index")
    with pytest.raises(CorpusError, match="cannot write"):
        build_index(source, source / "below-a-file")


def test_old_index_survives_a_killed_build(wiki7k: Path, wiki7k_index: Path, tmp_path: Path) -> None:
    out = tmp_path / "index"
    shutil.copytree(wiki7k_index, out)
    before = read_manifest(out)
    code = "import sys; from venus_env.corpus.build import build_index; build_index(*sys.argv[1:], force=True)"
    process = subprocess.Popen([sys.executable, "-c", code, str(wiki7k / "corpus.jsonl"), str(out)])
    deadline = time.monotonic() + 60
    while len(list(out.glob("data-*"))) < 2:  # the new data folder is there: the build is under way
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(list(out.glob("data-*"))) == 2
    assert read_manifest(out) == before
    assert LocalCorpus(out).content_hash == before.content_hash
    assert build_index(wiki7k / "corpus.jsonl", out) == before  # the lock died with its holder
    assert [path.name for path in out.glob("data-*")] == [before.data]


def test_two_builders_make_one_index(write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path) -> None:
    source, out = write(rows), tmp_path / "index"
    code = (
        "import sys; from venus_env.corpus.build import build_index; print(build_index(*sys.argv[1:]).data, flush=True)"
    )
    command = [sys.executable, "-c", code, str(source), str(out)]
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    names = {builder.communicate(timeout=60)[0].strip() for builder in builders}
    assert names == {read_manifest(out).data}


@pytest.mark.parametrize(
    ("lexical", "victim"),
    [
        ("bm25s", "passages.jsonl"),
        ("bm25s", "lexical/data.csc.index.npy"),
        ("bm25s", "dense.faiss"),
        ("bm25s", "words.json"),
        ("tantivy", "lexical/meta.json"),
        ("tantivy", "lexical/*.idx"),
    ],
)
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_any_damage_is_named(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path, lexical: str, victim: str, harm: str
) -> None:
    out = tmp_path / "index"
    (path,) = (out / build_index(write(rows), out, lexical=lexical).data).glob(victim)
    content = bytearray(path.read_bytes())
    if harm == "remove":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(content[:-1])
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    with pytest.raises(CorpusDamaged, match=rf"{path.name}.*build it again: python -m venus_env corpus build"):
        LocalCorpus(out)


def test_the_library_is_chosen_kept_and_changed(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write(rows), tmp_path / "index"
    small = build_index(source, out)
    assert small.lexical.startswith("bm25s ")
    chosen = build_index(source, out, lexical="tantivy")
    assert chosen.lexical.startswith("tantivy ")
    assert chosen.content_hash == small.content_hash
    assert build_index(source, out) == chosen  # auto keeps what is current
    assert build_index(source, out, force=True).lexical == small.lexical
    monkeypatch.setattr("venus_env.corpus.lexical.TANTIVY_PASSAGES", len(rows))
    assert build_index(source, out, force=True).lexical == chosen.lexical
    monkeypatch.setattr("venus_env.corpus.lexical.TANTIVY_PASSAGES", len(rows) + 1)
    assert build_index(source, out, force=True).lexical == small.lexical
    with pytest.raises(ValueError, match="expected one of auto, bm25s, tantivy, got 'lucene'"):
        build_index(source, out, lexical="lucene")


def test_bad_manifests_are_named(write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path) -> None:
    out = tmp_path / "index"
    build_index(write(rows), out)
    text = (out / MANIFEST).read_text()
    for found, expected in (
        (text[:40], "damaged"),
        (text.replace("venus.index/2", "venus.index/9"), r"index format 'venus.index/9', this version reads"),
        (text.replace("wordllama 0.4", "wordllama 0.1"), r"stale, built with encoder 'wordllama 0\.1"),
        (text.replace('"pages": 4', '"pages": "many"'), r"damaged \(pages"),
    ):
        (out / MANIFEST).write_text(found)
        with pytest.raises(CorpusDamaged, match=expected):
            LocalCorpus(out)
    (out / MANIFEST).unlink()
    with pytest.raises(CorpusError, match="no index here"):
        LocalCorpus(out)
