"""``python -m venus_env …``: play and record episodes, re-score and show them, work on corpora, check parts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from venus_env.commands.errors import CommandError
from venus_env.commands.play import add_play_parser
from venus_env.commands.rescore import add_rescore_parser
from venus_env.commands.rollout import add_rollout_parser
from venus_env.commands.show import add_show_parser
from venus_env.corpus.cli import add_corpus_parser
from venus_env.testing.cli import add_check_parser

_EXAMPLES = """examples:
  python -m venus_env play --policy oracle --episodes 3
  python -m venus_env play --policy human --split test
  python -m venus_env rollout --policy random --split test --episodes 100 --out runs/random.jsonl
  python -m venus_env rescore runs/random.jsonl --out runs/random-em.jsonl --rewards outcome=em
  python -m venus_env show runs/random.jsonl --index 3
  python -m venus_env corpus --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 if nothing could be graded, 2 for input it cannot use."""
    parser = argparse.ArgumentParser(
        prog="python -m venus_env",
        description="An environment for deep-research agents.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_play_parser(commands)
    add_rollout_parser(commands)
    add_rescore_parser(commands)
    add_show_parser(commands)
    add_corpus_parser(commands)
    add_check_parser(commands)
    args = parser.parse_args(argv)
    try:
        status: int = args.run(args)
    except CommandError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output (head, say) has seen enough
        sys.stderr.close()
        return 0
    return status
