"""``python -m venus_env corpus …``: build an index, measure it, look into it."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from venus_env.corpus.build import build_index
from venus_env.corpus.errors import CorpusError
from venus_env.corpus.open import open_corpus
from venus_env.corpus.recall import measure_recall
from venus_env.corpus.text import leading_words
from venus_env.tasks.world.cli import add_generate_parser

_EXAMPLES = """examples:
  python -m venus_env corpus build pages.jsonl.gz --out indexes/pages
  python -m venus_env corpus recall --corpus indexes/pages --tasks questions.jsonl --k 2,5,10 --json
  python -m venus_env corpus search indexes/pages "capital of the country where the river rises"
"""
_CORPUS_HELP = "folder of an index, a .jsonl or .jsonl.gz file of passages, 'embedded' or 'full'"


def add_corpus_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``corpus`` to a command line; the chosen command stands in ``args.run``, which gives the exit status."""
    parser = subparsers.add_parser(
        "corpus",
        help="build, measure and search corpora",
        description="Build, measure and search corpora.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="corpus_command", required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="index a passage file; does nothing when the index is current")
    build.add_argument("source", metavar="SRC", help=".jsonl or .jsonl.gz with id, url, title, text per row")
    build.add_argument("--out", required=True, metavar="DIR", help="folder of the index")
    build.add_argument("--force", action="store_true", help="build even if the index is current")
    build.add_argument("--json", action="store_true", help="print the manifest as JSON")
    build.set_defaults(run=_named(_build))

    recall = commands.add_parser("recall", help="share of evidence pages among the first k results of a question")
    recall.add_argument("--corpus", required=True, metavar="CORPUS", help=_CORPUS_HELP)
    recall.add_argument("--tasks", required=True, metavar="FILE", help="tasks with evidence or supporting_titles")
    recall.add_argument("--split", help="only tasks of this split")
    recall.add_argument("--k", type=_ks, default=(2, 5, 10), metavar="K,K", help="cut-offs (default 2,5,10)")
    recall.add_argument("--json", action="store_true", help="print the result as JSON")
    recall.set_defaults(run=_named(_recall))

    search = commands.add_parser("search", help="search a corpus once")
    search.add_argument("corpus", metavar="CORPUS", help=_CORPUS_HELP)
    search.add_argument("query", metavar="QUERY")
    search.add_argument("--k", type=int, default=5, metavar="K", help="number of results (default 5)")
    search.add_argument("--json", action="store_true", help="print the results as JSON lines")
    search.set_defaults(run=_named(_search))

    add_generate_parser(commands)


def _named(command: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], int]:
    """Turn errors that name their fix into one line and exit status 2."""

    def run(args: argparse.Namespace) -> int:
        try:
            command(args)
        except (CorpusError, ValueError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 2
        return 0

    return run


def _ks(text: str) -> tuple[int, ...]:
    try:
        ks = tuple(int(part) for part in text.split(","))
    except ValueError:
        ks = ()
    if not ks or min(ks) < 1:
        raise argparse.ArgumentTypeError(f"expected positive numbers joined by commas, such as 2,5,10; got {text!r}")
    return ks


def _build(args: argparse.Namespace) -> None:
    manifest = build_index(args.source, args.out, force=args.force)
    if args.json:
        print(manifest.model_dump_json(by_alias=True))
        return
    megabytes = sum(record.bytes for record in manifest.files.values()) / 1e6
    print(
        f"{args.out}: {manifest.passages} passages on {manifest.pages} pages, {megabytes:.1f} MB, "
        f"content {manifest.content_hash[:12]}"
    )


def _recall(args: argparse.Namespace) -> None:
    from venus_env.tasks.loaders import load_tasks

    corpus = open_corpus(args.corpus)
    result = asyncio.run(measure_recall(corpus, load_tasks(args.tasks, args.split), args.k))
    if args.json:
        print(json.dumps(asdict(result) | {"content_hash": corpus.content_hash}))
        return
    print(f"{result.questions} questions with evidence, {result.skipped} without")
    for k, value in result.at.items():
        print(f"recall@{k:<3} {value:.3f}")


def _search(args: argparse.Namespace) -> None:
    (hits,) = asyncio.run(open_corpus(args.corpus).search([args.query], args.k))
    if not hits and not args.json:
        print("no results")
    for rank, hit in enumerate(hits, start=1):
        if args.json:
            print(json.dumps({"rank": rank, "score": hit.score} | asdict(hit.passage), ensure_ascii=False))
        else:
            print(f"{rank}. {hit.passage.title}  ({hit.score:.4f})\n   {hit.passage.url}")
            print(f"   {leading_words(hit.passage.text, 30)}")
