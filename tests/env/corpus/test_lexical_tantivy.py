from __future__ import annotations

import json
import math
import random
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest
import tantivy

from venus_env.corpus.lexical_tantivy import TantivyIndex, TantivyWriter

HEAP = 15_000_000  # the least that the library takes: many rows then come to lie in several segments


def build(folder: Path, rows: Iterable[list[str]]) -> TantivyIndex:
    writer = TantivyWriter(folder, heap_bytes=HEAP)
    for row in rows:
        writer.add(row)
    writer.close()
    return TantivyIndex(folder)


def test_scores_are_those_computed_by_hand(tmp_path: Path) -> None:
    build(tmp_path / "lexical", [["cat", "dog"], ["cat", "cat", "bird", "bird"], ["fish"]])
    index = tantivy.Index.open(str(tmp_path / "lexical"))
    query = tantivy.Query.term_query(index.schema, "terms", "cat", index_option="freq")
    # tf (k1 + 1) / (tf + k1 (1 - b + b dl / avgdl)) with the library's fixed k1 1.2 and b 0.75.
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    expected = [idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / (7 / 3))) for tf, length in ((2, 4), (1, 2))]
    assert [score for score, _ in index.searcher().search(query).hits] == pytest.approx(expected, rel=1e-5)


def test_segments_do_not_show(tmp_path: Path) -> None:
    rng = random.Random(0)
    vocabulary = [f"word{number}" for number in range(300)]
    rows = [
        # A long word of its own per row fills the heap soon.
        ["tie", "tie", "same"] if row % 100 == 0 else [*rng.choices(vocabulary, k=6), str(row).zfill(2000)]
        for row in range(9_000)
    ]
    found = []
    for name in ("one", "two"):
        index = build(tmp_path / name, rows)
        assert index._searcher.num_segments > 1
        found.append([index.rank_terms(terms, 50).tolist() for terms in (["tie", "same"], vocabulary[:20])])
        assert index.rank_terms(["tie", "same", "same"], 30).tolist() == list(range(0, 3000, 100))
    assert found[0] == found[1]


def test_opening_leaves_the_folder_alone(tmp_path: Path) -> None:
    folder = tmp_path / "lexical"
    build(folder, [["cat"]])
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    (folder / ".tantivy-meta.lock").mkdir()  # as good as a folder where nobody may write: the lock cannot be taken
    with pytest.raises(ValueError, match="Failed to acquire Lockfile"):
        tantivy.Index.open(str(folder))
    (folder / ".tantivy-meta.lock").rmdir()
    assert TantivyIndex(folder).rank_terms(["cat"], 1).tolist() == [0]
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_an_open_index_outlives_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "lexical"
    index = build(folder, [["cat"], ["dog"]])
    shutil.rmtree(folder)
    assert index.rank_terms(["dog"], 1).tolist() == [1]
    assert index.rarity(["dog"]).tolist() == index.rarity(["cat"]).tolist()


def test_files_are_complete_and_readable_by_others(tmp_path: Path) -> None:
    folder = tmp_path / "lexical"
    build(folder, [["cat"], ["dog"]])
    assert not list(folder.glob("*.lock"))
    segments = json.loads((folder / "meta.json").read_text())["segments"]
    named = {segment["segment_id"].replace("-", "") for segment in segments}
    assert {path.stem for path in folder.iterdir() if path.suffix and path.suffix != ".json"} == named
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {stat.S_IMODE(folder.stat().st_mode) & 0o666}


def test_damage_is_an_os_error(tmp_path: Path) -> None:
    folder = tmp_path / "lexical"
    build(folder, [["cat"]])
    (victim,) = folder.glob("*.idx")
    victim.write_bytes(b"x")
    with pytest.raises(OSError, match="File corrupted"):
        TantivyIndex(folder)
    with pytest.raises(OSError, match="No such file"):
        TantivyIndex(tmp_path / "absent")


def test_a_writer_that_cannot_write_is_an_os_error(tmp_path: Path) -> None:
    writer = TantivyWriter(tmp_path / "lexical", heap_bytes=HEAP)
    writer.add(["cat"])
    (tmp_path / "lexical").rename(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="lexical: "):
        writer.close()
