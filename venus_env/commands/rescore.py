"""``python -m venus_env rescore``: give recorded episodes other rewards."""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from venus_env.beliefs.base import Belief
from venus_env.commands.arguments import BELIEFS, CORPORA, Commands, add_parser
from venus_env.commands.errors import CommandError, named_errors
from venus_env.commands.header import RolloutHeader, read_header
from venus_env.commands.objects import load_as, load_belief
from venus_env.commands.overrides import apply_overrides
from venus_env.corpus import open_corpus
from venus_env.evaluation.rescore import rescore
from venus_env.evaluation.trajectory_file import TrajectoryWriter, read_trajectories, replacing_writer
from venus_env.protocol.trajectory import Trajectory
from venus_env.rewards.compose import RewardConfig
from venus_env.rewards.judge import Judge

_AT_A_TIME = 32  # a judge or a belief may sit behind a network

_DESCRIPTION = """\
Compute the reward of every turn, the score and the return of recorded episodes anew, by the rules of
the environment. Rewards and belief are those of the recording where FILE.json beside it tells them
(`rollout` writes it) and the defaults otherwise; options change them."""
_EXAMPLES = """examples:
  python -m venus_env rescore runs/mine.jsonl --out runs/mine-em.jsonl --rewards outcome=em format_penalty=0.5
  python -m venus_env rescore runs/mine.jsonl --out runs/mine-gain.jsonl --belief hf:models/small
  python -m venus_env rescore runs/mine.jsonl --out runs/mine-own.jsonl --belief my_package.beliefs:MyBelief
  python -m venus_env rescore runs/mine.jsonl --out runs/mine-judged.jsonl --judge my_package.judges:MyJudge
"""


def add_rescore_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add ``rescore`` to a command line."""
    parser = add_parser(
        commands, "rescore", help="give recorded episodes other rewards", description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument("input", type=Path, metavar="IN", help="trajectory file (.jsonl, .jsonl.gz)")
    parser.add_argument("--out", required=True, type=Path, metavar="OUT", help="file to write (.jsonl)")
    parser.add_argument("--force", action="store_true", help="overwrite OUT if it exists")
    parser.add_argument(
        "--rewards",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="settings of RewardConfig, such as outcome=em information_gain=false gain_turns=visit",
    )
    parser.add_argument("--belief", help=f"{BELIEFS} (default: that of the recording, lexical if unknown)")
    parser.add_argument("--corpus", help=f"background of the lexical belief: {CORPORA} (default: as for --belief)")
    parser.add_argument("--judge", metavar="MODULE:ATTRIBUTE", help="grades the answers in place of the rewards' rules")
    parser.set_defaults(run=_rescore)


def _rescore(args: argparse.Namespace) -> int:
    with named_errors():
        if args.out.resolve() == args.input.resolve():
            raise CommandError(f"--out {args.out} is the input itself: name another file")
        if args.out.exists() and not args.force:
            raise CommandError(f"--out {args.out} exists already: name another file, or overwrite it with --force")
        header = read_header(args.input)
        rewards = apply_overrides(header.rewards if header else RewardConfig(), args.rewards, "--rewards")
        belief_name = args.belief or ((header.belief or "none") if header else "lexical")
        belief = _open_belief(belief_name, args.corpus, header) if rewards.information_gain else None
        judge = load_as(args.judge, "--judge", Judge) if args.judge else None
        if header and header.judge and judge is None:
            print(f"{header.judge} graded the recording; without --judge the rules of the rewards do", file=sys.stderr)
        old, new = _Means(), _Means()
        with replacing_writer(args.out) as writer:
            asyncio.run(_rescore_all(args.input, writer, rewards, belief, judge, old, new))
    print(f"rewards: {rewards.model_dump_json()}")
    print(f"belief: {belief_name if belief else 'none'}; judge: {args.judge or 'none'}")
    print(f"{'':8}{'old':>10}{'new':>10}")
    print(f"{'graded':8}{old.graded:>10}{new.graded:>10}")
    print(f"{'score':8}{old.score:>10.4f}{new.score:>10.4f}")
    print(f"{'return':8}{old.reward:>10.4f}{new.reward:>10.4f}")
    print(f"{args.out}: the episodes with their new rewards")
    return 0


def _open_belief(name: str, corpus_spec: str | None, header: RolloutHeader | None) -> Belief | None:
    if name != "lexical":
        return load_belief(name)
    corpus = open_corpus(corpus_spec or (header.sources["corpus"] if header else "embedded"))
    if corpus_spec is None and header and corpus.content_hash != header.corpus_hash:
        raise CommandError(
            f"{header.sources['corpus']} is not the corpus of the recording any more (its content has changed): name "
            "the background of the lexical belief with --corpus"
        )
    return load_belief(name, corpus)


async def _rescore_all(
    path: Path,
    writer: TrajectoryWriter,
    rewards: RewardConfig,
    belief: Belief | None,
    judge: Judge | None,
    old: _Means,
    new: _Means,
) -> None:
    """Re-score a file, a few episodes at a time, in its order."""
    episodes = read_trajectories(path)
    with tqdm(unit="episode") as bar:
        while batch := list(islice(episodes, _AT_A_TIME)):
            tasks = (rescore(each, rewards=rewards, belief=belief, judge=judge) for each in batch)
            for before, after in zip(batch, await asyncio.gather(*tasks), strict=True):
                writer.append(after)
                old.add(before)
                new.add(after)
                bar.update()


class _Means:
    """Running means over graded episodes."""

    def __init__(self) -> None:
        self.graded = 0
        self._score = self._reward = 0.0

    def add(self, trajectory: Trajectory) -> None:
        if trajectory.score is not None:
            self.graded += 1
            self._score += trajectory.score
            self._reward += sum(sum(turn.reward_terms.values()) for turn in trajectory.turns)

    @property
    def score(self) -> float:
        return self._score / self.graded if self.graded else math.nan

    @property
    def reward(self) -> float:
        return self._reward / self.graded if self.graded else math.nan
