"""The one chat renderer: messages → token ids, loss mask, turn spans, boundaries.

Supervised fine-tuning, the reinforcement-learning loop and the token-exact policy all build their context here, so that
what is trained on is what is sampled. Three rules hold:

* **Append-only.** Every message is encoded once, when it arrives, and never again; ids that are in a conversation stay
  as they are. Earlier thinking therefore stays in context, also under chat templates that would strip it from history.
* **Token-in, token-out.** Sampled ids are kept as sampled; they are never decoded and encoded again.
* **Text cannot forge structure.** Only the chat layout itself writes control tokens. In system and assistant text the
  protocol tags of the model's own vocabulary are recognised; in user text (questions, tool results) nothing but the
  outer ``<tool_response>`` wrapper is, so a web page that holds ``<|im_start|>`` or ``<think>`` stays plain characters.

The strings around messages come from the tokenizer's chat template (:class:`ChatLayout`), once per tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from venus_env.protocol.turns import Message

PROTOCOL_TAGS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<answer>",
    "</answer>",
)
"""Tags that trusted text may use as single tokens where the vocabulary has them."""

_OPEN, _CLOSE = "<tool_response>", "</tool_response>"


class ChatTokenizer(Protocol):
    """The part of a Hugging Face tokenizer that the renderer uses."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Encode ``text``; added tokens in it are recognised."""
        ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> Any:
        """Decode ids to text."""
        ...

    def get_added_vocab(self) -> Mapping[str, int]:
        """Tokens that were added on top of the model's own pieces, special ones included."""
        ...

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any:
        """Render messages with the tokenizer's chat template."""
        ...


@dataclass(frozen=True, slots=True)
class ChatLayout:
    r"""The constant strings that a chat template puts around message texts.

    A conversation reads ``before_system S system_to_user Q user_to_turn A end_of_turn turn_to_user R user_to_turn …``.

    Attributes:
        before_system: Start of the conversation, up to the system text.
        system_to_user: Between the system text and the question.
        user_to_turn: Between a user text and what the model generates: the generation prompt, with a ``<think>\n`` that
            the template opens.
        end_of_turn: The one token with which the model ends a turn.
        turn_to_user: Between the end of a turn and the next user text.
    """

    before_system: str
    system_to_user: str
    user_to_turn: str
    end_of_turn: str
    turn_to_user: str

    @property
    def opened(self) -> str:
        r"""The thinking tag that the generation prompt opens (``"<think>\n"``), or ``""``."""
        if not self.user_to_turn.rstrip().endswith("<think>"):
            return ""
        return self.user_to_turn[self.user_to_turn.rindex("<think>") :]

    @classmethod
    def from_tokenizer(cls, tokenizer: ChatTokenizer, **template_kwargs: Any) -> ChatLayout:
        """Read the layout off a chat template by rendering marked messages.

        Args:
            tokenizer: A tokenizer with a chat template.
            **template_kwargs: Passed on to the template, e.g. ``enable_thinking=False``.

        Raises:
            ValueError: The template changes or drops message texts, or renders two turns differently.
        """
        system, question, first, result, second, last = (f"venus{i}sentinel" for i in range(6))
        wrapped = f"{_OPEN}\n{result}\n{_CLOSE}"
        wrapped_last = f"{_OPEN}\n{last}\n{_CLOSE}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        prompt = _render(tokenizer, messages, template_kwargs)
        messages += [
            {"role": "assistant", "content": first},
            {"role": "user", "content": wrapped},
            {"role": "assistant", "content": second},
            {"role": "user", "content": wrapped_last},
        ]
        full = _render(tokenizer, messages, template_kwargs)
        before_system, system_to_user, user_to_turn = _between(prompt, system, question)
        *_, after_first, _, after_second, to_turn = _between(
            full, system, question, first, wrapped, second, wrapped_last
        )
        if not after_first.startswith(tuple(tokenizer.get_added_vocab())):
            raise ValueError(
                f"the chat template ends an assistant turn with {after_first!r}, which starts with no added token of "
                "the vocabulary; the model could never end its turn. Add an end-of-turn token to the tokenizer."
            )
        if to_turn != user_to_turn or after_second != after_first:
            raise ValueError(
                "the chat template renders a later turn differently from the first "
                f"({user_to_turn!r} / {to_turn!r}, {after_first!r} / {after_second!r}); such a template cannot be "
                "extended append-only. Use a template whose message frame does not depend on the position."
            )
        end_of_turn = max((t for t in tokenizer.get_added_vocab() if after_first.startswith(t)), key=len)
        return cls(before_system, system_to_user, user_to_turn, end_of_turn, after_first.removeprefix(end_of_turn))


def _render(tokenizer: ChatTokenizer, messages: list[dict[str, str]], kwargs: Mapping[str, Any]) -> str:
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **kwargs)
    except Exception as error:  # templates raise their own jinja errors, e.g. "system role not supported"
        raise ValueError(f"the chat template cannot render system, user and assistant messages: {error}") from error
    return str(text)


def _between(text: str, *marks: str) -> list[str]:
    """Split ``text`` at each mark in order; n marks give n + 1 pieces."""
    pieces = []
    for mark in marks:
        before, found, text = text.partition(mark)
        if not found:
            raise ValueError(f"the chat template drops or changes message text: {mark!r} is missing from its output")
        pieces.append(before)
    return [*pieces, text]


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """Tokens ``[start, end)`` of a conversation that turn ``turn`` contributed to the loss.

    An end-of-turn token that the model sampled (or that supervised text ends with) is inside; one that the renderer had
    to add because sampling stopped early is not. A turn of no tokens has ``start == end``.
    """

    turn: int
    start: int
    end: int


class Renderer:
    """Encodes the pieces of a conversation for one tokenizer.

    Args:
        tokenizer: A byte-level tokenizer with a chat template (Qwen, Llama 3, SmolLM, the tiny policy, …).
        layout: Its layout; read off the chat template when None.

    Attributes:
        tokenizer: As given.
        layout: The chat layout in use.
        end_of_turn_id: Id of the token that ends a turn.
    """

    def __init__(self, tokenizer: ChatTokenizer, layout: ChatLayout | None = None) -> None:
        self.tokenizer = tokenizer
        self.layout = layout if layout is not None else ChatLayout.from_tokenizer(tokenizer)
        added = dict(tokenizer.get_added_vocab())
        self._tags = {tag: added[tag] for tag in PROTOCOL_TAGS if tag in added}
        self._tag_pattern = re.compile("(" + "|".join(map(re.escape, self._tags)) + ")") if self._tags else None
        # One pass over a text, however many tokens were added: Llama 3 reserves 250 of them.
        self._added_pattern = re.compile("|".join(re.escape(token) for token in added if len(token) > 1) or "(?!)")
        self.end_of_turn_id = added[self.layout.end_of_turn]
        if self.decode([*self._plain("x"), *self._plain("y")]) != "xy":
            raise ValueError(
                "the tokenizer writes a space before every text that it encodes, so pieces cannot be encoded on "
                "their own; use a byte-level tokenizer"
            )
        self._user_to_turn_ids = self._layout_ids(self.layout.user_to_turn)
        layout = self.layout
        frames = (layout.before_system, layout.system_to_user, layout.turn_to_user)
        self._frames = {frame: self._split(frame, added) for frame in frames}

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids to text, control tokens included."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def count_tokens(self, text: str) -> int:
        """Length of a text in tokens, for budgets."""
        return len(self.tokenizer.encode(text, add_special_tokens=False))

    def decode_turn(self, ids: Sequence[int]) -> str:
        r"""Text of a sampled turn as the protocol reads it.

        The closing end-of-turn token is dropped and the ``<think>\n`` that stands in the generation prompt is put back.
        """
        kept = list(ids[:-1]) if len(ids) > 0 and ids[-1] == self.end_of_turn_id else list(ids)
        return self.layout.opened + self.decode(kept)

    def encode_prompt(self, system: str, question: str) -> list[int]:
        """Ids of the opening of a conversation, generation prompt included."""
        return [
            *self._framed(self.layout.before_system, system, trusted=True),
            *self._framed(self.layout.system_to_user, question, trusted=False),
            *self._user_to_turn_ids,
        ]

    def encode_user(self, text: str) -> list[int]:
        """Ids that follow an end-of-turn token: a user message and the next generation prompt."""
        return [*self._framed(self.layout.turn_to_user, text, trusted=False), *self._user_to_turn_ids]

    def encode_turn(self, text: str) -> list[int]:
        r"""Ids that a model should have sampled for ``text``, end-of-turn token included.

        Where the generation prompt opens ``<think>\n``, the same opening is taken off the text.
        """
        if self.layout.opened and text.startswith("<think>"):
            text = text.removeprefix("<think>").lstrip("\n")
        return [*self._tagged(_well_formed(text)), self.end_of_turn_id]

    def encode(self, messages: Sequence[Message]) -> Conversation:
        """Render a whole conversation: system, user, then assistant and user in turn."""
        conversation = Conversation(self)
        conversation.open(messages[:2])
        for index, message in enumerate(messages[2:], start=2):
            role = message["role"]
            if role == "assistant":
                conversation.add_assistant(message["content"])
            elif role == "user":
                conversation.add_user(message["content"])
            else:
                raise ValueError(
                    f"message {index} has role {role!r}; after the question only assistant and user alternate"
                )
        return conversation

    def _split(self, frame: str, added: Iterable[str]) -> tuple[list[int], str]:
        """Ids of a frame up to its last control token, and the text after that."""
        cut = max((frame.rindex(token) + len(token) for token in added if token in frame), default=0)
        return self._layout_ids(frame[:cut]), frame[cut:]

    def _layout_ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False) if text else []

    def _framed(self, frame: str, text: str, *, trusted: bool) -> list[int]:
        r"""Encode layout and text; ids equal those of a full render also where the text starts with white space.

        Only the frame's tail after its last control token (``"user\n"``) can merge with the text, so the two are
        encoded together.
        """
        (head, lead), text = self._frames[frame], _well_formed(text)
        if trusted:
            return [*head, *self._tagged(lead + text)]
        wrapped = text.startswith(_OPEN) and text.removeprefix(_OPEN).endswith(_CLOSE)
        if wrapped and _OPEN in self._tags and _CLOSE in self._tags:
            inner = self._plain(text[len(_OPEN) : -len(_CLOSE)])
            return [*head, *self._plain(lead), self._tags[_OPEN], *inner, self._tags[_CLOSE]]
        return [*head, *self._plain(lead + text)]

    def _tagged(self, text: str) -> list[int]:
        """Encode text in which protocol tags of the vocabulary count as tokens."""
        if self._tag_pattern is None:
            return self._plain(text)
        ids: list[int] = []
        for piece in self._tag_pattern.split(text):
            if piece in self._tags:
                ids.append(self._tags[piece])
            else:
                ids += self._plain(piece)
        return ids

    def _plain(self, text: str) -> list[int]:
        """Encode text in which no added token is recognised: each is broken after its first character."""
        ids: list[int] = []
        start = 0
        while found := self._added_pattern.search(text, start):  # tokens may overlap: go on after the first character
            ids += self.tokenizer.encode(text[start : found.start() + 1], add_special_tokens=False)
            start = found.start() + 1
        if start < len(text):
            ids += self.tokenizer.encode(text[start:], add_special_tokens=False)
        return ids


def _well_formed(text: str) -> str:
    """Replace lone surrogates, which JSON escapes can smuggle in and no tokenizer accepts, by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@dataclass(slots=True)
class Conversation:
    """An append-only token sequence with its loss mask, log-probabilities and turn structure.

    Attributes:
        renderer: Encodes what is added.
        ids: Token ids so far.
        mask: 1 for tokens that the model produced (or should learn to), 0 for context; as long as ``ids``.
        logprobs: Log-probability of each sampled token under the policy that sampled it; 0.0 for context.
        turns: Spans of the assistant turns, in order.
        boundaries: ``boundaries[s]`` is the number of context tokens, generation prompt included, at which turn ``s``
            starts; ``boundaries[0]`` is the prompt length. One longer than ``turns`` while a turn is awaited.
    """

    renderer: Renderer
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: list[TurnSpan] = field(default_factory=list)
    boundaries: list[int] = field(default_factory=list)

    def open(self, messages: Sequence[Message]) -> None:
        """Start with the system and the user message."""
        if self.ids:
            raise ValueError("the conversation is already open")
        roles = [message["role"] for message in messages]
        if roles != ["system", "user"]:
            raise ValueError(f"a conversation opens with one system and one user message, got roles {roles}")
        self._add_context(self.renderer.encode_prompt(messages[0]["content"], messages[1]["content"]))
        self.boundaries.append(len(self.ids))

    def add_sampled(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> None:
        """Add a turn exactly as sampled; an end-of-turn token that is missing (length limit) is added as context."""
        if logprobs is not None and len(logprobs) != len(ids):
            raise ValueError(f"{len(ids)} sampled tokens but {len(logprobs)} log-probabilities")
        self._add_turn(ids, logprobs)

    def add_assistant(self, text: str) -> None:
        """Add a turn from text: its tokens and its end-of-turn token carry loss."""
        self._add_turn(self.renderer.encode_turn(text), None)

    def add_user(self, text: str) -> None:
        """Add a user message (a tool response) and the generation prompt of the next turn."""
        if not self.ids or len(self.boundaries) != len(self.turns):
            raise ValueError("a user message must follow an assistant turn")
        self._add_context(self.renderer.encode_user(text))
        self.boundaries.append(len(self.ids))

    def _add_turn(self, ids: Sequence[int], logprobs: Sequence[float] | None) -> None:
        if len(self.boundaries) != len(self.turns) + 1:
            raise ValueError("an assistant turn must follow a user message")
        start = len(self.ids)
        self.ids += ids
        self.mask += [1] * len(ids)
        self.logprobs += logprobs if logprobs is not None else [0.0] * len(ids)
        self.turns.append(TurnSpan(len(self.turns), start, len(self.ids)))
        if len(self.ids) == start or self.ids[-1] != self.renderer.end_of_turn_id:
            self._add_context([self.renderer.end_of_turn_id])

    def _add_context(self, ids: Sequence[int]) -> None:
        self.ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)
