from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from venus_env.corpus.errors import CorpusError
from venus_env.corpus.loaders import plan_input
from venus_env.corpus.loaders.document import BadInput, Document
from venus_env.corpus.loaders.jsonl import line_chunks
from venus_env.corpus.loaders.plan import Plan
from venus_env.corpus.loaders.source import hash_files


def documents(plan: Plan) -> list[Document | BadInput]:
    return [found.document for chunk in plan.chunks("https://x/") for found in chunk.documents()]


def ids(plan: Plan) -> list[str]:
    return [found.id if isinstance(found, Document) else str(found) for found in documents(plan)]


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_folder_of_documents(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    for name in ("b.md", "a/deep/x.txt", "a/page.HTML", "pic.png", "a/.hidden.txt", ".git/c.txt", "c d.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("Some text.")
    (root / "a/deep/loop").symlink_to(root, target_is_directory=True)
    (root / "linked.txt").symlink_to(root / "b.md")
    (root / "broken.txt").symlink_to(root / "absent")
    plan = plan_input(root)
    assert (plan.format, plan.name) == ("files", "docs")
    assert [file.name for file in plan.files] == [
        "a/deep/x.txt",
        "a/page.HTML",
        "b.md",
        "broken.txt",
        "c d.txt",
        "linked.txt",
    ]
    assert plan.ignored == {".png": 1}
    assert ids(plan)[3] == "cannot be read (No such file or directory)"
    (tmp_path / "moved").mkdir()
    os.rename(root, tmp_path / "moved" / "docs")
    (tmp_path / "moved/docs/linked.txt").unlink()
    (tmp_path / "moved/docs/linked.txt").symlink_to("b.md")
    assert plan_input(tmp_path / "moved" / "docs").digest == plan.digest  # nothing of the machine's paths is in it


def test_rows_in_folders(tmp_path: Path) -> None:
    beir = tmp_path / "beir"
    lines(beir / "corpus.jsonl", {"_id": "1", "text": "one"})
    lines(beir / "queries.jsonl", {"_id": "q", "text": "who"})
    (beir / "qrels").mkdir()
    (beir / "qrels/test.tsv").write_text("q\t1\t1\n")
    plan = plan_input(beir)
    assert (plan.format, ids(plan)) == ("beir", ["1"])

    wiki = tmp_path / "wiki"
    for name, id in (("AB/wiki_00", "2"), ("AA/wiki_00", "1")):
        lines(wiki / name, {"id": id, "revid": "1", "url": f"https://x/{id}", "title": "T", "text": "T\n\nText."})
    plan = plan_input(wiki)
    assert (plan.format, ids(plan)) == ("wikipedia", ["1", "2"])


def test_parquet_row_groups(tmp_path: Path) -> None:
    rows = [{"docid": str(n), "text": f"text {n}" if n != 4 else None, "url": f"https://x/{n}"} for n in range(7)]
    path = tmp_path / "corpus.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=3)
    plan = plan_input(path)
    assert plan.format == "browsecomp-plus"
    chunks = list(plan.chunks("https://x/"))
    assert [chunk.first for chunk in chunks] == [0, 3, 6]
    assert len({chunk.fingerprint() for chunk in chunks}) == 3
    assert ids(plan)[:4] == ["0", "1", "2", "3"]
    assert "'text' must be" in ids(plan)[4]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorpusError, match=r"corpus\.parquet: not a readable parquet file"):
        plan_input(path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("size", [1, 30, 100, 10_000])
def test_chunks_cover_all_lines_once(tmp_path: Path, packed: bool, size: int) -> None:
    rows = [{"_id": str(n), "text": "é" * n} for n in range(30)]
    text = "\ufeff" + "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)  # blank lines, no final newline
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    (file,) = hash_files([(path.name, path)])
    places = []
    for chunk in line_chunks(file, "beir", "https://x/", size):
        for found in chunk.documents():
            assert found.line is not None
            assert isinstance(found.document, Document) or found.document.args == ("holds no text",)
            places.append(chunk.first + found.line)
    assert places == list(range(1, 60, 2))


def test_a_file_that_breaks_off_is_reported_where_it_breaks(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    rows = "".join(json.dumps({"_id": str(n), "text": os.urandom(40).hex()}) + "\n" for n in range(2000))
    path.write_bytes(gzip.compress(rows.encode())[:-1000])
    (file,) = hash_files([(path.name, path)])
    *chunks, last = line_chunks(file, "beir", "https://x/", 10_000)
    (found,) = last.documents()
    assert isinstance(found.document, BadInput)
    assert "cannot be read from about here on" in str(found.document)
    assert sum(1 for chunk in chunks for _ in chunk.documents()) == last.first > 1000


def test_what_cannot_be_told_is_refused(tmp_path: Path, write: Callable[..., Path]) -> None:
    with pytest.raises(CorpusError, match="no such file or folder"):
        plan_input(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="nothing to read"):
        plan_input(tmp_path / "empty")
    with pytest.raises(CorpusError, match=r"rows with body, name are of no layout .* give the format: passages"):
        plan_input(lines(tmp_path / "odd.jsonl", {"name": "x", "body": "y"}))
    with pytest.raises(CorpusError, match="no format 'csv'"):
        plan_input(tmp_path, "csv")
    mixed = tmp_path / "mixed"
    lines(mixed / "rows.jsonl", {"_id": "1", "text": "x"})
    (mixed / "a.txt").write_text("x")
    with pytest.raises(CorpusError, match=r"holds documents \(a.txt\) and rows \(rows.jsonl\)"):
        plan_input(mixed)
    assert [file.name for file in plan_input(mixed, "files").files] == ["a.txt"]
    assert [file.name for file in plan_input(mixed, "beir").files] == ["rows.jsonl"]
