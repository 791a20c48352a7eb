"""The recipe of the base policy in ``venus_rl/model/base``.

Exact command (one CPU core)::

    python -m venus_rl.model.pretrain --out DIR --tokens 1000000 --seed 0

It trains the tokenizer on the embedded corpus's text, makes a model that starts with a copying circuit
(:mod:`venus_rl.model.build`) and trains it with Muon (matrices) and AdamW (the rest) on drills and oracle episodes in
made-up worlds (:mod:`venus_rl.model.practice`). Facts and questions of the embedded world are never trained on, and no
word that names an entity on a dev or test path is ever drawn as a name. The tokenizer alone has seen the corpus: which
letters belong together is no fact, but say so when you compare.

The run can be stopped and started again with the same command: it goes on from the last checkpoint, to the same curve.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from venus_env.corpus.document import Passage
from venus_env.policies import thoughts
from venus_env.policies.hf import HFPolicy
from venus_env.tasks.task import Task
from venus_env.tasks.world import KINDS
from venus_env.tokens import Renderer
from venus_rl.model.build import ModelSpec, init_model, save_policy
from venus_rl.model.practice import Arena, Mixture, Names, Practice, Sample, batches, correct
from venus_rl.model.tokenizer import train_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

log = logging.getLogger(__name__)

_STATE = "state.pt"
_MEASURE_SEED = 20_000_000  # worlds that training never draws


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the result.

    Attributes:
        tokens: Tokens to train on, padding not counted; schedules are shares of it.
        seed: Seed of weights, worlds and order.
        vocabulary: Entries of the tokenizer.
        batch_tokens: Padded tokens per step.
        learning_rate: Of the matrices and norms (Muon's updates are scaled to AdamW's size).
        embedding_rate: Of the embeddings, as a share of ``learning_rate``. Small: AdamW moves the many tokens that a
            batch does not hold as fast as the others, all in one direction, until they can no longer be told apart.
        weight_decay: On matrices.
        warm_up: Steps to the full learning rate.
        decay: Last share of the tokens, over which the learning rate falls to a twentieth.
        drill_phase: First share of the tokens, of drills only.
        samples_per_world: Samples drawn from one world before the next is made.
    """

    tokens: int = 1_000_000
    seed: int = 0
    vocabulary: int = 4096
    batch_tokens: int = 4096
    learning_rate: float = 6e-3
    embedding_rate: float = 0.05
    weight_decay: float = 0.05
    warm_up: int = 40
    decay: float = 0.4
    drill_phase: float = 0.06
    samples_per_world: int = 240

    def mixture(self, progress: float) -> Mixture:
        """What to practise after this share of the tokens: all hops from early on, drills throughout."""
        if progress < self.drill_phase:
            return Mixture(drills=1.0, hops=(1, 0, 0))
        return Mixture(drills=0.4 if progress < 0.5 else 0.25, hops=(0.45, 0.4, 0.15))

    def rate(self, step: int, progress: float) -> float:
        """Learning rate at a step."""
        falling = (1 - progress) / self.decay
        return self.learning_rate * min(1.0, (step + 1) / self.warm_up) * max(0.05, min(1.0, falling))


def corpus_texts(passages: Iterable[Passage], tasks: Iterable[Task]) -> list[str]:
    """What the tokenizer learns its merges from: pages, questions, and the oracle's thoughts about them."""
    goals = sorted({relation.goal for kind in KINDS.values() for relation in kind.relations.values()})
    texts = [passage.text for passage in passages]
    for task in tasks:
        texts.append(task.question)
        for step in task.evidence:
            goal, value = step.relation or "", step.value or ""
            texts += [
                thoughts.first(goal, step.title),
                thoughts.onward(goal, value, goal),
                thoughts.found(step.title),
                thoughts.detour(step.title),
                thoughts.back(step.title, step.title),
                thoughts.done(goal, value),
            ]
    # Words that stand after a bracket, a quote or a line break, without their space.
    return [*texts, *goals * 200, *["system", "user", "assistant", "Think in or the", "The", "First", "Next"] * 2000]


def held_out_words(tasks: Iterable[Task]) -> set[str]:
    """Words that name something on the path of a dev or test question."""
    steps = (step for task in tasks if task.split != "train" for step in task.evidence)
    return {word for step in steps for word in f"{step.title} {step.value or ''}".split()} - {"Airport"}


def optimisers(model: Qwen3ForCausalLM, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the blocks, AdamW for embeddings and norms."""
    import torch

    embedding = model.model.embed_tokens.weight
    matrices = [p for p in model.parameters() if p.ndim == 2 and p is not embedding]
    norms = [p for p in model.parameters() if p.ndim != 2]
    return [
        torch.optim.Muon(
            matrices,
            lr=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            momentum=0.95,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(
            [{"params": norms, "share": 1.0}, {"params": [embedding], "share": recipe.embedding_rate}],
            lr=recipe.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=0.0,
        ),
    ]


def loss_of(model: Qwen3ForCausalLM, samples: Sequence[Sample]) -> torch.Tensor:
    """Mean cross-entropy of the learnt tokens; logits are computed for those only."""
    import torch
    from torch.nn import functional

    longest = max(len(ids) for ids, _ in samples)
    ids = torch.zeros(len(samples), longest, dtype=torch.long)
    mask = torch.zeros(len(samples), longest, dtype=torch.bool)
    for row, (tokens, learnt) in enumerate(samples):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = torch.tensor(learnt, dtype=torch.bool)
    # Padding is on the right and attention is causal, so no token sees it.
    hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
    return functional.cross_entropy(model.lm_head(hidden[mask[:, 1:]]), ids[:, 1:][mask[:, 1:]])


def measure(
    model: Qwen3ForCausalLM, renderer: Renderer, names: Names, episodes: int, seed: int = 0, temperature: float = 0.0
) -> dict[str, float]:
    """Success on fresh worlds by number of hops, played out with the real tools."""
    policy = HFPolicy(model, renderer.tokenizer, temperature=temperature, max_turn_tokens=96, seed=seed)

    async def play(arena: Arena, task: Task, number: int) -> bool:
        player = policy.new_episode(seed=number)
        messages = arena.opening(task.question)
        for _ in range(2 * (task.hops or 1) + 3):
            turn = await player.act(messages)
            messages.append({"role": "assistant", "content": turn})
            reply = await arena.reply(turn)
            if reply is None:
                break
            messages.append({"role": "user", "content": reply})
        return correct(messages, task)

    async def play_all() -> dict[str, float]:
        rates = {}
        for hops in (1, 2, 3):
            rng = random.Random(_MEASURE_SEED + 10 * seed + hops)
            arena = Arena.draw(rng, names)
            tasks = [arena.task(rng, hops) for _ in range(episodes)]
            won = await asyncio.gather(*(play(arena, task, number) for number, task in enumerate(tasks)))
            rates[f"{hops} hops"] = round(sum(won) / episodes, 3)
        return rates

    model.eval()
    rates = asyncio.run(play_all())
    model.train()
    return rates


class Run:
    """One pretraining run in a folder, resumable.

    Args:
        out: Folder for the state, the log and, at the end, the policy.
        recipe: What to do.
        passages: Text for the tokenizer.
        tasks: Questions, for the tokenizer and to know what is held out.
        spec: Sizes of the model.
    """

    def __init__(
        self, out: Path, recipe: Recipe, passages: Sequence[Passage], tasks: Sequence[Task], spec: ModelSpec
    ) -> None:
        self.out, self.recipe = out, recipe
        out.mkdir(parents=True, exist_ok=True)
        self.tokenizer = self._tokenizer(passages, tasks)
        self.renderer = Renderer(self.tokenizer)
        pieces = [self.tokenizer.decode([i]) for i in range(len(self.tokenizer))]
        self.names = Names(pieces, held_out_words(tasks))
        self.practice = Practice(self.renderer, self.names, recipe.seed)
        self.model = init_model(spec, self.tokenizer, recipe.seed)
        self.optimisers = optimisers(self.model, recipe)
        self.step = self.trained = 0
        self.seconds = 0.0
        if (out / _STATE).is_file():
            self._resume()

    def _tokenizer(self, passages: Sequence[Passage], tasks: Sequence[Task]) -> PreTrainedTokenizerFast:
        from transformers import AutoTokenizer

        if (self.out / "tokenizer.json").is_file():
            return AutoTokenizer.from_pretrained(self.out)
        tokenizer = train_tokenizer(corpus_texts(passages, tasks), self.recipe.vocabulary)
        tokenizer.save_pretrained(self.out)
        return tokenizer

    def train(self, save_every: float = 120.0, measure_every: float = 420.0, episodes: int = 48) -> None:
        """Train until the recipe's tokens are used up, then write the policy."""
        saved = measured = self.seconds
        with tqdm(total=self.recipe.tokens, initial=self.trained, unit="tok", unit_scale=True) as bar:
            while self.trained < self.recipe.tokens:
                began = time.monotonic()
                before = self.trained
                loss = self._world()
                self.seconds += time.monotonic() - began
                bar.update(self.trained - before)
                bar.set_postfix(loss=f"{loss:.3f}", step=self.step)
                finished = self.trained >= self.recipe.tokens
                if finished or self.seconds - saved > save_every:
                    saved = self.seconds
                    self._save()
                if finished or self.seconds - measured > measure_every:
                    measured = self.seconds
                    self._log(loss, measure(self.model, self.renderer, self.names, episodes))
        save_policy(self.model, self.tokenizer, self.out)

    def _world(self) -> float:
        """Train on the samples of one world; the mean loss."""
        import torch

        recipe, progress = self.recipe, self.trained / self.recipe.tokens
        samples = self.practice.batch(recipe.samples_per_world, recipe.mixture(progress))
        losses = []
        for batch in batches(samples, recipe.batch_tokens, self.practice.rng):
            rate = recipe.rate(self.step, self.trained / recipe.tokens)
            loss = loss_of(self.model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            for optimiser in self.optimisers:
                for group in optimiser.param_groups:
                    group["lr"] = rate * group.get("share", 1.0)
                optimiser.step()
                optimiser.zero_grad()
            losses.append(loss.item())
            self.step += 1
            self.trained += sum(len(ids) for ids, _ in batch)
        return sum(losses) / len(losses)

    def _log(self, loss: float, rates: dict[str, float]) -> None:
        record = {
            "step": self.step,
            "tokens": self.trained,
            "seconds": round(self.seconds),
            "loss": round(loss, 4),
            "success": rates,
        }
        log.info("%s", record)
        with (self.out / "log.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")

    def _save(self) -> None:
        import torch

        state: dict[str, Any] = {
            "recipe": asdict(self.recipe),
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "rng": self.practice.rng.getstate(),
            "progress": (self.step, self.trained, self.seconds),
        }
        torch.save(state, self.out / f"{_STATE}.tmp")
        os.replace(self.out / f"{_STATE}.tmp", self.out / _STATE)

    def _resume(self) -> None:
        import torch

        state = torch.load(self.out / _STATE, weights_only=True)
        if state["recipe"] != asdict(self.recipe):
            raise ValueError(
                f"{self.out} holds a run of another recipe ({state['recipe']}); give another --out or the same options"
            )
        self.model.load_state_dict(state["model"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        version, internal, gauss = state["rng"]
        self.practice.rng.setstate((version, tuple(internal), gauss))
        self.step, self.trained, self.seconds = state["progress"]
        log.info("resuming at step %d, %d tokens", self.step, self.trained)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of the recipe."""
    import torch

    from corpora import EMBEDDED
    from venus_env.corpus.rows import read_passages
    from venus_env.tasks.loaders import load_tasks

    recipe = Recipe()
    parser = argparse.ArgumentParser(prog="python -m venus_rl.model.pretrain", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the run; resumed if it holds one")
    parser.add_argument("--tokens", type=int, default=recipe.tokens)
    parser.add_argument("--seed", type=int, default=recipe.seed)
    parser.add_argument("--learning-rate", type=float, default=recipe.learning_rate)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(options.threads)
    recipe = Recipe(tokens=options.tokens, seed=options.seed, learning_rate=options.learning_rate)
    passages = list(read_passages(EMBEDDED / "passages.jsonl.gz"))
    Run(options.out, recipe, passages, load_tasks("embedded"), ModelSpec()).train()


if __name__ == "__main__":
    main()
