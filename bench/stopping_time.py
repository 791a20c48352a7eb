"""Is taking another turn rewarded as such? Exact answers on a tiny task: ``python -m bench.stopping_time``.

The task. All rollouts of a group visit a page. The visit is lucky or unlucky, each with probability 1/2, and the policy
sees which. It brings its information gain, then the answer is right with a probability of its own. The policy may also
take an *idle* turn, up to two of them, each with probability ``go_on``: a turn that shows nothing, changes nothing and
costs nothing. Idle turns come either after the visit (visits of no gain) or before it (searches, also of no gain).

So an idle turn is worth exactly as much as no idle turn, and a neutral estimator pushes the policy neither way. What an
estimator does push is the *hint*: the expected advantage of the token that takes the first idle turn minus that of the
token that goes on without. Groups of rollouts are enumerated with their probabilities, nothing is sampled, and go
through :func:`venus_rl.igpo.advantage.compute_advantages` itself. Every turn is one token.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bench.env_throughput import table
from venus_env.commands.arguments import positive
from venus_env.evaluation.card import write_text_atomic
from venus_env.protocol.turns import Turn
from venus_env.tokens import TurnSpan
from venus_rl.igpo.advantage import AdvantageConfig, Mode, compute_advantages
from venus_rl.igpo.events import Floats, scatter_to_tokens
from venus_rl.igpo.turn_rewards import Assignment, TurnRewardConfig, TurnRewards, build_turn_rewards

Idle = Literal["visit_after", "search_before"]
Aggregation = Literal["tokens", "sequences", "constant"]
MODES: tuple[Mode, ...] = ("joint", "separate", "scaled_separate", "separate_penalty", "raw_ig", "turn_neutral")
ASSIGNMENTS: tuple[Assignment, ...] = ("visit_segment", "visit_copied", "every_turn")
MOST_IDLE = 2


@dataclass(frozen=True)
class World:
    """The task's numbers, each as (lucky, unlucky).

    Attributes:
        gains: Information gain of the visit.
        success: Probability of a right answer.
        go_on: Probability of each idle turn.
        idle: Where idle turns lie.
        idle_gain: Gain of an idle turn; other than 0, it is not idle.
    """

    gains: tuple[float, float]
    success: tuple[float, float] = (0.5, 0.5)
    go_on: float = 0.5
    idle: Idle = "visit_after"
    idle_gain: float = 0.0


GOOD = World((1.0, 0.2))
"""Visits help: mean gain 0.6. The outcome depends on nothing."""
BAD = World((-0.2, -1.0))
"""Visits mislead: mean gain -0.6."""
OUTCOME = World((0.0, 0.0), success=(0.9, 0.1))
"""No gains; after a lucky visit the answer is nearly always right, after an unlucky one hardly ever."""


@dataclass(frozen=True)
class Episode:
    """One possible rollout and its probability."""

    unlucky: int
    idle: int
    right: int
    probability: float


def episodes(world: World) -> list[Episode]:
    """All rollouts of the task."""
    found = []
    for unlucky, idle, right in itertools.product((0, 1), range(MOST_IDLE + 1), (0, 1)):
        stops = 1.0 if idle == MOST_IDLE else 1 - world.go_on
        answer = world.success[unlucky] if right else 1 - world.success[unlucky]
        found.append(Episode(unlucky, idle, right, 0.5 * world.go_on**idle * stops * answer))
    return found


def rewards(episode: Episode, world: World, assignment: Assignment) -> TurnRewards:
    """The rollout as reward events, by the same function as in training; every turn is one token."""
    idle_tool = "visit" if world.idle == "visit_after" else "search"
    before, after = (0, episode.idle) if world.idle == "visit_after" else (episode.idle, 0)
    tools = [*[idle_tool] * before, "visit", *[idle_tool] * after]
    turns = [Turn(i, "tool", True, 2 * i + 2, tool=tool) for i, tool in enumerate(tools)]
    turns.append(Turn(len(tools), "answer", True, 2 * len(tools) + 2))
    gains: list[float | None] = [world.idle_gain] * (before + after)
    gains.insert(before, world.gains[episode.unlucky])
    gains.append(None)
    spans = [TurnSpan(i, i, i + 1) for i in range(len(turns))]
    return build_turn_rewards(turns, spans, gains, float(episode.right), TurnRewardConfig(assignment=assignment))


def hints(
    world: World, assignment: Assignment, config: AdvantageConfig, aggregation: Aggregation, group: int
) -> dict[str, float]:
    """Expected advantage of the first idle turn minus that of doing without: after lucky, unlucky, all visits.

    Args:
        world: The task.
        assignment: Who earns a gain.
        config: How advantages are made.
        aggregation: What the loss divides by: the tokens of the batch, each rollout's own, or a constant. Scaled so
            that a token weighs 1 on average over lengths.
        group: Rollouts of a group; one group is the batch.
    """
    possible = episodes(world)
    made = [rewards(episode, world, assignment) for episode in possible]
    first_choice = 1 if world.idle == "visit_after" else 0  # the turn in which the first idle turn is taken or not
    lengths = np.array([rollout.events[-1].position + 1 for rollout in made])
    mean_length = float(sum(episode.probability * n for episode, n in zip(possible, lengths, strict=True)))
    total, weight = np.zeros((2, 2)), np.zeros((2, 2))  # unlucky or not × idle taken or not
    for members, probability, values in _played(possible, made, config, group):
        tokens = scatter_to_tokens([made[m] for m in members], values, int(lengths.max()))
        own = lengths[list(members)]
        factor = {
            "tokens": np.full(group, group * mean_length / own.sum()),
            "sequences": mean_length / own,
            "constant": np.ones(group),
        }[aggregation]
        for row, member in enumerate(members):
            cell = possible[member].unlucky, int(possible[member].idle > 0)
            total[cell] += probability * factor[row] * tokens[row, first_choice]
            weight[cell] += probability
    lucky, unlucky = np.diff(total / weight, axis=1).ravel()
    return {"lucky": float(lucky), "unlucky": float(unlucky), "all": float(np.diff(total.sum(0) / weight.sum(0))[0])}


def _played(
    possible: list[Episode], made: list[TurnRewards], config: AdvantageConfig, group: int
) -> Iterator[tuple[tuple[int, ...], float, list[Floats]]]:
    """All groups, up to order: their episodes, probability and advantages."""
    every = list(itertools.combinations_with_replacement(range(len(possible)), group))
    # Each group is a batch of its own. Only the scale of gains looks at the batch, so without it all go in one call.
    together = 1 if config.mode in ("scaled_separate", "separate_penalty") else len(every)
    for first in range(0, len(every), together):
        chunk = every[first : first + together]
        rollouts = [made[m] for members in chunk for m in members]
        values = compute_advantages(rollouts, [i // group for i in range(len(rollouts))], config).values
        for number, members in enumerate(chunk):
            orders = math.factorial(group)
            for times in Counter(members).values():
                orders //= math.factorial(times)
            probability = orders * math.prod(possible[m].probability for m in members)
            yield members, probability, values[number * group : (number + 1) * group]


def tables(group: int) -> dict[str, list[dict[str, Any]]]:
    """The tables of ``docs/advantages.md``."""

    def row(world: World, config: AdvantageConfig, assignment: Assignment = "visit_segment") -> dict[str, float]:
        return hints(world, assignment, config, "constant", group)

    centring = [
        {"mode": mode}
        | {
            f"visits {name}, gamma {gamma}": row(world, AdvantageConfig(mode=mode, gamma=gamma))["all"]
            for name, world in (("help", GOOD), ("mislead", BAD))
            for gamma in (1.0, 0.95)
        }
        for mode in MODES
    ]
    discount = [
        {"mode": mode, "unit": unit, "gamma": gamma}
        | row(OUTCOME, AdvantageConfig(mode=mode, gamma=gamma, discount_unit=unit))
        for mode, unit, gamma in (
            ("separate", "event", 1.0),
            ("separate", "event", 0.95),
            ("separate", "event", 0.5),
            ("separate", "turn", 0.5),
            ("turn_neutral", "event", 0.5),
        )
    ]
    addends = [
        {"mode": mode, "assignment": assignment}
        | {
            f"visits {name}": row(
                replace(world, idle="search_before"), AdvantageConfig(mode=mode, gamma=1.0), assignment
            )["all"]
            for name, world in (("help", GOOD), ("mislead", BAD))
        }
        for mode in ("separate", "raw_ig", "turn_neutral")
        for assignment in ASSIGNMENTS
    ]
    aggregations: tuple[Aggregation, ...] = ("constant", "tokens", "sequences")
    grpo = AdvantageConfig(algorithm="grpo", gamma=1.0)
    loss = [
        {"loss divides by": aggregation, "estimator": name}
        | hints(OUTCOME, "visit_segment", config, aggregation, group)
        for name, config in (("grpo", grpo), ("turn_neutral", AdvantageConfig(mode="turn_neutral")))
        for aggregation in aggregations
    ]
    return {"centring": centring, "discount": discount, "addends": addends, "loss": loss}


def main(argv: list[str] | None = None) -> None:
    """Compute, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.stopping_time",
        description="Expected advantage of a turn that brings nothing, exactly, on a tiny task.",
        epilog="example:\n  python -m bench.stopping_time --group 4 --out bench/results/stopping_time.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--group", type=positive, default=4, help="rollouts per group, two or more (default: 4)")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    arguments = parser.parse_args(argv)
    if arguments.group < 2:
        parser.error("--group 1: a rollout alone has nothing to be compared with; use 2 or more")
    found = tables(arguments.group)
    for name, rows in found.items():
        print(f"\n{name}\n{table(rows)}")
    if arguments.out is not None:
        result = {"schema": "venus.bench/1", "group": arguments.group, **found}
        write_text_atomic(arguments.out, json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
