"""The text around an answer when a language model is asked how probable it is (method 4.1).

At a turn boundary the policy has not decided to answer yet. So the turn is continued for it: a thought that decides to
answer, then the answer itself, whose tokens are scored. The wording is part of the measure and therefore configurable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_THOUGHT = "Now there's enough information to answer"


@dataclass(frozen=True, slots=True)
class PseudoAnswer:
    """Text before and after the answer; it follows the generation prompt directly."""

    prefix: str
    suffix: str

    @classmethod
    def after(cls, opened: str) -> PseudoAnswer:
        r"""The wrapper for a generation prompt that opens ``opened`` (``"<think>\n"``, or nothing).

        After an opened thought it is the reference's text; otherwise a whole turn in canonical form.
        """
        if opened:
            return cls(f"{_THOUGHT}\n</think>\n<answer>\n", "\n</answer>")
        return cls(f"<think>{_THOUGHT}</think>\n<answer>", "</answer>")

    def tokens(self, tokenizer: Any, answer: str) -> tuple[list[int], int]:
        """Ids of prefix and answer, up to the answer's last token, and the index of the answer's first token.

        The text is tokenised as a whole, as a policy would write it; a token that holds a part of the answer and a
        neighbouring newline counts as the answer's.

        Raises:
            ValueError: The answer is blank, or the tokenizer makes no token of it, so that it has no probability.
        """
        if not answer.strip():
            raise ValueError("a blank answer has no probability")
        text = self.prefix + answer + self.suffix
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        begin, end = len(self.prefix), len(self.prefix) + len(answer)
        inside = [
            index for index, (first, past) in enumerate(encoded["offset_mapping"]) if past > begin and first < end
        ]
        if not inside:
            raise ValueError(f"the tokenizer makes no token of the answer {answer!r}, so it has no probability")
        return list(encoded["input_ids"][: inside[-1] + 1]), inside[0]
