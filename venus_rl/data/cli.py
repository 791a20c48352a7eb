"""``python -m venus_rl.data clean …``: clean, filter and resample recorded trajectories for SFT."""

from __future__ import annotations

import argparse
import logging
import re
import sys
from pathlib import Path

from venus_env.commands.arguments import add_parser, positive
from venus_rl.data.artifact import Artifact
from venus_rl.data.options import CleanConfig
from venus_rl.settings import ConfigError, key_help, load_settings

_EXAMPLES = """\
An input is a file (.json, .jsonl, .jsonl.gz, .parquet), a folder, or a quoted glob pattern. Rows may be raw REDSearcher
rows (meta, messages), clean rows (question, messages, gt), recorded rollouts, venus.trajectory/1, messages with
tool_calls, or ShareGPT conversations.

The result is a folder of its own under DIR: clean.parquet, rejected.parquet (every dropped row with stage and reason),
stats.json, report.html and report.json. The same command with the same inputs finds it again.

examples:
  python -m venus_rl.data clean trajectories/ --out data
  python -m venus_rl.data clean raw.parquet more/*.jsonl --out data correctness=exact thresholds=[30,60] seed=1
  python -m venus_rl.data clean raw.parquet --out data correctness=llm judge.url=http://localhost:8000/v1 \\
      judge.model=my-judge judge.max_requests=10000
  python -m venus_rl.data clean raw.parquet --out data reference=true prompt_file=prompt.txt
"""
_KEY = re.compile(r"[a-z_]+(\.[a-z_]+)?=")


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit status (0 done, 1 no trajectory is left, 2 wrong input, 130 interrupted)."""
    parser = argparse.ArgumentParser(prog="python -m venus_rl.data", description="Training data.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = add_parser(
        commands,
        "clean",
        help="clean, filter and resample trajectories",
        description="Clean, filter and resample recorded trajectories for supervised fine-tuning.",
        examples=f"{_EXAMPLES}\n{key_help(CleanConfig)}",
    )
    command.add_argument("arguments", nargs="+", metavar="INPUT|key=value", help="what to read, and settings (below)")
    command.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for results")
    command.add_argument("--config", type=Path, metavar="FILE", help="YAML file of settings; key=value goes first")
    command.add_argument("--workers", type=positive, default=1, metavar="N", help="processes (default 1)")
    command.add_argument("--quiet", action="store_true", help="no progress bar")
    args, more = parser.parse_known_args(argv)  # settings may also stand after the options
    unknown = [argument for argument in more if argument.startswith("-")]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    args.arguments += more
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        made = _clean(args)
    except (ConfigError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; the same command starts over, with every verdict of the judge kept", file=sys.stderr)
        return 130
    _print(made)
    return 0 if made.report["rows"]["written"] else 1


def _clean(args: argparse.Namespace) -> Artifact:
    from venus_rl.data.pipeline import clean  # not needed for --help

    settings = [argument for argument in args.arguments if _KEY.match(argument)]
    inputs = [argument for argument in args.arguments if not _KEY.match(argument)]
    if not inputs:
        raise ConfigError("there is no input; name files, folders or patterns before the settings")
    config = load_settings(CleanConfig, args.config, settings)
    return clean(inputs, config, args.out, workers=args.workers, progress=not args.quiet)


def _print(made: Artifact) -> None:
    rows = made.report["rows"]
    again = " (made before)" if made.reused else ""
    print(f"{made.path}{again}")
    print("{read} rows read, {kept} kept, {rejected} rejected; {written} written with copies".format(**rows))
    for stage, reasons in made.report["rejected"].items():
        for reason, number in reasons.items():
            print(f"  {stage}: {reason} {number}")
    if not made.report["complete"]:
        print("some rows have no verdict; the same command asks the judge for these again")
    if not rows["written"]:
        print(f"error: no trajectory is left; {made.path / 'rejected.parquet'} says why", file=sys.stderr)
