"""``python -m venus_env check …``: the conformance checks from the command line."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venus_env.commands.arguments import add_parser

if TYPE_CHECKING:  # the checks bring heavier modules along; other commands should not wait for them
    from venus_env.corpus.document import Corpus
    from venus_env.testing.report import Report

_EXAMPLES = """examples:
  python -m venus_env check env VenusResearch-v0
  python -m venus_env check tool my_tools:Calculator --example '{"expression": "6 * 7"}'
  python -m venus_env check policy my_policy:make_policy --json
  python -m venus_env check belief lexical --corpus my_pages.jsonl
  python -m venus_env check corpus my_pages.jsonl
  python -m venus_env check tasks my_questions.jsonl --corpus my_pages.jsonl

exit status: 0 all passed (warnings allowed), 1 something failed, 2 there was nothing to check
"""
_ATTRIBUTE = "module:attribute (an object, its class, or a function without arguments that makes it)"
_GYM_ID = re.compile(r"([\w.]+:)?([\w-]+/)?[\w.-]+-v\d+")
_CORPUS = f"'embedded', a passage file, the folder of an index, or {_ATTRIBUTE}"


def add_check_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``check`` to a command line; the chosen command stands in ``args.run``, which gives the exit status."""
    parser = add_parser(
        subparsers,
        "check",
        help="check that a tool, policy, environment, … keeps its contract",
        description="Check that something of your own keeps the contract that the environment relies on.",
        examples=_EXAMPLES,
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")

    env = _add(kinds, "env", _env, f"id of an environment, or {_ATTRIBUTE}", "an environment")
    env.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the first episode (default 0)")

    tool = _add(kinds, "tool", _tool, _ATTRIBUTE, "a tool")
    tool.add_argument(
        "--example",
        action="append",
        type=_json_object,
        metavar="JSON",
        help="arguments of a call that should find something; repeat for more (default: made from the schema)",
    )
    _add_nondeterministic(tool)

    policy = _add(kinds, "policy", _policy, _ATTRIBUTE, "a policy, on the embedded questions")
    policy.add_argument("--seed", type=int, default=0, metavar="N", help="seed of tasks and episodes (default 0)")
    _add_nondeterministic(policy)

    judge = _add(kinds, "judge", _judge, _ATTRIBUTE, "a judge")
    judge.add_argument("--question", metavar="TEXT", help="what was asked; with --answer and --wrong")
    judge.add_argument("--answer", action="append", metavar="TEXT", help="an accepted answer; repeat for more")
    judge.add_argument("--wrong", metavar="TEXT", help="an answer that is wrong")
    _add_nondeterministic(judge)

    names = "'lexical', 'hf:FOLDER_OR_MODEL_NAME', 'server:URL', 'server:URL#MODEL'"
    belief = _add(kinds, "belief", _belief, f"{names}, or {_ATTRIBUTE}", "a belief")
    belief.add_argument(
        "--corpus", default="embedded", metavar="CORPUS", help=f"background of 'lexical': {_CORPUS} (default embedded)"
    )

    corpus = _add(kinds, "corpus", _corpus, _CORPUS, "a corpus")
    corpus.add_argument(
        "--query", action="append", metavar="TEXT", help="a search that should find something; repeat for more"
    )

    tasks = _add(kinds, "tasks", _tasks, "task file, or 'embedded'", "the tasks of a file")
    tasks.add_argument("--corpus", metavar="CORPUS", help=f"where the evidence should be found: {_CORPUS}")


def _add(
    kinds: argparse._SubParsersAction[argparse.ArgumentParser],
    kind: str,
    check: Callable[[argparse.Namespace], Report],
    spec: str,
    what: str,
) -> argparse.ArgumentParser:
    parser = kinds.add_parser(kind, help=f"check {what}", description=f"Check {what}.")
    parser.add_argument("spec", metavar="SPEC", help=spec)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=_shown(check))
    return parser


def _add_nondeterministic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nondeterministic", action="store_true", help="equal inputs may give different results")


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'expected an object such as {{"query": ["x"]}}, got {text!r}')
    return value


def _shown(check: Callable[[argparse.Namespace], Report]) -> Callable[[argparse.Namespace], int]:
    """Print the report of a check; a spec that names nothing is one line and exit status 2."""

    def run(args: argparse.Namespace) -> int:
        try:
            report = check(args)
        except _Unusable as error:
            print(" ".join(str(error).split()), file=sys.stderr)
            return 2
        print(json.dumps(report.record(), ensure_ascii=False) if args.json else report)
        return 0 if report.ok else 1

    return run


class _Unusable(Exception):
    """There is nothing that could be checked."""


def _env(args: argparse.Namespace) -> Report:
    import gymnasium as gym

    from venus_env.testing.env import check_research_env

    if not _GYM_ID.fullmatch(args.spec):
        env = _load(args.spec, "env")
        if not isinstance(env, gym.Env):
            raise _Unusable(f"env {args.spec!r} is a {type(env).__name__}, no gymnasium.Env")
        return check_research_env(env, seed=args.seed)
    try:
        env = gym.make(args.spec)
    except (gym.error.Error, ImportError) as error:
        raise _Unusable(f"env {args.spec!r}: {error}") from error
    return check_research_env(env, seed=args.seed)


def _tool(args: argparse.Namespace) -> Report:
    from venus_env.testing.tool import check_tool

    return check_tool(_load(args.spec, "tool"), args.example, nondeterministic=args.nondeterministic)


def _policy(args: argparse.Namespace) -> Report:
    from venus_env.testing.policy import check_policy

    return check_policy(_load(args.spec, "policy"), seed=args.seed, nondeterministic=args.nondeterministic)


def _judge(args: argparse.Namespace) -> Report:
    from venus_env.testing.judge import check_judge

    asked = {"question": args.question, "answers": args.answer, "wrong": args.wrong}
    given = {name: value for name, value in asked.items() if value is not None}
    if given and len(given) < len(asked):
        raise _Unusable("judge: give all of --question, --answer and --wrong, or none for a question of our own")
    return check_judge(_load(args.spec, "judge"), **given, nondeterministic=args.nondeterministic)


def _belief(args: argparse.Namespace) -> Report:
    from venus_env.beliefs.base import open_belief
    from venus_env.beliefs.errors import BeliefError
    from venus_env.testing.belief import check_belief

    if args.spec != "lexical" and not args.spec.startswith(("hf:", "server:")):
        return check_belief(_load(args.spec, "belief"))
    corpus = _open_corpus(args.corpus) if args.spec == "lexical" else None
    try:
        belief = open_belief(args.spec, corpus)
        if args.spec.startswith("server:"):
            belief.reach()  # type: ignore[union-attr]
    except (ImportError, OSError, ValueError, BeliefError) as error:  # no torch, no such model, no such server
        raise _Unusable(f"belief {args.spec!r}: {error}") from error
    assert belief is not None  # only None opens as None
    return check_belief(belief)


def _corpus(args: argparse.Namespace) -> Report:
    from venus_env.testing.corpus import check_corpus

    return check_corpus(_open_corpus(args.spec), args.query)


def _tasks(args: argparse.Namespace) -> Report:
    from venus_env.testing.tasks import check_tasks

    if args.spec != "embedded" and not Path(args.spec).is_file():
        raise _Unusable(f"tasks {args.spec!r}: there is no such file")
    return check_tasks(args.spec, None if args.corpus is None else _open_corpus(args.corpus))


def _open_corpus(spec: str) -> Corpus:
    from venus_env.corpus import open_corpus
    from venus_env.corpus.errors import CorpusError

    if ":" in spec and not Path(spec).exists():
        corpus: Corpus = _load(spec, "corpus")
        return corpus
    try:
        return open_corpus(spec)
    except (CorpusError, OSError) as error:
        raise _Unusable(f"corpus {spec!r}: {error}") from error


def _load(spec: str, what: str) -> Any:
    from venus_env.plugins import load_object

    try:
        return load_object(spec, what)
    except ValueError as error:
        raise _Unusable(str(error)) from error
