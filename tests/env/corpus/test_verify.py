from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from venus_env.corpus.build import build_index
from venus_env.corpus.errors import CorpusDamaged, CorpusError
from venus_env.corpus.manifest import describe_files, read_manifest
from venus_env.corpus.verify import verify_index


def resealed(index: Path) -> None:
    """Give the files as they are now a manifest that fits them, as a faulty builder would."""
    manifest = read_manifest(index)
    manifest.model_copy(update={"files": describe_files(index / manifest.data)}).write(index)


def test_a_sound_index_passes_and_damage_is_named(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    index = tmp_path / "index"
    manifest = build_index(write(rows), index)
    assert verify_index(index) == manifest
    (index / manifest.data / "words.json").write_text("{}")
    with pytest.raises(CorpusDamaged, match=r"words\.json: 2 bytes instead of"):
        verify_index(index)
    resealed(index)
    with pytest.raises(CorpusDamaged, match=r"words\.json does not count the words of the passages"):
        verify_index(index)
    with pytest.raises(CorpusError, match="no index here"):
        verify_index(tmp_path)


def test_rankings_of_other_passages_are_noticed(write: Callable[..., Path], tmp_path: Path) -> None:
    def index(name: str, places: range) -> Path:
        rows = [
            {"id": str(n), "url": f"https://x/{name}{n}", "title": f"Town {place}", "text": f"All about town {place}."}
            for n, place in enumerate(places)
        ]
        build_index(write(rows, f"{name}.jsonl"), tmp_path / name)
        return tmp_path / name

    one, other = index("one", range(40)), index("other", range(40, 80))
    data, foreign = (next(path.glob("data-*")) for path in (one, other))
    for path in foreign.iterdir():
        if not path.name.endswith((".jsonl", ".json")) and path.suffix != ".npy":
            shutil.rmtree(data / path.name) if path.is_dir() else (data / path.name).unlink()
            (shutil.copytree if path.is_dir() else shutil.copy)(path, data / path.name)
    for name in ("title_keys.npy", "title_pages.npy"):
        shutil.copy(foreign / name, data / name)
    resealed(one)
    with pytest.raises(CorpusDamaged, match="passages are not found by their own words"):
        verify_index(one)


def test_wrong_counts_in_the_manifest_are_named(
    write: Callable[..., Path], rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    build_index(write(rows), tmp_path / "index")
    path = tmp_path / "index" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pages": 3, "content_hash": "0" * 64}))
    with pytest.raises(CorpusDamaged, match=r"pages: 4, the manifest says 3; content hash: .* says 0000"):
        verify_index(tmp_path / "index")
