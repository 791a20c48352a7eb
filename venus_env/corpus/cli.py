"""``python -m venus_env corpus …``: build an index, measure it, look into it."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from venus_env.commands.arguments import add_parser, positive
from venus_env.commands.errors import named_errors
from venus_env.corpus.build import DUPLICATES, SKIPPED, build_index
from venus_env.corpus.coverage import measure_coverage
from venus_env.corpus.encoders import WORDLLAMA
from venus_env.corpus.errors import CorpusError
from venus_env.corpus.ingest import BuildOptions
from venus_env.corpus.lexical import AUTO, LEXICAL, TANTIVY_PASSAGES
from venus_env.corpus.loaders import FORMATS, URL_BASE
from venus_env.corpus.manifest import Manifest, read_manifest
from venus_env.corpus.open import open_corpus
from venus_env.corpus.recall import measure_recall
from venus_env.corpus.split import DEFAULT_WORDS
from venus_env.corpus.text import leading_words
from venus_env.corpus.verify import verify_index
from venus_env.corpus.workers import usable_cores
from venus_env.tasks.world.cli import add_generate_parser

_EXAMPLES = """examples:
  python -m venus_env corpus build pages.jsonl.gz --out indexes/pages
  python -m venus_env corpus coverage --corpus indexes/pages --tasks questions.jsonl
  python -m venus_env corpus recall --corpus indexes/pages --tasks questions.jsonl --k 2,5,10 --json
  python -m venus_env corpus search indexes/pages "capital of the country where the river rises"
  python -m venus_env corpus verify indexes/pages
"""
_BUILD_EXAMPLES = """\
An input is a file of rows, a document, or a folder of either:
  rows       .jsonl, .jsonl.gz, .parquet. The layout is told by the keys of the first row:
             passages         id, url, title, text (optional section, date, source); one row a passage
             wikipedia        title, text (WikiExtractor, with revid) or extract; also --format wikipedia for other
                              files with whole articles
             beir             _id, title, text; or the folder with corpus.jsonl
             browsecomp-plus  docid, text, url
             pyserini         id, contents
  documents  .html .htm .xhtml .md .markdown .pdf .txt .text, in folders of any depth; needs the extra:
             pip install "venus-research[corpus]"

An interrupted build resumes where it was when the same command is given again.

examples:
  python -m venus_env corpus build passages.jsonl --out index
  python -m venus_env corpus build handbook/ --out index --url-base https://example.org/handbook/
  python -m venus_env corpus build beir/scifact --out index --on-error skip --duplicates drop
  python -m venus_env corpus build articles.parquet --format wikipedia --words 150 --workers 8 --out index
"""
_COVERAGE_EXAMPLES = """\
A question is reachable if every page of its evidence is in the corpus and among the first K results of the question
itself or of an oracle query (the title; title and relation), and an accepted answer stands on one of these pages. It is
unknown if the task names no evidence.

examples:
  python -m venus_env corpus coverage --corpus index --tasks questions.jsonl --split train
  python -m venus_env corpus coverage --corpus index --tasks questions.jsonl --json coverage.json \\
      --write-tasks reachable.jsonl
"""
_CORPUS_HELP = "folder of an index, a .jsonl, .jsonl.gz or .parquet file, 'embedded' or 'full'"
_TASKS_HELP = "'embedded', 'full' or a task file (.jsonl, .jsonl.gz, .parquet)"


def add_corpus_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``corpus`` to a command line; the chosen command stands in ``args.run``, which gives the exit status."""
    parser = add_parser(
        subparsers,
        "corpus",
        help="build, measure and search corpora",
        description="Build, measure and search corpora.",
        examples=_EXAMPLES,
    )
    commands = parser.add_subparsers(dest="corpus_command", required=True, metavar="COMMAND")
    _add_build(commands)
    _add_coverage(commands)

    recall = commands.add_parser("recall", help="share of evidence pages among the first k results of a question")
    recall.add_argument("--corpus", required=True, metavar="CORPUS", help=_CORPUS_HELP)
    recall.add_argument("--tasks", required=True, metavar="FILE", help="tasks with evidence or supporting_titles")
    recall.add_argument("--split", help="only tasks of this split")
    recall.add_argument("--k", type=_ks, default=(2, 5, 10), metavar="K,K", help="cut-offs (default 2,5,10)")
    recall.add_argument("--json", action="store_true", help="print the result as JSON")
    recall.set_defaults(run=_recall)

    search = commands.add_parser("search", help="search a corpus once")
    search.add_argument("corpus", metavar="CORPUS", help=_CORPUS_HELP)
    search.add_argument("query", metavar="QUERY")
    search.add_argument("--k", type=positive, default=5, metavar="K", help="number of results (default 5)")
    search.add_argument("--json", action="store_true", help="print the results as JSON lines")
    search.set_defaults(run=_search)

    info = commands.add_parser("info", help="show what an index holds and how it was made")
    info.add_argument("index", metavar="DIR", help="folder of an index")
    info.add_argument("--json", action="store_true", help="print the manifest as JSON")
    info.set_defaults(run=_info)

    verify = commands.add_parser("verify", help="re-hash an index and check that its parts agree")
    verify.add_argument("index", metavar="DIR", help="folder of an index")
    verify.set_defaults(run=_verify)

    add_generate_parser(commands)


def _add_build(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    build = add_parser(
        commands,
        "build",
        help="index rows or documents; does nothing when the index is current",
        description="Build the index of an input. Does nothing when the index is current.",
        examples=_BUILD_EXAMPLES,
    )
    build.add_argument("source", metavar="INPUT", help="file or folder, see below")
    build.add_argument("--out", required=True, metavar="DIR", help="folder of the index")
    build.add_argument("--format", choices=FORMATS, default="auto", help="layout of the input (default auto)")
    build.add_argument(
        "--words",
        type=int,
        metavar="N",
        help=f"split documents into passages of at most N words (default {DEFAULT_WORDS}; passages stay as they are)",
    )
    build.add_argument(
        "--url-base",
        default=URL_BASE,
        metavar="URL",
        help=f"address under which documents without a url are found (default {URL_BASE})",
    )
    build.add_argument(
        "--on-error",
        choices=("fail", "skip"),
        default="fail",
        help="at a bad row or file: stop and name it, or leave it out and report it (default fail)",
    )
    build.add_argument(
        "--duplicates",
        choices=("keep", "drop", "fail"),
        default="keep",
        help="documents that repeat an earlier one, exactly or nearly: keep and report (default), drop, or stop",
    )
    build.add_argument(
        "--workers", type=positive, default=usable_cores(), metavar="N", help="processes (default: all cores)"
    )
    build.add_argument(
        "--encoder",
        default=WORDLLAMA,
        metavar="MODEL",
        help="vectors: wordllama (default), minilm, or folder or name of a sentence-embedding model; add [onnx] to run "
        "its ONNX file",
    )
    build.add_argument(
        "--lexical",
        choices=LEXICAL,
        default=AUTO,
        help='library of the word index: bm25s, tantivy (small memory; pip install "venus-research[tantivy]"), or auto '
        f"(default): tantivy from {TANTIVY_PASSAGES:,} passages on",
    )
    build.add_argument("--force", action="store_true", help="build even if the index is current")
    build.add_argument("--json", action="store_true", help="print the manifest as JSON")
    build.set_defaults(run=_build)


def _add_coverage(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    coverage = add_parser(
        commands,
        "coverage",
        help="which questions can be answered from a corpus",
        description="Tell which questions can be answered from a corpus.",
        examples=_COVERAGE_EXAMPLES,
    )
    coverage.add_argument("--corpus", required=True, metavar="CORPUS", help=_CORPUS_HELP)
    coverage.add_argument("--tasks", required=True, metavar="FILE", help=_TASKS_HELP)
    coverage.add_argument("--split", help="only tasks of this split")
    coverage.add_argument("--k", type=positive, default=10, metavar="K", help="results per query (default 10)")
    coverage.add_argument("--json", metavar="OUT", help="write every question's coverage to this file ('-': print it)")
    coverage.add_argument("--write-tasks", metavar="OUT", help="write the reachable tasks to this .jsonl file")
    coverage.set_defaults(run=_coverage)


def _ks(text: str) -> tuple[int, ...]:
    try:
        ks = tuple(int(part) for part in text.split(","))
    except ValueError:
        ks = ()
    if not ks or min(ks) < 1:
        raise argparse.ArgumentTypeError(f"expected positive numbers joined by commas, such as 2,5,10; got {text!r}")
    return ks


@named_errors()
def _build(args: argparse.Namespace) -> int:
    options = BuildOptions(
        format=args.format,
        words=args.words,
        url_base=args.url_base,
        on_error=args.on_error,
        duplicates=args.duplicates,
    )
    try:
        manifest = build_index(
            args.source,
            args.out,
            options=options,
            encoder=args.encoder,
            lexical=args.lexical,
            workers=args.workers,
            force=args.force,
        )
    except KeyboardInterrupt:
        print(f"{args.out}: interrupted; the same command resumes the build", file=sys.stderr)
        raise
    if args.json:
        print(manifest.model_dump_json(by_alias=True))
        return 0
    print(
        f"{args.out}: {manifest.passages} passages on {manifest.pages} pages, {_megabytes(manifest):.1f} MB, "
        f"content {manifest.content_hash[:12]}"
    )
    for line in _left_out(Path(args.out), manifest):
        print(line)
    return 0


def _megabytes(manifest: Manifest) -> float:
    return sum(record.bytes for record in manifest.files.values()) / 1e6


def _left_out(directory: Path, manifest: Manifest) -> list[str]:
    """Say what was left out of an index, and where the list is."""
    lines = []
    if manifest.skipped:
        lines.append(f"{manifest.skipped} bad rows or files left out: {directory / manifest.data / SKIPPED}")
    if manifest.duplicates:
        fate = "dropped" if manifest.options.duplicates == "drop" else "kept"
        lines.append(f"{manifest.duplicates} duplicates {fate}: {directory / manifest.data / DUPLICATES}")
    return lines


@named_errors()
def _recall(args: argparse.Namespace) -> int:
    from venus_env.tasks.loaders import load_tasks

    corpus = open_corpus(args.corpus)
    result = asyncio.run(measure_recall(corpus, load_tasks(args.tasks, args.split), args.k))
    if args.json:
        print(json.dumps(asdict(result) | {"content_hash": corpus.content_hash}))
        return 0
    print(f"{result.questions} questions with evidence, {result.skipped} without")
    for k, value in result.at.items():
        print(f"recall@{k:<3} {value:.3f}")
    return 0


@named_errors()
def _coverage(args: argparse.Namespace) -> int:
    from venus_env.tasks.loaders import load_tasks

    tasks = load_tasks(args.tasks, args.split)
    coverage = asyncio.run(measure_coverage(open_corpus(args.corpus), tasks, args.k))
    record = json.dumps(coverage.record(), ensure_ascii=False, indent=1)
    print(record if args.json == "-" else coverage.table())
    if args.json not in (None, "-"):
        _write(Path(args.json), record + "\n")
    if args.write_tasks is not None:
        reachable = {question.id for question in coverage.questions if question.verdict == "reachable"}
        if not reachable:
            raise CorpusError(f"no question is reachable in {args.corpus}; {args.write_tasks} is not written")
        lines = [json.dumps(task.record(), ensure_ascii=False) + "\n" for task in tasks if task.id in reachable]
        _write(Path(args.write_tasks), "".join(lines))
        print(f"{len(lines)} reachable tasks: {args.write_tasks}", file=sys.stderr)
    return 0


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


@named_errors()
def _search(args: argparse.Namespace) -> int:
    (hits,) = asyncio.run(open_corpus(args.corpus).search([args.query], args.k))
    if not hits and not args.json:
        print("no results")
    for rank, hit in enumerate(hits, start=1):
        if args.json:
            print(json.dumps({"rank": rank, "score": hit.score} | asdict(hit.passage), ensure_ascii=False))
        else:
            print(f"{rank}. {hit.passage.title}  ({hit.score:.4f})\n   {hit.passage.url}")
            print(f"   {leading_words(hit.passage.text, 30)}")
    return 0


@named_errors()
def _info(args: argparse.Namespace) -> int:
    manifest = read_manifest(Path(args.index))
    if args.json:
        print(manifest.model_dump_json(by_alias=True))
        return 0
    options = manifest.options
    split = "as they are" if options.words is None else f"at most {options.words} words"
    facts = {
        "source": f"{manifest.source} ({options.format})",
        "documents": manifest.documents,
        "passages": f"{manifest.passages} ({split})",
        "pages": manifest.pages,
        "words": manifest.words,
        "encoder": manifest.encoder,
        "lexical": manifest.lexical,
        "format": manifest.schema_,
        "content hash": manifest.content_hash,
        "source hash": manifest.source_sha256,
        "size": f"{_megabytes(manifest):.1f} MB in {len(manifest.files)} files",
    }
    for name, value in facts.items():
        print(f"{name:<13} {value}")
    for line in _left_out(Path(args.index), manifest):
        print(line)
    return 0


@named_errors()
def _verify(args: argparse.Namespace) -> int:
    manifest = verify_index(args.index)
    print(f"{args.index}: sound; {manifest.passages} passages on {manifest.pages} pages, {len(manifest.files)} files")
    return 0
