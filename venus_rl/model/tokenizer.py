"""The tiny policy's tokenizer: a byte-level BPE in which a name looks the same wherever it stands.

A model of two million parameters answers by copying names from what it reads into queries, urls and answers. Copying
is learnt many times faster when ``Porto Alegre`` is the same tokens after a space, in quotes, in a url and before a
full stop. Therefore:

* a capitalised word never carries the space before it (the space is a token of its own), digits and punctuation stand
  alone, and only lower-case words may carry a leading space;
* the fixed strings of the protocol (call frames, most of the compact system prompt, the url prefix) are single tokens,
  so that an episode is short: a third of the compute of a training step would otherwise go into them. They are ordinary
  vocabulary, not added tokens, so text from outside that holds them stays plain text.

Every text still round-trips byte for byte: the alphabet is all 256 bytes and nothing is normalised.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from venus_env.tokens import PROTOCOL_TAGS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

END_OF_TEXT: Final = "<|endoftext|>"
IM_START: Final = "<|im_start|>"
IM_END: Final = "<|im_end|>"
CONTROL_TOKENS: Final = (END_OF_TEXT, IM_START, IM_END)
"""Special tokens: padding and the two ends of a ChatML message."""

PROTOCOL_LITERALS: Final = (
    '{"name": "search", "arguments": {"query": ["',
    '{"name": "visit", "arguments": {"url": ["',
    '"], "goal": "',
    '"]}}',
    '"}}',
    "https://venus.wiki/",
    "You answer questions by research.",
    "Tools: search(query: list[str]), visit(url: list[str], goal: str)",
    ", then write one ",
    " ...",
)
"""Fixed strings of compact episodes, each learnt as one piece of the vocabulary."""

WORD_PATTERN: Final = "|".join(
    (
        *map(re.escape, PROTOCOL_LITERALS),
        r"\p{Lu}[\p{Ll}\p{M}]*",  # a capitalised word, or one capital letter
        r" ?\p{Ll}[\p{Ll}\p{M}]*",  # a lower-case word with its space
        r"\p{N}|\s|[^\s\p{L}\p{N}]|\p{L}+",  # one digit, white space or sign; letters without case
    )
)
"""What the byte-pair merges may not cross."""

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Plain ChatML: earlier thinking stays in the context and the generation prompt does not open ``<think>``."""


def train_tokenizer(texts: Iterable[str], vocab_size: int = 4096) -> PreTrainedTokenizerFast:
    """Train the byte-level BPE.

    Args:
        texts: Text to learn merges from, its words weighted as they will occur. The protocol's fixed strings are added.
        vocab_size: Entries in all: 256 bytes, control tokens, tags, literals and merges.

    Returns:
        A tokenizer with the chat template set; ``<|im_end|>`` ends a turn and ``<|endoftext|>`` pads.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers  # type: ignore[import-untyped]
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(PROTOCOL_TAGS),
        special_tokens=list(CONTROL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    literals = itertools.chain.from_iterable(itertools.repeat(literal, 20_000) for literal in PROTOCOL_LITERALS)
    tokenizer.train_from_iterator(itertools.chain(texts, literals), trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in PROTOCOL_TAGS])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[IM_START],
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped
