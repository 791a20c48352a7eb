"""A belief answers one question again and again: how probable is the right answer, given what was read so far?

A belief is opened per episode and then fed only the *new* messages of each turn, so that nothing is scored twice. It
knows the accepted answers; a policy never sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from venus_env.corpus.document import Corpus
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message
from venus_env.tokens import Conversation, Renderer


@runtime_checkable
class BeliefState(Protocol):
    """The belief about one episode so far."""

    async def update(self, new_messages: Sequence[Message]) -> list[float]:
        """Take in messages appended since the last call, and score.

        The first call gets the opening messages (system and question) and returns the score at boundary 0; each later
        call gets the messages of one turn or more, in order.

        Returns:
            Mean log-probability per answer token, one entry per accepted answer, in their order. NaN where the belief
            abstains from an answer, at this boundary and at all others; the best of the rest counts, and an episode
            whose every answer it abstains from is not scored.
        """
        ...


@runtime_checkable
class Belief(Protocol):
    """Who scores the answers. Opening is cheap; the work happens in ``update`` and ``score``."""

    def open(self, question: str, answers: Sequence[str]) -> BeliefState:
        """Start the belief of one episode."""
        ...

    async def score(
        self, trajectory: Trajectory, boundaries: Sequence[int], answers: Sequence[str]
    ) -> list[list[float]]:
        """Score a finished episode at once.

        Args:
            trajectory: The episode.
            boundaries: How many leading messages are known at each point, ascending; see :func:`turn_boundaries`.
            answers: Accepted answers.

        Returns:
            For each boundary what ``update`` would have returned there.
        """
        ...


def turn_boundaries(trajectory: Trajectory) -> list[int]:
    """Boundary s of each turn s: the number of messages before it; boundary 0 is the opening (system, question)."""
    return [turn.message_index for turn in trajectory.turns]


async def score_incrementally(
    belief: Belief, trajectory: Trajectory, boundaries: Sequence[int], answers: Sequence[str]
) -> list[list[float]]:
    """Implementation of ``Belief.score`` through one incremental pass over the messages."""
    require_boundaries(boundaries, len(trajectory.messages))
    state = belief.open(trajectory.messages[1]["content"], answers)
    scores: list[list[float]] = []
    done = 0
    for boundary in boundaries:
        if boundary == done:  # the same point asked for twice
            scores.append(scores[-1])
            continue
        scores.append(await state.update(trajectory.messages[done:boundary]))
        done = boundary
    return scores


def context_lengths(
    renderer: Renderer, messages: Sequence[Message], boundaries: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Render an episode once: its tokens, and how many of them are known at each boundary.

    Args:
        renderer: Encodes the messages.
        messages: All messages of the episode.
        boundaries: Numbers of leading messages, ascending.

    Raises:
        ValueError: The boundaries are out of order or range, or not where the policy would write its next turn.
    """
    require_boundaries(boundaries, len(messages))
    conversation = Conversation(renderer)
    lengths: list[int] = []
    done = 0
    for boundary in boundaries:
        read_messages(conversation, messages[done:boundary])
        lengths.append(len(conversation.ids))
        done = boundary
    return conversation.ids, lengths


def read_messages(conversation: Conversation, new_messages: Sequence[Message]) -> None:
    """Add messages to a conversation, its opening ones first.

    Raises:
        ValueError: It does not end where the policy would write its next turn.
    """
    if not conversation.ids:
        conversation.open(new_messages[:2])
        new_messages = new_messages[2:]
    for message in new_messages:
        if message["role"] == "assistant":
            conversation.add_assistant(message["content"])
        else:
            conversation.add_user(message["content"])
    if len(conversation.boundaries) == len(conversation.turns):
        raise ValueError("the last message is the policy's own: a belief is asked before a turn, not after it")


def require_boundaries(boundaries: Sequence[int], count: int) -> None:
    """Check the boundaries of an episode of ``count`` messages."""
    if list(boundaries) != sorted(boundaries) or any(not 2 <= boundary <= count for boundary in boundaries):
        raise ValueError(
            f"boundaries {list(boundaries)} must ascend within [2, {count}] (the trajectory's number of messages)"
        )


def require_answers(answers: Sequence[str]) -> tuple[str, ...]:
    """Check the accepted answers of an episode and return them as a tuple."""
    if isinstance(answers, str):
        raise TypeError(f"answers must be a sequence of strings, got the string {answers!r}; pass [{answers!r}]")
    if not answers or any(not answer.strip() for answer in answers):
        raise ValueError(f"a belief needs at least one accepted answer and none blank, got {list(answers)!r}")
    return tuple(answers)


def open_belief(spec: str | Belief | None, corpus: Corpus | None = None) -> Belief | None:
    """Make a belief from a name or pass an object through.

    Args:
        spec: None (no belief, hence no information gain), ``"lexical"``, ``"hf:FOLDER_OR_MODEL_NAME"``,
            ``"server:URL"`` or ``"server:URL#MODEL"`` (:class:`venus_env.beliefs.server.ServerBelief`), or a belief.
        corpus: Background of the lexical belief.
    """
    if spec is None or not isinstance(spec, str):
        return spec
    if spec == "lexical":
        from venus_env.beliefs.lexical import LexicalBelief

        if corpus is None:
            raise ValueError("belief 'lexical' takes its background model from a corpus: pass corpus=")
        return LexicalBelief.from_corpus(corpus)
    if spec.startswith("hf:") and len(spec) > 3:
        from venus_env.beliefs.hf import HFBelief

        return HFBelief(spec[3:])
    if spec.startswith("server:") and len(spec) > 7:
        from venus_env.beliefs.server import ServerBelief

        url, _, model = spec[7:].partition("#")
        return ServerBelief(url, model or None)
    raise ValueError(
        f"belief {spec!r} is unknown; use None, 'lexical', 'hf:FOLDER_OR_MODEL_NAME', 'server:URL', "
        "'server:URL#MODEL' or a Belief object"
    )
