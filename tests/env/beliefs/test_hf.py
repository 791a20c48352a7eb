from __future__ import annotations

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.env.beliefs.test_evidence import turn
from tests.env.policies import tiny
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from venus_env.beliefs.base import open_belief  # noqa: E402
from venus_env.beliefs.hf import HFBelief  # noqa: E402
from venus_env.beliefs.pseudo_answer import PseudoAnswer  # noqa: E402
from venus_env.tokens import Renderer  # noqa: E402

MESSAGES: list[Message] = [
    {"role": "system", "content": "Answer."},
    {"role": "user", "content": "Which city?"},
    *turn("search", {"query": ["city"]}, "Paris is a city."),
    *turn("visit", {"url": ["u"], "goal": "g"}, "Rome is one, too."),
]
ANSWERS = ["Paris", "Röme now"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    torch.set_num_threads(1)
    return tiny.tokenizer()


def naive(model: Any, tokenizer: Any, messages: list[Message], answer: str, wrapper: PseudoAnswer) -> float:
    """One full forward over context, wrapper and answer; the byte tokenizer lets the span be counted by hand."""
    context = Renderer(tokenizer).encode(messages).ids
    prefix = tokenizer.encode(wrapper.prefix, add_special_tokens=False)
    target = tokenizer.encode(answer, add_special_tokens=False)
    assert len(target) == len(answer.encode())
    ids = [*context, *prefix, *target]
    with torch.no_grad():
        logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    at = range(len(ids) - len(target), len(ids))
    return float(sum(logprobs[i - 1, ids[i]] for i in at) / len(target))


@pytest.mark.parametrize("make", [tiny.qwen, tiny.llama])
@pytest.mark.parametrize("wrapper", [None, PseudoAnswer("", "")])
async def test_increments_equal_full_forwards(make: Any, wrapper: PseudoAnswer | None, tokenizer: Any) -> None:
    model = make()
    state = HFBelief(model, tokenizer, wrapper=wrapper).open("Which city?", ANSWERS)
    used = wrapper or PseudoAnswer.after("")
    done = 0
    for boundary in (2, 4, 6):
        scores = await state.update(MESSAGES[done:boundary])
        expected = [naive(model, tokenizer, MESSAGES[:boundary], answer, used) for answer in ANSWERS]
        assert scores == pytest.approx(expected, abs=1e-4)
        done = boundary


async def test_concurrent_episodes_and_whole_trajectories(tokenizer: Any) -> None:
    belief = HFBelief(tiny.qwen(), tokenizer)
    trajectory = Trajectory(task={}, messages=MESSAGES, turns=[], end="turn_limit")
    first, second = await asyncio.gather(*(belief.score(trajectory, [2, 4, 6], ANSWERS) for _ in range(2)))
    assert first == second
    # Several turns at once, as in browse-aware scoring.
    skipping = await belief.score(trajectory, [2, 6], ANSWERS)
    assert skipping[1] == pytest.approx(first[2], abs=1e-4)
    with pytest.raises(ValueError, match="before a turn"):
        await belief.score(trajectory, [3], ANSWERS)


async def test_from_folder_pickled_and_copied(tokenizer: Any, tmp_path: Path) -> None:
    tiny.qwen().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    belief = open_belief(f"hf:{tmp_path}")
    assert belief is not None
    expected = await belief.open("?", ANSWERS).update(MESSAGES[:2])
    for other in (pickle.loads(pickle.dumps(belief)), copy.deepcopy(belief)):
        assert await other.open("?", ANSWERS).update(MESSAGES[:2]) == pytest.approx(expected, abs=1e-5)


def test_wrapper_follows_the_template(tokenizer: Any) -> None:
    opened = PseudoAnswer.after("<think>\n")
    assert opened.prefix == "Now there's enough information to answer\n</think>\n<answer>\n"
    ids, start = opened.tokens(tokenizer, "Röm")
    assert tokenizer.decode(ids[start:]) == "Röm"
    assert tokenizer.decode(ids[:start]) == opened.prefix
    with pytest.raises(ValueError, match="blank"):
        opened.tokens(tokenizer, " ")
    with pytest.raises(ValueError, match="pass tokenizer="):
        HFBelief(tiny.qwen())
