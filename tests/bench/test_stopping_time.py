import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import stopping_time
from bench.stopping_time import BAD, GOOD, OUTCOME, Aggregation, World, episodes, hints, rewards
from venus_rl.igpo.advantage import AdvantageConfig

MISLEADING_LUCK = World((-0.2, -1.0), success=(0.9, 0.1))


def hint(
    world: World, *, assignment: Any = "visit_segment", group: int = 3, divide: Aggregation = "constant", **config: Any
) -> dict[str, float]:
    return hints(world, assignment, AdvantageConfig(**{"gamma": 1.0, **config}), divide, group)


def test_the_task_is_whole() -> None:
    possible = episodes(GOOD)
    assert len(possible) == 12
    assert sum(episode.probability for episode in possible) == pytest.approx(1)
    one = next(e for e in possible if (e.unlucky, e.idle, e.right) == (0, 2, 1))
    assert one.probability == pytest.approx(0.5 * 0.25 * 0.5)
    assert [(e.turn, e.value) for e in rewards(one, GOOD, "visit_segment").events] == [(0, 1), (1, 0), (2, 0), (3, 1)]
    before = rewards(one, replace(GOOD, idle="search_before"), "visit_segment")
    assert [(e.turn, e.value) for e in before.events] == [(2, 1), (3, 1)]


def test_centred_gains_charge_or_pay_for_every_turn() -> None:
    """Worked by hand for a large group: the pool holds one visit and .75 idle turns a rollout, mean .6 / 1.75 = .343.

    Its variance is (1 + .04) / 2 / 1.75 - .343² = .1796. An idle turn earns -.343 / .4237 = -.809, and who takes one
    takes 1.5 of them.
    """
    assert hint(GOOD, mode="separate")["all"] == pytest.approx(-1.5 * 0.809, abs=0.05)
    assert hint(BAD, mode="separate")["all"] == pytest.approx(1.5 * 0.809, abs=0.05)


@pytest.mark.parametrize("mode", ["joint", "scaled_separate", "separate_penalty"])
def test_so_do_the_other_centred_modes(mode: str) -> None:
    assert hint(GOOD, mode=mode)["all"] < -0.5
    assert hint(BAD, mode=mode)["all"] > 0.1


@pytest.mark.parametrize("world", [GOOD, BAD, OUTCOME, MISLEADING_LUCK], ids=["good", "bad", "outcome", "luck"])
@pytest.mark.parametrize("assignment", ["visit_segment", "every_turn"])
def test_turn_neutral_gives_no_hint(world: World, assignment: str) -> None:
    """Whatever gamma and unit are set to; with every idle turn an event."""
    for config in ({"gamma": 0.5}, {"gamma": 0.5, "discount_unit": "turn"}, {"adaptive_gamma_min_weight": 0.3}):
        found = hint(world, assignment=assignment, group=2, mode="turn_neutral", **config)
        assert list(found.values()) == pytest.approx([0, 0, 0], abs=1e-9)


def test_turn_neutral_still_tells_good_turns_from_bad_ones() -> None:
    """The same task with idle turns that show something: they bring 0.3, or cost 0.3, each."""
    for gain in (0.3, -0.3):
        found = hint(replace(GOOD, idle_gain=gain), mode="turn_neutral")["all"]
        assert found * gain > 0.1


def test_a_discount_makes_bad_outcomes_worth_delaying() -> None:
    undiscounted = hint(OUTCOME, mode="separate")
    discounted = hint(OUTCOME, mode="separate", gamma=0.5)
    assert list(undiscounted.values()) == pytest.approx([0, 0, 0], abs=1e-9)
    assert discounted["lucky"] < -0.2
    assert discounted["unlucky"] > 0.2
    assert discounted["all"] == pytest.approx(0, abs=1e-9)


def test_copies_are_added_up_once_more_for_every_search() -> None:
    searching = replace(GOOD, idle="search_before")
    assert hint(searching, mode="turn_neutral", assignment="visit_copied")["all"] > 0.5
    assert hint(searching, mode="turn_neutral", assignment="visit_segment")["all"] == pytest.approx(0, abs=1e-9)


def test_sequence_means_dilute_what_long_rollouts_learn_and_token_means_of_large_batches_do_not() -> None:
    by_sequence = hint(OUTCOME, algorithm="grpo", divide="sequences")
    assert by_sequence["unlucky"] > 0.2
    assert by_sequence["lucky"] < -0.2
    by_token = [hint(OUTCOME, algorithm="grpo", divide="tokens", group=group)["unlucky"] for group in (2, 4)]
    assert by_token[1] < by_token[0] * 1.2
    assert by_token[1] < by_sequence["unlucky"] / 2


def test_the_committed_tables_are_those_of_this_code() -> None:
    """A spot check: the whole takes minutes."""
    results = Path(stopping_time.__file__).parent / "results" / "stopping_time.json"
    committed = json.loads(results.read_text(encoding="utf-8"))
    (row,) = [row for row in committed["centring"] if row["mode"] == "separate"]
    found = hint(GOOD, mode="separate", group=committed["group"])["all"]
    assert row["visits help, gamma 1.0"] == pytest.approx(found, abs=1e-9)
