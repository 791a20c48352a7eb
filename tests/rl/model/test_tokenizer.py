"""The tiny policy's tokenizer: names look alike everywhere, text round-trips, the layout is ChatML."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from venus_env.protocol.prompt import render_answer, render_call, system_prompt
from venus_env.tokens import Renderer
from venus_rl.model.practice import Arena
from venus_rl.model.tokenizer import CHAT_TEMPLATE, CONTROL_TOKENS, PROTOCOL_LITERALS, PROTOCOL_TAGS, train_tokenizer

pytest.importorskip("transformers")

TEXTS = ["Porto Alegre is a large city in the south.", "The capital of Portugal is Lisbon.", "Open it. Done."] * 50


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS, vocab_size=700)


def test_every_tag_and_control_token_is_one_token_and_only_control_tokens_are_special(tokenizer):
    for text in (*CONTROL_TOKENS, *PROTOCOL_TAGS):
        assert len(tokenizer.encode(text, add_special_tokens=False)) == 1, text
    assert set(tokenizer.all_special_tokens) == set(CONTROL_TOKENS)
    assert tokenizer.eos_token == "<|im_end|>"


def test_protocol_literals_are_single_pieces_of_ordinary_vocabulary(tokenizer):
    for literal in PROTOCOL_LITERALS:
        assert tokenizer.tokenize(literal) == [tokenizer.tokenize(literal)[0]], literal
        assert literal not in tokenizer.get_added_vocab()


@pytest.mark.parametrize("frame", ["{}", " {}", '["{}"]', "https://venus.wiki/{}", "is {}.", ">{}<", "\n{}\n"])
@pytest.mark.parametrize("word", ["Alegre", "Unheardof", "Xy"])
def test_a_name_is_the_same_tokens_in_every_context(tokenizer, frame, word):
    alone = tokenizer.encode(word, add_special_tokens=False)
    framed = tokenizer.encode(frame.format(word), add_special_tokens=False)
    assert any(framed[i : i + len(alone)] == alone for i in range(len(framed)))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_round_trips(tokenizer_text):
    tokenizer = _shared()
    ids = tokenizer.encode(tokenizer_text, add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=False) == tokenizer_text


_cache = []


def _shared():
    if not _cache:
        _cache.append(train_tokenizer(TEXTS, vocab_size=600))
    return _cache[0]


def test_template_is_chatml_that_keeps_thinking_and_does_not_open_it(tokenizer):
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "<think>t</think>\n<answer>a</answer>"},
    ]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    assert text == (
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>t</think>\n<answer>a</answer><|im_end|>\n"
    )
    prompt = tokenizer.apply_chat_template(messages[:1], tokenize=False, add_generation_prompt=True)
    assert prompt == "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.chat_template == CHAT_TEMPLATE


def test_the_literals_are_what_the_protocol_writes(tokenizer):
    """If the protocol's wording changed, episodes would silently grow longer."""
    search = render_call("t", "search", {"query": ["Lisbon"]})
    visit = render_call("t", "visit", {"url": ["https://venus.wiki/Lisbon"], "goal": "capital"})
    for text, literal in ((search, PROTOCOL_LITERALS[0]), (visit, PROTOCOL_LITERALS[1]), (visit, PROTOCOL_LITERALS[2])):
        assert literal in text
    arena_tools = Arena.over(_tiny_world())
    system = system_prompt([arena_tools.search, arena_tools.visit], "compact", None)
    renderer = Renderer(tokenizer)
    assert len(renderer.encode_prompt(system, "q")) < 60
    assert len(renderer.encode_turn(render_answer("t", "Lisbon"))) < 12


def _tiny_world():
    import random

    from venus_env.tasks.world import random_world

    return random_world(random.Random(0), 20)
