"""``python -m venus_env rollout``: play many episodes at once into a trajectory file; the same command goes on."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from venus_env.commands.arguments import BELIEFS, Commands, add_environment_arguments, add_parser, positive
from venus_env.commands.chosen_policy import ChosenPolicy, add_policy_arguments, choose_policy
from venus_env.commands.errors import CommandError, named_errors
from venus_env.commands.figures import figures
from venus_env.commands.header import RolloutHeader, claim, header_path, require_same_settings
from venus_env.commands.objects import load_as, load_belief
from venus_env.commands.overrides import apply_overrides
from venus_env.evaluation.card import installed_versions, make_card, write_card
from venus_env.evaluation.runner import MakeSession, evaluate
from venus_env.evaluation.trajectory_file import TrajectoryWriter, read_trajectories, replacing_writer
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS
from venus_env.rewards.judge import Judge
from venus_env.session import ResearchSession
from venus_env.setting import EnvConfig, Setting, draw_tasks
from venus_env.tasks.task import Task

_DESCRIPTION = """\
Play tasks with a policy, many episodes at a time, and append each episode to a trajectory file
(venus.trajectory/1) as soon as it ends. Run the same command again, after an interruption or with
more --episodes or --samples, and only what the file lacks is played."""
_EXAMPLES = """examples:
  python -m venus_env rollout --policy oracle --episodes 100 --out runs/oracle.jsonl
  python -m venus_env rollout --policy openai --base-url http://localhost:8000/v1 --model my-model \\
      --split test --samples 4 --out runs/mine.jsonl
  python -m venus_env rollout --policy hf --model checkpoints/sft --prompt compact --out runs/sft.jsonl
  python -m venus_env rollout --policy my_package.agents:MyPolicy --env top_k=5 rewards.outcome=em --out runs/my.jsonl
  python -m venus_env rollout --policy replay --recording runs/mine.jsonl --split test --out runs/again.jsonl
"""


def add_rollout_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add ``rollout`` to a command line."""
    parser = add_parser(
        commands, "rollout", help="record episodes into a file", description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="trajectory file (.jsonl)")
    add_policy_arguments(parser)
    add_environment_arguments(parser)
    parser.add_argument(
        "--episodes", type=positive, metavar="N", help="N tasks of the split, drawn fairly (default: all)"
    )
    parser.add_argument("--samples", type=positive, default=1, metavar="K", help="episodes per task (default 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seeds policy and episodes (default 0)")
    parser.add_argument("--concurrency", type=positive, default=64, metavar="C", help="episodes at a time (default 64)")
    parser.add_argument("--belief", default="lexical", help=f"{BELIEFS}; scores information gain (default lexical)")
    parser.add_argument("--judge", metavar="MODULE:ATTRIBUTE", help="a judge of your own that grades the answers")
    parser.add_argument(
        "--env",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="any other setting of EnvConfig, such as top_k=5 rewards.outcome=em; wins over the options above",
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="play again what tools, belief, judge or policy made fail"
    )
    parser.set_defaults(run=_rollout)


def _rollout(args: argparse.Namespace) -> int:
    if not args.out.name.endswith(".jsonl"):
        raise CommandError(f"--out {args.out}: the name of a trajectory file must end in .jsonl")
    with named_errors():
        setting = Setting.open(_env_config(args))
        tasks = setting.tasks(None if args.split == "all" else args.split)
        to_play = _drawn(tasks, args.episodes)
        belief = load_belief(args.belief, setting.corpus)
        judge = load_as(args.judge, "--judge", Judge) if args.judge else None
        chosen = choose_policy(args, setting.config)
        header = _header(args, setting, tasks, chosen)
        require_same_settings(args.out, header)
        if args.retry_failed and args.out.exists():
            _drop_failed(args.out)

        def make_session(task: Task, seed: int) -> ResearchSession:
            return setting.session(task, seed, belief=belief, judge=judge, count_tokens=chosen.count_tokens)

        with TrajectoryWriter(args.out) as writer:
            claim(args.out, header)
            kept = _kept(args.out)
            try:
                asyncio.run(_play(args, chosen, to_play, make_session, kept, writer))
            except KeyboardInterrupt:
                print(f"the episodes so far are in {args.out}; the same command goes on from there", file=sys.stderr)
                raise
    return _report(args, setting, chosen)


async def _play(
    args: argparse.Namespace,
    chosen: ChosenPolicy,
    tasks: Sequence[Task],
    make_session: MakeSession,
    kept: Collection[tuple[str, int]],
    writer: TrajectoryWriter,
) -> None:
    """Play what the file lacks."""
    try:
        await evaluate(
            chosen.policy,
            tasks,
            make_session,
            concurrency=min(args.concurrency, chosen.concurrency or args.concurrency),
            samples=args.samples,
            seed=args.seed,
            skip=kept,
            on_episode=writer.append,
        )
    finally:
        if chosen.close is not None:
            await chosen.close()


def _report(args: argparse.Namespace, setting: Setting, chosen: ChosenPolicy) -> int:
    """Write the card, print the figures, and give the exit status."""
    trajectories = list(read_trajectories(args.out))
    card = make_card(
        trajectories,
        policy={**chosen.spec, **chosen.source},
        seed=args.seed,
        samples=args.samples,
        corpus_hash=setting.corpus.content_hash,
        tools=setting.tools,
        config=setting.config,
        rewards=setting.config.rewards,
        judge=args.judge,
        notes={"tasks": setting.config.tasks, "split": args.split, "belief": args.belief},
    )
    card_path = args.out.with_name(f"{args.out.name}.card.json")
    write_card(card, card_path)
    print(figures(card.scores, trajectories))
    print(f"{args.out}: the episodes; {header_path(args.out).name}: settings; {card_path.name}: result card")
    return 0 if card.scores.graded else 1


def _env_config(args: argparse.Namespace) -> EnvConfig:
    config = EnvConfig(
        corpus=args.corpus,
        tasks=args.tasks,
        max_turns=args.max_turns,
        prompt=args.prompt,
        tool_style=args.prompt,
    )
    return apply_overrides(config, args.env, "--env")


def _drawn(tasks: Sequence[Task], count: int | None) -> Sequence[Task]:
    if count is None:
        return tasks
    if count > len(tasks):
        raise CommandError(
            f"--episodes {count}: the split has only {len(tasks)} tasks; --samples plays each repeatedly"
        )
    return draw_tasks(tasks, count)


def _header(args: argparse.Namespace, setting: Setting, tasks: Sequence[Task], chosen: ChosenPolicy) -> RolloutHeader:
    records = "\n".join(task.model_dump_json() for task in tasks)
    return RolloutHeader(
        policy=chosen.spec,
        env=setting.config.model_dump(mode="json", exclude={"corpus", "tasks", "rewards"}),
        rewards=setting.config.rewards,
        belief=None if args.belief == "none" else args.belief,
        judge=args.judge,
        seed=args.seed,
        split=args.split,
        corpus_hash=setting.corpus.content_hash,
        tasks_hash=hashlib.sha256(records.encode()).hexdigest(),
        versions=installed_versions(),
        sources={"corpus": setting.config.corpus, "tasks": setting.config.tasks, "policy": chosen.source},
    )


def _drop_failed(path: Path) -> None:
    TrajectoryWriter(path).close()  # half a line that a crash has left must not stop the reader
    with replacing_writer(path) as writer:
        for trajectory in read_trajectories(path):
            if trajectory.end not in INFRASTRUCTURE_ENDS:
                writer.append(trajectory)


def _kept(path: Path) -> set[tuple[str, int]]:
    """The episodes that are in the file, by what tells them apart; says how many there are."""
    kept, failed = set(), 0
    for trajectory in read_trajectories(path):
        kept.add((str(trajectory.task["id"]), -1 if trajectory.seed is None else trajectory.seed))
        failed += trajectory.end in INFRASTRUCTURE_ENDS
    if kept:
        hint = f", {failed} of which the infrastructure ended (--retry-failed plays those again)" if failed else ""
        print(f"{path}: {len(kept)} episodes are there already{hint}", file=sys.stderr)
    return kept
