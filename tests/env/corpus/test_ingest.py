from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.env.corpus.loaders.samples import HTML, pdf
from venus_env.corpus import LocalCorpus, ingest
from venus_env.corpus.build import DUPLICATES, SKIPPED, build_index
from venus_env.corpus.errors import CorpusError
from venus_env.corpus.ingest import BuildOptions
from venus_env.corpus.loaders import files, jsonl, plan_input
from venus_env.corpus.verify import verify_index


def numbered(count: int) -> list[dict[str, Any]]:
    return [
        {"id": f"d{n}", "url": f"https://x/{n}", "title": f"Page {n}", "text": f"Text number {n} of all."}
        for n in range(count)
    ]


def report(out: Path, name: str) -> list[dict[str, Any]]:
    (path,) = out.glob(f"data-*/{name}")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_row_without_a_field_is_named_or_skipped(write: Callable[..., Path], tmp_path: Path) -> None:
    rows = numbered(60)
    del rows[36]["title"]
    source = write(rows)
    with source.open("ab") as file:
        file.write(b'{"id": "cut\n\xff\xfe{}\n')
    with pytest.raises(CorpusError, match=r"pages\.jsonl, line 37: 'title' must be a non-blank string, got None"):
        build_index(source, tmp_path / "index")
    manifest = build_index(source, tmp_path / "index", options=BuildOptions(on_error="skip"))
    assert (manifest.documents, manifest.skipped) == (59, 3)
    skipped = report(tmp_path / "index", SKIPPED)
    assert [(row["file"], row["line"]) for row in skipped] == [("pages.jsonl", n) for n in (37, 61, 62)]
    assert [row["reason"].split(" (")[0] for row in skipped[1:]] == ["not JSON", "not UTF-8"]


def test_line_numbers_hold_across_chunks_and_ids_across_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl.line_chunks, "__defaults__", (200,))
    folder = tmp_path / "rows"
    folder.mkdir()
    for name, rows in (("a.jsonl", numbered(40)), ("b.jsonl", [*numbered(41)[40:], {"id": "x"}, *numbered(1)])):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = build_index(folder, tmp_path / "index", options=BuildOptions(on_error="skip"))
    assert manifest.passages == 41
    skipped = report(tmp_path / "index", SKIPPED)
    assert [(row["file"], row["line"]) for row in skipped] == [("b.jsonl", 2), ("b.jsonl", 3)]
    assert "id 'd0' was used before" in skipped[1]["reason"]


def test_any_number_of_workers_makes_the_same_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_CHUNK_FILES", 3)
    folder = tmp_path / "docs"
    folder.mkdir()
    for n in range(10):
        (folder / f"{n}.html").write_text(HTML.replace("Lyon", f"Town {n}"))
        (folder / f"{n}.pdf").write_bytes(pdf(f"Report {n}", "Second page"))
        (folder / f"{n}.txt").write_text(f"Note {n}. " * 400)
    (folder / "empty.md").touch()
    made = []
    for workers in (1, 2):
        out = tmp_path / f"index{workers}"
        manifest = build_index(folder, out, options=BuildOptions(on_error="skip"), workers=workers)
        made.append(manifest.model_dump(exclude={"data"}))
        assert report(out, SKIPPED) == [{"file": "empty.md", "line": None, "reason": "empty file"}]
    assert made[0] == made[1]
    assert made[0]["documents"] == 30
    corpus = LocalCorpus(tmp_path / "index2")
    assert [passage.id for passage in corpus.passages()][:4] == ["0.html#0", "0.html#1", "0.html#2", "0.pdf#0"]
    assert verify_index(tmp_path / "index2").pages == 30
    for path in (tmp_path / "index2").rglob("*"):
        assert not path.is_file() or str(tmp_path).encode() not in path.read_bytes(), path


def test_an_interrupted_build_resumes(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl.line_chunks, "__defaults__", (500,))
    made: list[str] = []
    real = ingest._write_shard

    def interrupted(chunk: Any, path: Path, words: int | None) -> None:
        if len(made) == 5:
            raise KeyboardInterrupt
        made.append(path.name)
        real(chunk, path, words)

    out, source, rows = tmp_path / "index", write(numbered(60)), numbered(60)
    expected = build_index(source, tmp_path / "at once").content_hash
    monkeypatch.setattr(ingest, "_write_shard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_index(source, out)
    assert sorted(path.name for path in (out / ".staging").iterdir()) == sorted(made)
    first, made[:] = list(made), []
    monkeypatch.setattr(ingest, "_write_shard", lambda *args: (made.append(args[1].name), real(*args)))
    assert build_index(source, out).content_hash == expected
    assert made
    assert not set(first) & set(made)
    assert not (out / ".staging").exists()
    # A changed row makes its own chunk anew and no other.
    rows[59]["title"] = ""
    with pytest.raises(CorpusError, match="line 60"):
        build_index(write(rows), out)
    made.clear()
    rows[59]["title"] = "Repaired"
    build_index(write(rows), out)
    assert len(made) == 1


@pytest.mark.slow
def test_killed_workers_leave_no_process_and_a_build_that_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for n in range(200):
        (folder / f"{n}.html").write_text(HTML.replace("Lyon", f"Town {n}"))
    code = (
        "import sys\nfrom venus_env.corpus.build import build_index\n"
        "if __name__ == '__main__': build_index(*sys.argv[1:], workers=2)"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(script), str(folder), str(tmp_path / "index")]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    deadline = time.monotonic() + 90
    while not list(tmp_path.glob("index/.staging/*.jsonl")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = len(list(tmp_path.glob("index/.staging/*.jsonl")))
    assert kept >= 1
    while _alive(process.pid):  # the workers see that their parent is gone
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert build_index(folder, tmp_path / "index").documents == 200


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("policy", "passages"), [("keep", 4), ("drop", 2)])
def test_duplicates_are_reported_and_dropped_by_choice(
    write: Callable[..., Path], tmp_path: Path, policy: Any, passages: int
) -> None:
    rows = numbered(4)
    rows[0]["text"] = " ".join(f"word{n}" for n in range(200))
    rows[1]["text"] = rows[0]["text"].upper() + "!"
    rows[3]["text"] = rows[0]["text"].replace("word199", "other")
    out = tmp_path / "index"
    manifest = build_index(write(rows), out, options=BuildOptions(duplicates=policy))
    assert (manifest.passages, manifest.duplicates) == (passages, 2)
    exact, near = report(out, DUPLICATES)
    assert exact == {"id": "d1", "of": "d0", "kind": "exact", "similarity": 1.0}
    assert (near["id"], near["of"], near["kind"]) == ("d3", "d0", "near")
    assert LocalCorpus(out).unigram_counts().get("word5", 0) == passages - 1
    verify_index(out)
    with pytest.raises(CorpusError, match=r"line 2: 'd1' repeats 'd0'; 2 duplicates in all"):
        build_index(write(rows), out, options=BuildOptions(duplicates="fail"))


def test_options_decide_whether_an_index_is_current(write: Callable[..., Path], tmp_path: Path) -> None:
    source, out = write([{**row, "text": "word " * 50} for row in numbered(3)]), tmp_path / "index"
    whole = build_index(source, out)
    assert whole.options == BuildOptions(format="passages")
    assert build_index(source, out, options=BuildOptions(format="passages")).data == whole.data
    split = build_index(source, out, options=BuildOptions(words=20))
    assert (whole.passages, split.passages, split.documents) == (3, 9, 3)
    for wrong in ({"words": 0}, {"url_base": "file:///x"}, {"on_error": "ignore"}):
        with pytest.raises(ValidationError):
            BuildOptions(**wrong)


def test_a_source_that_changes_meanwhile_is_refused(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(numbered(3))
    real = ingest._write_shard
    monkeypatch.setattr(ingest, "_write_shard", lambda *args: (real(*args), source.write_text("{}\n")))
    with pytest.raises(CorpusError, match=r"pages\.jsonl: changed while it was being read"):
        build_index(source, tmp_path / "index")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"{}\n"])
def test_an_empty_corpus_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match="holds no passage"):
        build_index(path, tmp_path / "index", options=BuildOptions(on_error="skip", format="passages"))
    with pytest.raises(CorpusError):
        build_index(path, tmp_path / "index")


def test_a_row_of_20_megabytes_is_one_chunk(tmp_path: Path) -> None:
    rows = [*numbered(2), {**numbered(3)[2], "text": "word " * 4_000_000}, *numbered(4)[3:]]
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (chunk, last) = plan_input(path).chunks("https://x/")
    assert [found.document.id for found in chunk.documents()] == ["d0", "d1", "d2"]  # type: ignore[union-attr]
    assert (last.first, [found.line for found in last.documents()]) == (3, [1])


@pytest.mark.slow
def test_a_document_of_20_megabytes_is_split_and_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    sentence = "The river {} carries silk to the port and comes back with salt. "
    text = "".join(sentence.format(n) for n in range(20_000_000 // len(sentence)))
    (tmp_path / "docs/long.txt").write_text(text)
    (tmp_path / "docs/short.txt").write_text("A needle lies in the haystack.")
    manifest = build_index(tmp_path / "docs", tmp_path / "index", options=BuildOptions(words=1000))
    assert (manifest.documents, manifest.pages) == (2, 2)
    assert manifest.passages > 3000
    corpus = LocalCorpus(tmp_path / "index")
    assert max(len(passage.text.split()) for passage in corpus.passages()) <= 1000
    assert corpus.search_now(["needle"], 3)[0][0].passage.id == "short.txt#0"
    assert "river 77777 " in corpus.search_now(["river 77777"], 3)[0][0].passage.text
