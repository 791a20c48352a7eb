"""``python -m venus_env play``: play episodes one by one and show them."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Awaitable
from statistics import fmean

from venus_env.commands.arguments import Commands, add_environment_arguments, add_parser, positive
from venus_env.commands.errors import CommandError, named_errors
from venus_env.commands.lines import SHOWN_CHARACTERS, end_line, reward_line
from venus_env.commands.objects import load_as
from venus_env.envs.portal import portal
from venus_env.envs.research import ResearchEnv
from venus_env.envs.transcript import transcript
from venus_env.policies.base import EpisodePolicies, Policy, start_episode
from venus_env.policies.human import HumanPolicy
from venus_env.seeding import derive_seed

_EXAMPLES = """examples:
  python -m venus_env play                                      watch the oracle answer one question
  python -m venus_env play --policy human --seed 4              answer one yourself
  python -m venus_env play --policy my_package.agents:MyPolicy  watch a policy of your own
  python -m venus_env play --episodes 100 --json > oracle.jsonl one trajectory (venus.trajectory/1) a line
  python -m venus_env play --corpus pages.jsonl --tasks questions.jsonl --split dev
"""


def add_play_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add ``play`` to a command line."""
    parser = add_parser(
        commands,
        "play",
        help="play episodes and show them",
        description="Play episodes with a scripted policy, one of your own, or by hand.",
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "--policy",
        default="oracle",
        metavar="POLICY",
        help="oracle, random, human, or module:attribute for a policy of your own (default oracle)",
    )
    parser.add_argument("--episodes", type=positive, default=1, metavar="N", help="number of episodes (default 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="chooses tasks and moves (default 0)")
    parser.add_argument("--task-id", metavar="ID", help="play this task instead of drawn ones")
    add_environment_arguments(parser)
    parser.add_argument("--full", action="store_true", help="show long texts in full")
    parser.add_argument("--json", action="store_true", help="print one trajectory a line instead")
    parser.set_defaults(run=_play)


def _play(args: argparse.Namespace) -> int:
    with named_errors():
        policies = _policy(args.policy, args.seed)
        env = ResearchEnv(
            corpus=args.corpus,
            tasks=args.tasks,
            split=None if args.split == "all" else args.split,
            max_turns=args.max_turns,
            prompt=args.prompt,
        )
        env.reset(seed=args.seed, options={"task_id": args.task_id})
    scores, returns = [], []
    for episode in range(args.episodes):
        if episode > 0:  # without the seed, so that the episodes differ
            env.reset(options={"task_id": args.task_id})
        policy = start_episode(policies, env.task, seed=derive_seed(args.seed, episode))
        try:
            _play_episode(env, policy, args)
        except EOFError:
            print("\nno more input; the episode is left unfinished", file=sys.stderr)
            break
        trajectory = env.trajectory
        if args.json:
            print(json.dumps(trajectory.record(), ensure_ascii=False), flush=True)
        if trajectory.score is not None:
            scores.append(trajectory.score)
            returns.append(trajectory.metrics["return"])
    if scores and not args.json:
        print(f"{len(scores)} episodes: score {fmean(scores):.3f}, return {fmean(returns):.3f}")
    return 0


def _play_episode(env: ResearchEnv, policy: Policy, args: argparse.Namespace) -> None:
    quiet = args.json and args.policy != "human"
    limit = None if args.full else SHOWN_CHARACTERS
    if not quiet:
        print(transcript(env.messages if args.full else env.messages[1:], limit))
    over = False
    while not over:
        text = policy.act(env.messages)
        if inspect.isawaitable(text):
            text = portal().run(_awaited(text))
        _, _, terminated, truncated, info = env.step(text)
        over = terminated or truncated
        if quiet:
            continue
        print(transcript(info["new_messages"], limit))
        print(reward_line(info["reward_terms"]))
        if over:
            print(end_line(info["end"], info["score"], env.task.answers))
        print()


async def _awaited(text: Awaitable[str]) -> str:
    return await text


def _policy(name: str, seed: int) -> Policy | EpisodePolicies:
    if name == "oracle":
        from venus_env.policies.scripted import OraclePolicy

        return OraclePolicy(seed=seed)
    if name == "random":
        from venus_env.policies.random import RandomPolicy

        return RandomPolicy(seed=seed)
    if name == "human":
        return HumanPolicy()
    if ":" not in name:
        raise CommandError(f"--policy {name}: give oracle, random, human, or module:attribute (`rollout` has more)")
    policy: Policy | EpisodePolicies = load_as(name, "--policy", Policy, EpisodePolicies)
    return policy
