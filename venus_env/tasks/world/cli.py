"""``python -m venus_env corpus generate``: build the shipped corpora from the fact packages."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from venus_env.commands.arguments import add_parser
from venus_env.tasks.world.sources import BASEBALL, PACKAGES, MissingSource

_EXAMPLES = f"""examples:
  python -m venus_env corpus generate --profile tiny --seed 0 --out corpora/embedded
  python -m venus_env corpus generate --profile full --seed 0 --out corpora/full
  python -m venus_env corpus generate --profile full --out my-world --no-measure

needs the packages {", ".join((*PACKAGES, BASEBALL))} (pip install --no-deps ...) and, for full, pyarrow
"""


def add_generate_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``generate``; it stands in ``args.run``, which gives the exit status."""
    parser = add_parser(
        commands,
        "generate",
        help="generate a corpus of real facts and its questions",
        description="Generate a corpus of real facts and its questions from registry packages.",
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "--profile",
        choices=("tiny", "full"),
        required=True,
        help="tiny: short pages, one to three hops; full: an encyclopedia, one to five hops",
    )
    parser.add_argument("--seed", type=int, default=0, help="fixes splits, wording and questions (default 0)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write to")
    parser.add_argument(
        "--no-measure",
        action="store_true",
        help="full only: leave out the measurements, and with them README.md and difficulty.json",
    )
    parser.set_defaults(run=_generate)


def _generate(args: argparse.Namespace) -> int:
    try:
        if args.profile == "tiny":
            from venus_env.tasks.world.build import build

            counts = build(args.out, args.seed)
        else:
            from venus_env.tasks.world.full.build import build_full

            counts = build_full(args.out, args.seed, measured=not args.no_measure)
    except MissingSource as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(counts, indent=2))
    return 0
