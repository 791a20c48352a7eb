"""Arguments that several commands share."""

from __future__ import annotations

import argparse

Commands = argparse._SubParsersAction  # argparse gives the class no public name

BELIEFS = "none, lexical, hf:FOLDER_OR_MODEL_NAME, server:URL, server:URL#MODEL or module:attribute"
CORPORA = "'embedded', 'full', a passage file or the folder of an index"


def positive(text: str) -> int:
    """Read a whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive whole number, got {text!r}")
    return int(text)


def add_parser(
    commands: Commands[argparse.ArgumentParser], name: str, *, help: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """Add a command whose help ends with examples."""
    return commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_environment_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what most users of an environment want to choose."""
    parser.add_argument("--max-turns", type=positive, default=20, metavar="N", help="turns per episode (default 20)")
    parser.add_argument("--prompt", choices=("full", "compact"), default="full", help="style of prompt and tools")
    parser.add_argument("--corpus", default="embedded", help=f"{CORPORA} (default embedded)")
    parser.add_argument("--tasks", default="embedded", help="'embedded', 'full' or a task file (default embedded)")
    parser.add_argument("--split", default="train", help="part of the tasks, 'all' for every task (default train)")
