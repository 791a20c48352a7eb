"""Session fixtures that several rooms share: small byte-level tokenizers with ChatML control tokens."""

from __future__ import annotations

import signal
from typing import Any

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # the tests run as a background job; some send Ctrl-C to others
    signal.signal(signal.SIGINT, signal.default_int_handler)

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
TEXT = [
    "The Elbe rises in the Giant Mountains and flows through Dresden, Magdeburg and Hamburg to the North Sea.",
    "You answer questions by research. search visit query url goal answer user assistant system tool",
    'Which river flows through Dresden? {"name": "search", "arguments": {"query": ["Elbe river"]}}',
    "Ada Lovelace was born in London in 1815; she wrote the first program.\n\nThe page lists 12 towns.",
    "One.\n\n\n\nTwo.\n\n\n\nThree.\n\n  Four.",
]

PLAIN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Like the templates of thinking models: the generation prompt opens <think>, and thoughts of turns before the last real
# question (a user message that is no tool response) are stripped.
THINKING_TEMPLATE = (
    "{% set ns = namespace(last=0) %}"
    "{% for m in messages %}"
    "{% if m.role == 'user' and not m.content.startswith('<tool_response>') %}"
    "{% set ns.last = loop.index0 %}"
    "{% endif %}"
    "{% endfor %}"
    "{% for m in messages %}"
    "{% set text = m.content %}"
    "{% if m.role == 'assistant' and '</think>' in text and loop.index0 < ns.last %}"
    "{% set text = text.split('</think>')[-1].lstrip('\n') %}"
    "{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ text }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)


def train_tokenizer(template: str, texts: list[str] | None = None, vocab_size: int = 600) -> Any:
    """Train a byte-level BPE on a few sentences; protocol tags are ordinary added tokens, as in Qwen3."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=CONTROL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts or TEXT, trainer)
    backend.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="session")
def chatml_tokenizer() -> Any:
    """ChatML; the model writes its own ``<think>``."""
    return train_tokenizer(PLAIN_TEMPLATE)


@pytest.fixture(scope="session")
def thinking_tokenizer() -> Any:
    r"""ChatML whose generation prompt opens ``<think>\n`` and whose history loses old thoughts."""
    return train_tokenizer(THINKING_TEMPLATE)
