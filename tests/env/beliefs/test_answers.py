"""What each belief makes of answers that are out of the ordinary; docs/information_gain.md says it in prose."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.env.beliefs.test_evidence import turn
from tests.env.beliefs.test_hf import naive
from tests.env.policies import tiny
from venus_env.beliefs.lexical import LexicalBelief
from venus_env.beliefs.pseudo_answer import PseudoAnswer
from venus_env.evaluation.rescore import rescore
from venus_env.protocol.trajectory import Trajectory, TurnRecord
from venus_env.protocol.turns import Message
from venus_env.rewards.compose import RewardConfig
from venus_env.rewards.information_gain import best_score, turn_gains
from venus_env.tasks.task import Task

OPENING: list[Message] = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Which one?"}]
BACKGROUND = {"the": 60_000, "of": 30_000, "no": 4_000, "city": 400, "1": 2_000, "2": 2_000, "new": 2_000, "york": 50}


async def lexical_gain(answer: str, *pages: str, question: str = "Which one?") -> float:
    """Gain of the last of some pages."""
    state = LexicalBelief(BACKGROUND).open(question, [answer])
    scores = await state.update(OPENING)
    for page in pages:
        before, scores = scores, await state.update(turn("visit", {"url": ["u"], "goal": "g"}, page))
    return scores[0] - before[0]


@pytest.mark.parametrize("answer", ["yes", "No", "TRUE.", "false", " no ", "++", "?!", "—"])
async def test_lexical_belief_abstains_where_no_page_spells_the_answer_out(answer: str) -> None:
    state = LexicalBelief(BACKGROUND).open("Which one?", [answer, "Paris"])
    scores = await state.update(OPENING)
    assert math.isnan(scores[0])
    assert best_score(scores) == scores[1]  # another accepted answer is scored as if it stood alone
    after = await state.update(turn("visit", {"url": ["u"], "goal": "g"}, f"No, {answer} no. Yes!"))
    assert math.isnan(after[0])


async def test_abstention_leaves_the_episode_unscored_and_not_at_zero() -> None:
    messages = [*OPENING, *turn("visit", {"url": ["u"], "goal": "g"}, "There is no doubt.")]
    turns = [TurnRecord(index=0, kind="tool", format_ok=True, message_index=2, tool="visit")]
    task = Task(id="t", question="Which one?", answers=("no",)).record()
    played = Trajectory(task=task, messages=messages, turns=turns, end="turn_limit")
    scored = await rescore(played, rewards=RewardConfig(), belief=LexicalBelief(BACKGROUND))
    assert scored.turns[0].reward_terms == {}
    assert scored.end == "turn_limit"


async def test_a_longer_answer_with_a_judgement_in_it_is_scored() -> None:
    assert await lexical_gain("No Country", "They saw No Country twice.") > 0


async def test_lexical_belief_reads_numbers_with_and_without_commas() -> None:
    for answer in ("2,493,859", "2493859"):
        for page in ("It had 2,493,859 visitors.", "It had 2493859 visitors."):
            assert await lexical_gain(answer, page) > 3
    assert await lexical_gain("2,493,859", "On September 2, 1998, there were 493 of 859.") < 0
    assert await lexical_gain("2,493,859", "It had 2.493.859 visitors.") < 0  # other groupings are not read


async def test_lexical_belief_reads_dates_in_another_order_but_less_well() -> None:
    same = await lexical_gain("1 October 1895", "He died on 1 October 1895 at home.")
    other = await lexical_gain("1 October 1895", "He died on October 1, 1895 at home.")
    partly = await lexical_gain("1 October 1895", "He died on 1895-10-01 at home.")
    assert same > other > partly
    assert other > 0


async def test_lexical_belief_reads_scripts_without_spaces_by_character() -> None:
    assert await lexical_gain("北京", "中国的首都是北京。") > 2
    assert await lexical_gain("北京", "他住在上海。") < 0
    apart = await lexical_gain("北京", "京都在日本，河北在中国。")
    assert apart < await lexical_gain("北京", "首都北京在中国，不在日本。")


async def test_words_in_other_company_are_hardly_evidence() -> None:
    phrase = await lexical_gain("New York City", "She lives in New York City now.")
    apart = await lexical_gain("New York City", "A new mall opens in the city. Guards come from York.")
    assert phrase > 1
    assert apart < phrase / 3


async def test_answer_in_the_question_gains_where_it_is_read_about() -> None:
    question = "Who is older, Ada King or Ann Rice?"
    assert await lexical_gain("Ada King", "Ada King was born in 1815.", question=question) > 0
    assert await lexical_gain("Ada King", "Ann Rice was born in 1941.", question=question) < 0


async def test_very_long_answer_keeps_its_scale() -> None:
    answer = " ".join(f"word{number}" for number in range(400))
    gain = await lexical_gain(answer, f"{answer}.")
    assert 1 < gain < 20  # per word, not four hundred times as much
    assert 0 < await lexical_gain(answer, " ".join(answer.split()[:40]) + ".") < gain / 2


async def test_best_answer_may_change_between_boundaries() -> None:
    state = LexicalBelief(BACKGROUND).open("Which one?", ["Big Apple", "New York"])
    rows = [await state.update(OPENING)]
    for page in ("The Big Apple.", "They live in New York. New York is old. So New York."):
        rows.append(await state.update(turn("visit", {"url": ["u"], "goal": "g"}, page)))
    assert [row.index(max(row)) for row in rows] == [1, 0, 1]
    gains = turn_gains([best_score(row) for row in rows])
    assert sum(gain for gain in gains if gain is not None) == pytest.approx(best_score(rows[-1]) - best_score(rows[0]))
    assert all(gain is not None and gain > 0 for gain in gains)


LONG = " ".join(["many words"] * 150)


@pytest.mark.parametrize("answer", ["yes", "++", "one?", "2,493,859", "1 October 1895", "北京", "Which one", LONG])
async def test_language_model_scores_every_answer_by_its_tokens(answer: str) -> None:
    torch = pytest.importorskip("torch")
    from venus_env.beliefs.hf import HFBelief

    torch.set_num_threads(1)
    model: Any = tiny.qwen()
    tokenizer: Any = tiny.tokenizer()
    messages = [*OPENING, *turn("visit", {"url": ["u"], "goal": "g"}, "Nothing.")]
    state = HFBelief(model, tokenizer).open("Which one?", [answer])
    for known, new in ((2, messages[:2]), (4, messages[2:])):
        expected = naive(model, tokenizer, messages[:known], answer, PseudoAnswer.after(""))
        assert await state.update(new) == pytest.approx([expected], abs=1e-4)
