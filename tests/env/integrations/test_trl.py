"""Episodes through TRL's own GRPOTrainer, on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pytest

import venus_env  # noqa: F401 (registers the environment)
from tests.env.protocol.tools import Lookup, LookupArguments
from venus_env.integrations.trl import ResearchRollouts, episode_return
from venus_env.models import load_causal_lm, load_tokenizer
from venus_env.protocol.prompt import render_answer, render_call
from venus_env.protocol.turns import Message, ToolResult
from venus_env.tasks.task import Task
from venus_env.tokens import Renderer

PEERS = Path(sys.prefix) / "peers"  # `make install` puts trl there: verl must not find it
if PEERS.is_dir():
    sys.path.append(str(PEERS))
pytest.importorskip("trl", reason="pip install trl==1.16.0, away from verl")
MODEL = Path(__file__).parents[3] / "venus_rl/model/base"
TASK = Task(id="lund", question="In which country is Lund?", answers=("Sweden",))
SEARCH = render_call("Search.", "search", {"query": ["Lund"]})
RIGHT, WRONG = render_answer("Done.", "Sweden"), render_answer("Done.", "Norway")
BROKEN = render_call("Search.", "search", {"query": ["broken"]})


class MayBreak(Lookup):
    async def __call__(self, arguments: LookupArguments) -> ToolResult:
        if arguments.query == ["broken"]:
            raise ConnectionError("the search engine is down")
        return await super().__call__(arguments)


class BrokenBelief:
    def open(self, question: str, answers: Sequence[str]) -> BrokenBelief:
        return self

    async def update(self, messages: Sequence[Message]) -> list[float]:
        raise ConnectionError("the scorer is down")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_tokenizer(MODEL)


def research(**arguments: Any) -> gym.Env[Any, Any]:
    defaults = {"prompt": "compact", "tasks": [TASK], "tools": [MayBreak()], "episode": {"max_turn_tokens": 64}}
    return gym.make("VenusResearch-v0", **{**defaults, **arguments})


def grpo_trainer(rollouts: Any, dataset: Any, tokenizer: Any, folder: Path, *, kind: Any = None) -> Any:
    from trl import GRPOConfig, GRPOTrainer

    arguments = GRPOConfig(
        str(folder),
        use_cpu=True,
        bf16=False,
        seed=5,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=64,
        temperature=1.0,
        max_steps=1,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    with pytest.warns(UserWarning, match="rollout_func"):  # TRL calls the argument experimental
        return (kind or GRPOTrainer)(
            load_causal_lm(MODEL),
            reward_funcs=episode_return,
            rollout_func=rollouts,
            train_dataset=dataset,
            processing_class=tokenizer,
            args=arguments,
        )


@pytest.mark.slow
def test_a_step_of_grpo_on_episodes_that_the_model_plays(tokenizer: Any, tmp_path: Path) -> None:
    """The real loop: TRL generates each turn, the environment replies, TRL computes the loss and steps."""
    rollouts = ResearchRollouts(
        research(tasks="embedded", tools=None, top_k=3, snippet_words=12, max_turns=3, max_context_tokens=700)
    )
    played: list[dict[str, Any]] = []

    def record(prompts: list[str], trainer: Any) -> dict[str, Any]:
        played.append({"prompts": prompts, **rollouts(prompts, trainer)})
        return {name: column for name, column in played[-1].items() if name != "prompts"}

    trainer = grpo_trainer(record, rollouts.dataset(), tokenizer, tmp_path)
    before = trainer.model.lm_head.weight.detach().clone()
    trainer.train()

    (batch,) = played
    assert len(set(batch["prompts"])) == 1
    assert {trajectory.task["id"] for trajectory in batch["trajectory"]} == set(batch["prompts"])
    assert batch["logprobs"] is None
    assert any(len(trajectory.turns) > 1 for trajectory in batch["trajectory"])
    renderer = Renderer(tokenizer)
    for row, trajectory in enumerate(batch["trajectory"]):
        prompt, completion, mask = (batch[name][row] for name in ("prompt_ids", "completion_ids", "env_mask"))
        whole = renderer.decode(renderer.encode(trajectory.messages).ids)
        assert whole.startswith(renderer.decode(prompt + completion))
        assert len(prompt + completion) <= 700
        said = [message["content"] for message in trajectory.messages if message["role"] == "assistant"]
        sampled = renderer.decode([token for token, own in zip(completion, mask, strict=True) if own])
        assert sampled.replace(renderer.layout.end_of_turn, "") == "".join(said)
    log = trainer.state.log_history[0]
    returns = [trajectory.metrics["return"] for trajectory in batch["trajectory"]]
    assert log["rewards/episode_return/mean"] == pytest.approx(sum(returns) / 4, abs=1e-5)
    assert log["completions/mean_length"] == sum(map(sum, batch["env_mask"])) / 4
    assert log["episodes_lost"] == 0
    assert len(set(returns)) > 1
    assert not before.equal(trainer.model.lm_head.weight)


def test_an_episode_that_the_infrastructure_ended_counts_for_nothing(tokenizer: Any, tmp_path: Path) -> None:
    """TRL's own advantages: the lost episode has none, and the others are as if it had not been in the group."""
    from trl import GRPOTrainer

    script = [[SEARCH, RIGHT], [WRONG], [SEARCH, BROKEN], [SEARCH, WRONG]]
    turns = iter([*(turns[0] for turns in script), *(turns[1] for turns in script if len(turns) > 1)])

    class Scripted(GRPOTrainer):  # type: ignore[misc]
        def _generate_single_turn(self, contexts: list[list[int]], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
            return [Renderer(tokenizer).encode_turn(next(turns)) for _ in contexts], None

    rollouts = ResearchRollouts(research(belief=None, max_turns=4))
    trainer = grpo_trainer(rollouts, rollouts.dataset(), tokenizer, tmp_path, kind=Scripted)
    trainer.train()

    rewards, advantages = list(trainer._logs["rewards"]["episode_return"]), list(trainer._logs["advantages"])
    assert rewards[:2] == [1.0, 0.0]
    assert rewards[2] != rewards[2]  # NaN
    assert advantages[2] == 0.0
    deviation = (1 / 3) ** 0.5  # of 1, 0, 0
    assert advantages == pytest.approx([2 / 3 / deviation, -1 / 3 / deviation, 0, -1 / 3 / deviation], abs=1e-3)
    assert trainer.state.log_history[0]["episodes_lost"] == 0.25


def stand_in(tokenizer: Any, *turns: str, eos: int | None = None, logprobs: bool = False) -> Any:
    """What the rollouts use of a trainer, with one scripted row."""
    renderer = Renderer(tokenizer)
    said = iter(renderer.encode_turn(turn) for turn in turns)

    def generate(contexts: list[list[int]], *_: Any, **__: Any) -> tuple[list[list[int]], list[list[float]] | None]:
        ids = [next(said) for _ in contexts]
        return ids, [[-0.5] * len(row) for row in ids] if logprobs else None

    return SimpleNamespace(
        processing_class=tokenizer,
        eos_token_ids=[renderer.end_of_turn_id if eos is None else eos],
        args=SimpleNamespace(seed=0),
        state=SimpleNamespace(global_step=0),
        accelerator=SimpleNamespace(process_index=0),
        _generate_single_turn=generate,
    )


def test_logprobs_of_a_server_stay_beside_their_tokens(tokenizer: Any) -> None:
    batch = ResearchRollouts(research())(["lund"], stand_in(tokenizer, SEARCH, RIGHT, logprobs=True))
    assert batch["logprobs"] == [[-0.5 if own else 0.0 for own in batch["env_mask"][0]]]
    assert 0 in batch["env_mask"][0]


def test_a_lost_episode_carries_no_loss(tokenizer: Any) -> None:
    batch = ResearchRollouts(research())(["lund"], stand_in(tokenizer, SEARCH, BROKEN))
    assert set(batch["env_mask"][0]) == {0}
    assert batch["trajectory"][0].end == "tool_failure"


def test_an_episode_that_cannot_start_is_lost(tokenizer: Any) -> None:
    batch = ResearchRollouts(research(belief=BrokenBelief()))(["lund"], stand_in(tokenizer))
    assert batch["completion_ids"] == [[Renderer(tokenizer).end_of_turn_id]]
    assert batch["env_mask"] == [[0]]
    assert episode_return(batch["trajectory"], lambda name, value: None) == [None]


def test_a_turn_is_cut_to_what_the_rules_leave(tokenizer: Any) -> None:
    rollouts = ResearchRollouts(research(max_turns=1, episode={"max_turn_tokens": 8}))
    batch = rollouts(["lund"], stand_in(tokenizer, RIGHT + "x" * 50))
    assert len(batch["completion_ids"][0]) == 8


def test_the_dataset_names_tasks(tokenizer: Any) -> None:
    dataset = ResearchRollouts(research(tasks="embedded", split=None)).dataset()
    assert set(dataset.column_names) == {"prompt", "question", "split"}
    assert len(set(dataset["prompt"])) == len(dataset)
    assert set(dataset["split"]) == {"train", "dev", "test"}


def test_mistakes_are_named(tokenizer: Any) -> None:
    with pytest.raises(TypeError, match="not a CartPole"):
        ResearchRollouts(gym.make("CartPole-v1"))
    for prompt in ("malmo", [{"role": "user", "content": "In which country is Lund?"}]):
        with pytest.raises(ValueError, match="is no id of a task"):
            ResearchRollouts(research())([prompt], stand_in(tokenizer))  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"generation does not stop at '<\|im_end\|>'"):
        ResearchRollouts(research())(["lund"], stand_in(tokenizer, eos=0))
    with pytest.raises(ValueError, match=r"task 'lund' fills max_context_tokens"):
        ResearchRollouts(research(max_context_tokens=64, episode={"max_turn_tokens": 8}))(["lund"], stand_in(tokenizer))
