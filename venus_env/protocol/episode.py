"""The rules of one episode as a state machine. It never fetches, sleeps, logs or reads a clock of its own.

A driver alternates between two calls::

    episode = Episode(question, tools, EpisodeConfig(max_turns=20))
    while not episode.done:
        event = episode.act(policy(episode.messages))      # the policy's next message
        if isinstance(event, CallTool):                     # otherwise the reply has been appended already
            episode.observe(await event.tool(event.arguments))

Everything that depends on the course of an episode (budgets, repeated calls, malformed turns, requests for a final
answer) is decided here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel

from venus_env.protocol.config import EpisodeConfig
from venus_env.protocol.events import CallTool, Ended, Observed
from venus_env.protocol.format import check_turn_format
from venus_env.protocol.parser import (
    Answer,
    Malformed,
    call_key,
    clean_text,
    is_repetitive,
    parse_turn,
    repair_turn,
)
from venus_env.protocol.prompt import (
    bad_call_reply,
    forced_answer_request,
    malformed_reply,
    neutralise,
    restore,
    system_prompt,
    wrap_tool_response,
)
from venus_env.protocol.schema import Toolbox, as_toolbox, resolve_call
from venus_env.protocol.state import EpisodeState, check_same_rules, rules_of
from venus_env.protocol.turns import INFRASTRUCTURE_ENDS, End, Forced, Message, Role, ToolResult, Turn, Usage

if TYPE_CHECKING:  # tools are built on this package, not the other way round
    from venus_env.tools.base import Tool

# What a chat template adds around a message: role marks and line ends.
_TOKENS_PER_MESSAGE = 4
_EMPTY_RESULT = "The tool returned no text."
_LOOPING = "it repeats the same text over and over"
_CUT = "[The rest was cut: the conversation has reached its maximum length.]"


class RandomSource(Protocol):
    """A seeded generator, ``random.Random`` or ``numpy.random.Generator``."""

    def random(self) -> float:
        """Draw from [0, 1)."""
        ...


def estimate_tokens(text: str) -> int:
    """Estimate without a tokenizer: four bytes of UTF-8 make a token (about right for English and for Chinese)."""
    return math.ceil(len(text.encode("utf-8")) / 4)


class Episode:
    """One question, from the prompt to an ending.

    Attributes:
        messages: The conversation so far, starting with the system prompt and the question. What a policy wrote is kept
            as written (see :meth:`act`), since it is what a policy is trained on.
        turns: One record per message of the policy.
        usage: What has been spent so far.
        end: How the episode ended, ``running`` until then.
        forced: The limit that made the environment ask for a final answer, None if it has not asked.
        answer: The final answer, stripped; None until there is one.
        error: Why the infrastructure failed, if it has.
        max_turns: The turn limit of this episode, after jitter.

    Args:
        question: What the policy is asked.
        tools: The tools that it may use.
        config: Rules and budgets.
        count_tokens: Length of a text in tokens; :func:`estimate_tokens` by default.
        clock: Seconds from any fixed point, needed with ``time_limit_s`` only.
        rng: Source of the turn limit's jitter, needed with ``turn_jitter`` only.
        max_turns: The turn limit where it has been drawn before; otherwise it is drawn from the rules.
    """

    def __init__(
        self,
        question: str,
        tools: Toolbox | Iterable[Tool],
        config: EpisodeConfig | None = None,
        *,
        count_tokens: Callable[[str], int] | None = None,
        clock: Callable[[], float] | None = None,
        rng: RandomSource | None = None,
        max_turns: int | None = None,
    ) -> None:
        self.config = config or EpisodeConfig()
        self.tools = as_toolbox(tools)
        self._count = count_tokens or estimate_tokens
        self._clock = clock
        self._started = self._now()
        if not question.strip():
            raise ValueError("the question is blank")
        self.max_turns = self._draw_max_turns(rng) if max_turns is None else max_turns

        self.messages: list[Message] = []
        self.turns: list[Turn] = []
        self.usage = Usage()
        self.end: End = "running"
        self.forced: Forced | None = None
        self.answer: str | None = None
        self.error: str | None = None
        self._closing = 0  # tokens of a reply that says nothing but that the answer is due
        self._reserve = 0  # tokens that are kept for one more turn and that reply
        if self.config.force_final_answer:
            self._closing = self._cost(wrap_tool_response(f"\n{_CUT}\n\n{forced_answer_request('context_limit')}"))
            self._reserve = self._closing + self.config.answer_tokens + _TOKENS_PER_MESSAGE
        self._memory: dict[str, ToolResult] = {}
        self._pending: tuple[Turn, str] | None = None
        self._malformed_in_a_row = 0
        self._cut_off = False

        self._append("system", system_prompt(self.tools, self.config.prompt, self.config.current_date))
        question = clean_text(question)
        if self.config.force_final_answer and self._turns_spent():
            # A single turn: the request joins the question, as chat templates expect a first user message without tags.
            self.forced = "turn_limit"
            question = f"{question}\n\n{forced_answer_request(self.forced)}"
        self._append("user", question)

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self.end != "running"

    def act(self, text: str) -> CallTool | Observed | Ended:
        """Take the policy's next message.

        Any ``str`` will do, an empty or endless one included: it is kept as written, counts as a turn, and is read
        after :func:`~venus_env.protocol.parser.repair_turn` has mended a copy. Two things are changed for good: lone
        surrogates become U+FFFD, and a thought that is closed but never opened gets its ``<think>`` back, as chat
        templates that open it leave it out of what is generated. Drivers that know their template to do so should put
        ``<think>`` back themselves, which also covers a thought that is never closed.

        A text that has run into a loop (:func:`~venus_env.protocol.parser.is_repetitive`) is malformed whatever it
        holds: a call or an answer out of a loop was not meant.

        Returns:
            ``CallTool`` if a tool has to run; ``Observed`` if the environment has replied by itself (malformed turn,
            wrong arguments, repeated call); ``Ended`` if that was the last turn.
        """
        if self.done:
            raise RuntimeError(f"the episode has ended ({self.end}); start another one")
        if self._pending is not None:
            raise RuntimeError(f"a result of {self._pending[0].tool!r} is due first: call observe() or fail()")
        text = clean_text(text)
        if "</think>" in text and "<think>" not in text:
            text = "<think>\n" + text
        looping = is_repetitive(text)
        parsed = Malformed(_LOOPING) if looping else parse_turn(repair_turn(text))
        turn = Turn(
            index=len(self.turns),
            kind="malformed",
            format_ok=check_turn_format(text, final=self.forced is not None or isinstance(parsed, Answer)),
            message_index=len(self.messages),
            ok=False,
            forced=self.forced is not None,
        )
        self._append("assistant", text)
        self.turns.append(turn)
        self.usage.turns += 1
        self.usage.repetitive_turns += looping

        if isinstance(parsed, Answer):
            turn.kind, turn.ok = "answer", True
            self.answer = restore(parsed.text).strip()
            return self._finish("answered")
        if self.forced is not None:
            turn.error = "a final answer was due"
            self.usage.malformed_turns += 1
            return self._finish(self.forced)
        if isinstance(parsed, Malformed):
            return self._refuse(turn, parsed.reason, malformed_reply(parsed.reason))
        try:
            resolved = resolve_call(self.tools, parsed.name, parsed.arguments)
        except Exception as error:  # a validator of the tool's own that does not raise ValueError
            turn.kind, turn.tool = "tool", parsed.name
            return self.fail(
                "tool_failure", f"tool {parsed.name!r} cannot check arguments: {type(error).__name__}: {error}"
            )
        if isinstance(resolved, str):
            return self._refuse(turn, resolved, bad_call_reply(neutralise(resolved)))
        return self._call(turn, *resolved)

    def observe(self, result: ToolResult) -> Observed | Ended:
        """Take the result of the tool that :meth:`act` asked for."""
        if self._pending is None:
            raise RuntimeError("no tool result is due: observe() follows an act() that returned CallTool")
        (turn, key), self._pending = self._pending, None
        result = ToolResult(clean_text(result.text), result.ok, tuple(clean_text(url) for url in result.urls))
        self._memory[key] = result
        turn.ok = result.ok
        return self._reply(self._tool_text(result))

    def fail(self, end: End, reason: str) -> Ended:
        """End the episode because the infrastructure failed; says nothing about the policy.

        Args:
            end: ``tool_failure``, ``judge_failure`` or ``aborted``.
            reason: What happened; recorded for the episode, and with the turn that was under way.
        """
        if end not in INFRASTRUCTURE_ENDS:
            raise ValueError(f"{end!r} is not an infrastructure ending; use one of {sorted(INFRASTRUCTURE_ENDS)}")
        if self.done and end != "judge_failure":
            raise RuntimeError(f"the episode has already ended ({self.end})")
        self.error = clean_text(reason)
        if self.turns:
            self.turns[-1].error = self.error
        self._pending = None
        return self._finish(end)

    def set_context_tokens(self, count: int) -> None:
        """Replace the running estimate of the conversation's length by an exact count.

        With nothing left for another token the episode ends as ``context_limit``.
        """
        self.usage.context_tokens = count
        if not self.done and self._pending is None and count >= self.config.max_context_tokens:
            self._finish("context_limit")

    def cut_off(self) -> None:
        """Let the next reply ask for the final answer, as at a limit: for drivers that wait for many episodes."""
        self._cut_off = True

    def state(self) -> EpisodeState:
        """Everything that has happened so far, to go on from with :meth:`from_state`."""
        if self._pending is not None:
            raise RuntimeError(f"no state in the middle of a turn: a result of {self._pending[0].tool!r} is due first")
        return EpisodeState(
            rules=rules_of(self.config),
            messages=self.messages,
            turns=[replace(turn) for turn in self.turns],
            usage=replace(self.usage, tools=dict(self.usage.tools)),
            end=self.end,
            forced=self.forced,
            answer=self.answer,
            error=self.error,
            max_turns=self.max_turns,
            memory=dict(self._memory),
            malformed_in_a_row=self._malformed_in_a_row,
            cut_off=self._cut_off,
            elapsed_s=self._now() - self._started,
        )

    @classmethod
    def from_state(
        cls,
        state: EpisodeState,
        question: str,
        tools: Toolbox | Iterable[Tool],
        config: EpisodeConfig | None = None,
        *,
        count_tokens: Callable[[str], int] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Episode:
        """Go on from a state, which can be used any number of times; the other arguments as for a new episode.

        Raises:
            ValueError: The state was taken under other rules, or with other tools.
        """
        episode = cls(question, tools, config, count_tokens=count_tokens, clock=clock, max_turns=state.max_turns)
        check_same_rules(state, rules_of(episode.config), episode.messages[0])
        episode.messages = [message.copy() for message in state.messages]
        episode.turns = [replace(turn) for turn in state.turns]
        episode.usage = replace(state.usage, tools=dict(state.usage.tools))
        episode.end, episode.forced = state.end, state.forced
        episode.answer, episode.error = state.answer, state.error
        episode._memory = dict(state.memory)
        episode._malformed_in_a_row = state.malformed_in_a_row
        episode._cut_off = state.cut_off
        episode._started = episode._now() - state.elapsed_s
        return episode

    def _call(self, turn: Turn, tool: Tool, arguments: BaseModel) -> CallTool | Observed | Ended:
        turn.kind = "tool"
        turn.tool = tool.name
        turn.arguments = arguments.model_dump(mode="json")
        self._malformed_in_a_row = 0
        self.usage.tool_calls += 1
        self.usage.tools[tool.name] = self.usage.tools.get(tool.name, 0) + 1
        key = call_key(turn.tool, turn.arguments)
        remembered = self._memory.get(key)
        if remembered is None:
            self._pending = (turn, key)
            return CallTool(tool, arguments, turn)
        turn.duplicate, turn.ok = True, remembered.ok
        self.usage.duplicate_calls += 1
        return self._reply(self._tool_text(remembered))

    def _refuse(self, turn: Turn, error: str, reply: str) -> Observed | Ended:
        turn.error = error
        self.usage.malformed_turns += 1
        self._malformed_in_a_row += 1
        if self._malformed_in_a_row >= self.config.max_malformed:
            return self._finish("malformed_limit")
        return self._reply(reply)

    def _reply(self, text: str) -> Observed | Ended:
        """Append the environment's part of a turn and, where a budget is spent, what follows from that.

        While the episode goes on, a reply leaves room for one more turn, the request for an answer, and the answer: a
        turn of at most ``max_turn_tokens`` never takes away the chance to answer.
        """
        left = self.config.max_context_tokens - self.usage.context_tokens
        if self._closing >= left:  # the turn itself has filled the context
            return self._finish("context_limit")
        room = left - self.config.answer_tokens - _TOKENS_PER_MESSAGE
        needed = self._cost(wrap_tool_response(text))
        limit = self._limit(context_full=needed > room - self._reserve)
        request = ""
        if limit is not None and self.config.force_final_answer:
            request = f"\n\n{forced_answer_request(limit)}"
            self.forced = limit
        room -= self._count(request)
        if limit is not None and needed > room:
            # Half a result is worth more than none: the final answer may hang on it.
            kept = max(0, room - self._cost(wrap_tool_response(f"\n{_CUT}")))
            text = f"{text[: int(len(text) * kept / max(1, self._count(text)))]}\n{_CUT}"
        text += request
        message = self._append("user", wrap_tool_response(text))
        if limit is not None and not self.config.force_final_answer:
            return self._finish(limit)
        return Observed(message)

    def _limit(self, context_full: bool) -> Forced | None:
        if context_full:
            return "context_limit"
        if self.config.time_limit_s is not None and self._now() - self._started >= self.config.time_limit_s:
            return "time_limit"
        if self._cut_off:
            return "cutoff"
        return "turn_limit" if self._turns_spent() else None

    def _turns_spent(self) -> bool:
        """Whether no turn is left, or only the one that a request for a final answer takes."""
        reserved = 1 if self.config.force_final_answer else 0
        return self._calls_spent() or self.usage.turns >= self.max_turns - reserved

    def _calls_spent(self) -> bool:
        ran = self.usage.tool_calls - self.usage.duplicate_calls
        return self.config.max_tool_calls is not None and ran >= self.config.max_tool_calls

    def _draw_max_turns(self, rng: RandomSource | None) -> int:
        jitter = self.config.turn_jitter
        if jitter == 0:
            return self.config.max_turns
        if rng is None:
            raise ValueError("turn_jitter needs a seeded generator: pass rng=")
        # int() rounds towards zero, hence the doubled middle; kept as published.
        return max(1, self.config.max_turns + int(2 * jitter * rng.random() - jitter))

    def _now(self) -> float:
        if self.config.time_limit_s is None:
            return 0.0
        if self._clock is None:
            raise ValueError("time_limit_s needs a clock: pass clock=time.monotonic")
        return self._clock()

    def _tool_text(self, result: ToolResult) -> str:
        return neutralise(result.text) if result.text.strip() else _EMPTY_RESULT

    def _append(self, role: Role, content: str) -> Message:
        message = Message(role=role, content=content)
        self.messages.append(message)
        self.usage.context_tokens += self._cost(content)
        return message

    def _cost(self, content: str) -> int:
        return self._count(content) + _TOKENS_PER_MESSAGE

    def _finish(self, end: End) -> Ended:
        self.end = end
        return Ended(end)
