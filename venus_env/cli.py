"""``python -m venus_env …``: play episodes, build and search corpora."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from statistics import fmean

from venus_env.corpus.cli import add_corpus_parser
from venus_env.corpus.errors import CorpusError
from venus_env.envs.research import ResearchEnv
from venus_env.envs.transcript import transcript
from venus_env.policies.base import EpisodePolicies, Policy, start_episode
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.turns import Message
from venus_env.seeding import derive_seed

_EXAMPLES = """examples:
  python -m venus_env play --policy oracle --episodes 3
  python -m venus_env play --policy human --split test
  python -m venus_env play --policy random --episodes 100 --seed 1 --json > random.jsonl
  python -m venus_env corpus --help
"""
_PLAY_EXAMPLES = """examples:
  python -m venus_env play                                      watch the oracle answer one question
  python -m venus_env play --policy human --seed 4              answer one yourself
  python -m venus_env play --episodes 100 --json > oracle.jsonl one trajectory (venus.trajectory/1) a line
  python -m venus_env play --corpus pages.jsonl --tasks questions.jsonl --split dev
"""
_HUMAN_HELP = """\
Type one line per turn:
  search WORDS          search the corpus
  visit URL GOAL        open a page
  answer TEXT           give the final answer
  <think>…              anything that starts with < is sent as it is"""
_SHOWN_CHARACTERS = 700


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m venus_env",
        description="An environment for deep-research agents.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_play_parser(commands)
    add_corpus_parser(commands)
    args = parser.parse_args(argv)
    try:
        status: int = args.run(args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output (head, say) has seen enough
        sys.stderr.close()
        return 0
    return status


class HumanPolicy:
    """Asks the person at the terminal for each turn; short commands stand for well-formed turns."""

    def act(self, messages: Sequence[Message]) -> str:
        """Read one turn from standard input, asking again until it can be understood."""
        if len(messages) == 2:
            print(_HUMAN_HELP)
        while True:
            line = input("> ").strip()
            if line.startswith("<"):
                return line
            command, _, rest = line.partition(" ")
            rest = rest.strip()
            if command == "search" and rest:
                return render_call("", "search", {"query": [rest]})
            if command == "visit" and rest:
                url, _, goal = rest.partition(" ")
                return render_call("", "visit", {"url": [url], "goal": goal.strip() or messages[1]["content"]})
            if command == "answer" and rest:
                return render_answer("", rest)
            print(_HUMAN_HELP)


def _add_play_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "play",
        help="play episodes and show them",
        description="Play episodes with a scripted policy or by hand.",
        epilog=_PLAY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--policy", choices=("oracle", "random", "human"), default="oracle", help="who plays (default oracle)"
    )
    parser.add_argument("--episodes", type=_positive, default=1, metavar="N", help="number of episodes (default 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="chooses tasks and moves (default 0)")
    parser.add_argument("--task-id", metavar="ID", help="play this task instead of drawn ones")
    parser.add_argument("--max-turns", type=_positive, default=20, metavar="N", help="turns per episode (default 20)")
    parser.add_argument("--prompt", choices=("full", "compact"), default="full", help="style of prompt and tools")
    parser.add_argument(
        "--corpus",
        default="embedded",
        help="'embedded', 'full', a passage file or the folder of an index (default embedded)",
    )
    parser.add_argument("--tasks", default="embedded", help="'embedded', 'full' or a task file (default embedded)")
    parser.add_argument("--split", default="train", help="part of the tasks, 'all' for every task (default train)")
    parser.add_argument("--full", action="store_true", help="show long texts in full")
    parser.add_argument("--json", action="store_true", help="print one trajectory a line instead")
    parser.set_defaults(run=_play)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive whole number, got {text!r}")
    return int(text)


def _play(args: argparse.Namespace) -> int:
    try:
        env = ResearchEnv(
            corpus=args.corpus,
            tasks=args.tasks,
            split=None if args.split == "all" else args.split,
            max_turns=args.max_turns,
            prompt=args.prompt,
        )
        env.reset(seed=args.seed, options={"task_id": args.task_id})
    except (CorpusError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    policies = _policy(args.policy, args.seed)
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
    limit = None if args.full else _SHOWN_CHARACTERS
    if not quiet:
        print(transcript(env.messages if args.full else env.messages[1:], limit))
    over = False
    while not over:
        text = policy.act(env.messages)
        if not isinstance(text, str):
            raise TypeError(f"{type(policy).__name__} is asynchronous; play takes plain policies only")
        _, reward, terminated, truncated, info = env.step(text)
        over = terminated or truncated
        if quiet:
            continue
        print(transcript(info["new_messages"], limit))
        terms = ", ".join(f"{name} {value:+.3f}" for name, value in info["reward_terms"].items())
        print(f"[reward] {reward:+.3f}" + (f"  ({terms})" if terms else ""))
        if over:
            answers = " | ".join(env.task.answers)
            print(f"[end] {info['end']}, score {info['score']}, accepted: {answers}")
        print()


def _policy(name: str, seed: int) -> Policy | EpisodePolicies:
    if name == "oracle":
        from venus_env.policies.scripted import OraclePolicy

        return OraclePolicy(seed=seed)
    if name == "random":
        from venus_env.policies.random import RandomPolicy

        return RandomPolicy(seed=seed)
    return HumanPolicy()
