"""``python -m venus_env show``: recorded episodes as text or as a page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from venus_env.commands.arguments import Commands, add_parser
from venus_env.commands.errors import CommandError, named_errors
from venus_env.commands.lines import SHOWN_CHARACTERS, end_line, reward_line
from venus_env.envs.transcript import transcript
from venus_env.evaluation.card import write_text_atomic
from venus_env.evaluation.trajectory_file import read_trajectories
from venus_env.protocol.trajectory import Trajectory

_EXAMPLES = """examples:
  python -m venus_env show runs/mine.jsonl                     the first episode
  python -m venus_env show runs/mine.jsonl --index 12 --full
  python -m venus_env show runs/mine.jsonl --task-id q-17      every episode of a task
  python -m venus_env show runs/mine.jsonl --index 12 --html episode.html
"""


def add_show_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add ``show`` to a command line."""
    parser = add_parser(
        commands,
        "show",
        help="show recorded episodes",
        description="Show recorded episodes: the conversation, the rewards of every turn and the ending.",
        examples=_EXAMPLES,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="trajectory file (.jsonl, .jsonl.gz)")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--index", type=_index, default=0, metavar="I", help="number of the episode, from 0 (default 0)"
    )
    chosen.add_argument("--task-id", metavar="ID", help="the episodes of this task")
    parser.add_argument("--full", action="store_true", help="show long texts in full, and the system prompt")
    parser.add_argument("--html", type=Path, metavar="OUT", help="write one episode as a page instead of printing it")
    parser.set_defaults(run=_show)


def render(trajectory: Trajectory, *, full: bool = False) -> str:
    """Lay out an episode for a terminal: each turn with its reply and its reward, then the ending.

    Args:
        trajectory: The episode.
        full: Show texts at full length, and the system prompt.
    """
    limit = None if full else SHOWN_CHARACTERS
    messages, turns = trajectory.messages, trajectory.turns
    starts = [turn.message_index for turn in turns]
    opening = messages[: starts[0] if starts else None]
    blocks = [transcript(opening if full else opening[1:], limit)]
    for turn, start, stop in zip(turns, starts, [*starts, len(messages)][1:], strict=True):
        notes = "" if turn.error is None else f"[error] {turn.error}\n"
        blocks.append(f"{transcript(messages[start:stop], limit)}\n{notes}{reward_line(turn.reward_terms)}\n")
    if trajectory.error is not None:
        blocks.append(f"[error] {trajectory.error}")
    blocks.append(end_line(trajectory.end, trajectory.score, trajectory.task.get("answers", ())))
    return "\n".join(blocks)


def _show(args: argparse.Namespace) -> int:
    with named_errors():
        chosen = list(_chosen(args))
    if args.html is not None:
        from venus_env.viewer.page import page

        if len(chosen) > 1:
            raise CommandError(f"--html writes one episode, but task {args.task_id!r} has {len(chosen)}: give --index")
        with named_errors():
            write_text_atomic(args.html, page(chosen[0]))
        print(args.html)
        return 0
    for trajectory in chosen:
        print(f"task {trajectory.task.get('id')}, seed {trajectory.seed}\n\n{render(trajectory, full=args.full)}\n")
    return 0


def _chosen(args: argparse.Namespace) -> Iterator[Trajectory]:
    trajectories = read_trajectories(args.file)
    if args.task_id is None:
        found = next(islice(trajectories, args.index, None), None)
        if found is None:
            raise CommandError(f"--index {args.index}: {args.file} has fewer episodes (they count from 0)")
        yield found
        return
    ids: dict[str, None] = {}
    for trajectory in trajectories:
        task_id = str(trajectory.task.get("id"))
        ids[task_id] = None
        if task_id == args.task_id:
            yield trajectory
    if args.task_id not in ids:
        raise CommandError(f"--task-id {args.task_id}: not in {args.file}; it has {', '.join(list(ids)[:5])}, …")


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 on, got {text!r}")
    return int(text)
