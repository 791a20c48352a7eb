"""The recipe: schedules, loss, and a run that stops and goes on to the same weights."""

from __future__ import annotations

import math
import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from venus_env.tasks.world import make_task, passages, random_world  # noqa: E402
from venus_rl.model.build import ModelSpec, load_policy  # noqa: E402
from venus_rl.model.pretrain import Recipe, Run, loss_of, measure  # noqa: E402

SPEC = ModelSpec(hidden=136, layers=2, heads=2, head_dim=64, feed_forward=32)
RECIPE = Recipe(tokens=2500, vocabulary=700, batch_tokens=1500, drill_phase=0.5, samples_per_world=6, warm_up=2)


@pytest.fixture(scope="module")
def material():
    world = random_world(random.Random(0), 30)
    name = next(n for n in world.entities if next(world.paths(n, 1), None))
    task = make_task(world, next(world.paths(name, 1)), random.Random(0), id="a")
    return passages(world), [task]


def test_schedules():
    recipe = Recipe(learning_rate=1.0, warm_up=10, decay=0.5, drill_phase=0.1)
    assert recipe.rate(0, 0.0) == pytest.approx(0.1)
    assert recipe.rate(50, 0.3) == 1.0
    assert recipe.rate(50, 0.75) == pytest.approx(0.5)
    assert recipe.rate(50, 1.0) == 0.05
    assert recipe.mixture(0.05).drills == 1.0
    assert all(share > 0 for share in recipe.mixture(0.2).hops)


def test_loss_counts_learnt_tokens_only(material, tmp_path):
    run = Run(tmp_path, RECIPE, *material, SPEC)
    ids = [5, 6, 7, 8]
    logits = run.model(input_ids=torch.tensor([ids])).logits.log_softmax(-1)
    expected = -(logits[0, 1, 7] + logits[0, 2, 8]) / 2
    got = loss_of(run.model, [(ids, [0, 0, 1, 1]), ([9, 9], [0, 0])])
    assert got.item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_stopped_run_goes_on_to_the_same_weights(material, tmp_path):
    whole = Run(tmp_path / "whole", RECIPE, *material, SPEC)
    whole.train(episodes=1)
    assert whole.trained >= RECIPE.tokens
    first = Run(tmp_path / "parts", RECIPE, *material, SPEC)
    first._world()
    first._save()
    assert first.trained < RECIPE.tokens
    second = Run(tmp_path / "parts", RECIPE, *material, SPEC)
    assert (second.step, second.trained) == (first.step, first.trained)
    second.train(episodes=1)
    for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    assert load_policy(tmp_path / "parts")[0].config.hidden_size == 136
    with pytest.raises(ValueError, match="another recipe"):
        Run(tmp_path / "parts", Recipe(tokens=1), *material, SPEC)


def test_measure_plays_real_episodes(material, tmp_path):
    run = Run(tmp_path, RECIPE, *material, SPEC)
    rates = measure(run.model, run.renderer, run.names, episodes=1)
    assert set(rates) == {"1 hops", "2 hops", "3 hops"}
    assert all(not math.isnan(rate) and 0 <= rate <= 1 for rate in rates.values())
