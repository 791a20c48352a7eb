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
TRAJECTORY = Trajectory(task={}, messages=MESSAGES, turns=[], end="turn_limit")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    torch.set_num_threads(1)
    return tiny.tokenizer()


def naive(
    model: Any, tokenizer: Any, messages: list[Message], answer: str, wrapper: PseudoAnswer, temperature: float = 1.0
) -> float:
    """The oracle: one full forward over context, wrapper and answer, without a cache."""
    context = Renderer(tokenizer).encode(messages).ids
    probe, start = wrapper.tokens(tokenizer, answer)
    ids = [*context, *probe]
    with torch.no_grad():
        logprobs = (model(torch.tensor([ids])).logits[0] / temperature).log_softmax(-1)
    at = range(len(context) + start, len(ids))
    return float(sum(logprobs[i - 1, ids[i]] for i in at) / len(at))


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


RUSSIAN = PseudoAnswer("Теперь сведений достаточно.\n</think>\n<answer>\n", "\n</answer>")
TIGHT = PseudoAnswer("<answer> th", " Sea.</answer>")  # a token holds the end of the prefix and "e North"'s beginning


@pytest.mark.parametrize("make", [tiny.qwen, tiny.llama])
@pytest.mark.parametrize("wrapper", [None, RUSSIAN, TIGHT, PseudoAnswer("", "")])
async def test_one_pass_equals_full_forwards(make: Any, wrapper: PseudoAnswer | None, thinking_tokenizer: Any) -> None:
    model = make(vocab_size=len(thinking_tokenizer))
    answers = ["e North", "Elbe", "Straße 🌊", "北海"]
    used = wrapper or PseudoAnswer.after("<think>\n")
    belief = HFBelief(model, thinking_tokenizer, wrapper=wrapper, temperature=0.7)
    boundaries = [2, 4, 4, 6]  # one twice, the last at the very end
    scores = await belief.score(TRAJECTORY, boundaries, answers)
    expected = [
        [naive(model, thinking_tokenizer, MESSAGES[:boundary], answer, used, 0.7) for answer in answers]
        for boundary in boundaries
    ]
    for values, wanted in zip(scores, expected, strict=True):
        assert values == pytest.approx(wanted, abs=1e-4)
    state = belief.open("Which city?", answers)
    assert await state.update(MESSAGES[:4]) == pytest.approx(expected[1], abs=1e-4)


def test_the_tight_wrapper_shares_tokens_with_answers(thinking_tokenizer: Any) -> None:
    ids, start = TIGHT.tokens(thinking_tokenizer, "e North")
    assert thinking_tokenizer.decode(ids[start:]) == " the North"


async def test_models_that_allow_no_pass_are_asked_boundary_by_boundary(
    tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    model = tiny.qwen(use_sliding_window=True, sliding_window=32, max_window_layers=1)
    scores = await HFBelief(model, tokenizer).score(TRAJECTORY, [2, 4, 6], ANSWERS)
    assert "sees 32 tokens only" in caplog.text
    for values, boundary in zip(scores, (2, 4, 6), strict=True):
        expected = [naive(model, tokenizer, MESSAGES[:boundary], each, PseudoAnswer.after("")) for each in ANSWERS]
        assert values == pytest.approx(expected, abs=1e-4)


async def test_concurrent_episodes_and_whole_trajectories(tokenizer: Any) -> None:
    belief = HFBelief(tiny.qwen(), tokenizer)
    first, second = await asyncio.gather(*(belief.score(TRAJECTORY, [2, 4, 6], ANSWERS) for _ in range(2)))
    assert first == second
    # Several turns at once, as in browse-aware scoring.
    skipping = await belief.score(TRAJECTORY, [2, 6], ANSWERS)
    assert skipping[1] == pytest.approx(first[2], abs=1e-4)
    assert await belief.score(TRAJECTORY, [], ANSWERS) == []
    for boundaries in ([3], [0], [4, 2], [8]):
        with pytest.raises(ValueError, match=r"before a turn|must ascend"):
            await belief.score(TRAJECTORY, boundaries, ANSWERS)
    for answers in ([], ["x", " "]):
        with pytest.raises(ValueError, match="at least one accepted answer"):
            await belief.score(TRAJECTORY, [2], answers)
    with pytest.raises(ValueError, match="temperature"):
        HFBelief(tiny.qwen(), tokenizer, temperature=0.0)


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
    assert len(ids) - start == len("Röm".encode())
    with pytest.raises(ValueError, match="blank"):
        opened.tokens(tokenizer, " ")
    with pytest.raises(ValueError, match="no token of the answer '€'"):
        opened.tokens(_forgetful(), "€")
    with pytest.raises(ValueError, match="pass tokenizer="):
        HFBelief(tiny.qwen())


def _forgetful() -> Any:
    """A tokenizer whose normaliser drops what is not ASCII."""
    from tokenizers import Regex, normalizers
    from transformers import PreTrainedTokenizerFast

    core = tiny.tokenizer().backend_tokenizer
    core.normalizer = normalizers.Replace(Regex("[^\x00-\x7f]"), "")
    return PreTrainedTokenizerFast(tokenizer_object=core)
