"""``check_tool``: does a tool keep the contract of :class:`venus_env.tools.base.Tool`?"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from venus_env.envs.portal import portal
from venus_env.protocol.prompt import system_prompt
from venus_env.protocol.schema import resolve_call, tool_schema, tool_signature
from venus_env.protocol.turns import ToolResult
from venus_env.testing.examples import HOSTILE_TEXTS, TEXTS, WRONG_VALUES, example_arguments, replace_texts
from venus_env.testing.report import (
    DECLARE,
    UNCOMPARED,
    Doubtful,
    Failed,
    NotApplicable,
    Report,
    expect,
    require_object,
    short,
)
from venus_env.tools.base import Tool, ToolError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")  # what chat templates and servers accept as a function's name
_CONCURRENT_CALLS = 8
_CANCEL_S = 2.0  # seconds within which a cancelled call has to end
_BLOCKED_S = 0.5  # seconds for which a call may hold up the event loop
_GIVE_EXAMPLES = "give examples (examples=[{…}], --example)"


def check_tool(
    tool: Tool,
    examples: Sequence[Mapping[str, Any]] | None = None,
    *,
    nondeterministic: bool = False,
    timeout_s: float = 60.0,
) -> Report:
    """Check a tool. It is called about 25 times, so give a paid backend a budget first.

    Args:
        tool: The tool.
        examples: Arguments of calls that should work, best with different results; made from the schema by default.
        nondeterministic: Whether equal calls may give different results, as with a live web search.
        timeout_s: Seconds after which a single check is given up as failed.

    Raises:
        TypeError: ``tool`` is a class.
    """
    require_object(tool, "check_tool")
    report = Report(f"tool {getattr(tool, 'name', None) or type(tool).__name__}", timeout_s)
    portal().run(_ToolChecks(tool, examples, nondeterministic).run(report))
    return report


class _ToolChecks:
    def __init__(self, tool: Tool, examples: Sequence[Mapping[str, Any]] | None, nondeterministic: bool) -> None:
        self.tool = tool
        self.given = examples
        self.nondeterministic = nondeterministic
        self.comparable = False  # whether equal calls have been seen to give equal results
        self.examples: list[Mapping[str, Any]] = []
        self.arguments: list[BaseModel] = []
        self.results: list[ToolResult] = []

    async def run(self, report: Report) -> None:
        await report.run_async("name", self.name)
        await report.run_async("aliases", self.aliases)
        await report.run_async("description", self.description)
        await report.run_async("argument schema", self.argument_schema)
        shape = ("name", "aliases", "description", "argument schema")
        await report.run_async("schema", self.schema, needs=shape)
        await report.run_async("examples", self.find_examples, needs=("schema",))
        await report.run_async("wrong arguments", self.wrong_arguments, needs=("examples",))
        await report.run_async("result", self.result, needs=("examples",))
        await report.run_async("event loop", self.event_loop, needs=("result",))
        await report.run_async("determinism", self.determinism, needs=("result",))
        await report.run_async("concurrency", self.concurrency, needs=("result",))
        await report.run_async("cancellation", self.cancellation, needs=("result",))
        for label, text in HOSTILE_TEXTS.items():
            await report.run_async(f"hostile text: {label}", self.hostile, text, needs=("result",))
        await report.run_async("pickle", self.copied, _pickled, "pickled", needs=("result",))
        await report.run_async("deepcopy", self.copied, copy.deepcopy, "deep-copied", needs=("result",))

    def name(self) -> None:
        name = self._attribute("name", 'name: ClassVar[str] = "lookup"')
        expect(
            isinstance(name, str) and _NAME.fullmatch(name) is not None,
            f"expected a name of letters, digits, _ and - (at most 64), got {name!r}; calls and prompts use it",
        )

    def aliases(self) -> None:
        aliases = self._attribute("aliases", "aliases: ClassVar[tuple[str, ...]] = ()")
        expect(isinstance(aliases, tuple), f"expected a tuple of names, got {aliases!r}; write () or ('other_name',)")
        for alias in aliases:
            expect(isinstance(alias, str) and bool(_NAME.fullmatch(alias)), f"alias {alias!r} is not a valid name")
        names = (getattr(self.tool, "name", None), *aliases)
        expect(len(set(names)) == len(names), f"name and aliases {names!r} repeat each other; drop the repetition")

    def description(self) -> None:
        text = self._attribute("description", 'description: ClassVar[str] = "Look up a word."')
        expect(isinstance(text, str) and bool(text.strip()), f"expected one sentence for the prompt, got {text!r}")
        expect(len(text.splitlines()) == 1, f"expected a single line, as prompts list tools by line; got {short(text)}")

    def argument_schema(self) -> None:
        model = self._attribute("arguments", "arguments: type[BaseModel] = LookupArguments")
        expect(
            isinstance(model, type) and issubclass(model, BaseModel),
            f"expected 'arguments' to be a pydantic model class, got {short(model)}; assign the class, not an instance",
        )

    def schema(self) -> None:
        json.dumps(tool_schema(self.tool))
        signature = tool_signature(self.tool)
        expect(len(signature.splitlines()) == 1, f"the signature must fit on a line, got {signature!r}")
        system_prompt([self.tool], "full")
        system_prompt([self.tool], "compact")

    def find_examples(self) -> str:
        model = self.tool.arguments
        try:
            found = [example_arguments(model, text) for text in TEXTS] if self.given is None else list(self.given)
        except ValueError as error:
            raise Failed(f"{error}; {_GIVE_EXAMPLES}, or write Field(examples=[…]) in its model") from error
        expect(bool(found), "the list of examples is empty; give at least one, or None")
        wrong = [example for example in found if not isinstance(example, Mapping)]
        expect(not wrong, f"examples must list mappings of arguments, got {wrong[:1]}; write examples=[{{…}}]")
        for example in found:
            arguments = self._resolved(example)
            if self._dumped(arguments) not in map(self._dumped, self.arguments):
                self.examples.append(example)
                self.arguments.append(arguments)
        return "; ".join(short(dict(example)) for example in self.examples)

    def _resolved(self, example: Mapping[str, Any]) -> BaseModel:
        resolved = resolve_call({self.tool.name: self.tool}, self.tool.name, example)
        if isinstance(resolved, str):
            raise Failed(f"a call with {short(dict(example))} was refused: {resolved}; {_GIVE_EXAMPLES} that work")
        return resolved[1]

    @staticmethod
    def _dumped(arguments: BaseModel) -> str:
        """Arguments as the record of a turn keeps them; replaying a record means to validate that."""
        record = arguments.model_dump(mode="json")
        again = type(arguments).model_validate(record)
        expect(again == arguments, f"{arguments!r} is recorded as {record}, which reads as {again!r}; make them agree")
        return json.dumps(record, sort_keys=True)

    def wrong_arguments(self) -> None:
        model = self.tool.arguments
        toolbox = {self.tool.name: self.tool}
        trials: list[dict[str, Any]] = [{}]
        trials += [{**self.examples[0], name: value} for name in model.model_fields for value in WRONG_VALUES]
        for trial in trials:
            try:
                resolved = resolve_call(toolbox, self.tool.name, trial)
            except Exception as error:
                raise Failed(
                    f"{type(error).__name__} out of the argument schema on {short(trial)}: {error}; a validator has to "
                    "raise ValueError, which becomes a reply to the policy, and must not expect a type before pydantic "
                    "has"
                ) from error
            required = any(field.is_required() for field in model.model_fields.values())
            expect(
                bool(trial) or not required or isinstance(resolved, str), "a call without its arguments was accepted"
            )

    async def result(self) -> None:
        for arguments in self.arguments:
            before = arguments.model_copy(deep=True)
            call = self.tool(arguments)
            expect(inspect.isawaitable(call), f"calling it gave {short(call)}; write `async def __call__`")
            try:
                result = await call
            except ToolError as error:
                raise Failed(
                    f"{arguments!r} raised ToolError: {error}; is its backend up? If so, {_GIVE_EXAMPLES} that work"
                ) from error
            _check_result(result, f"{arguments!r}")
            expect(arguments == before, f"it changed its arguments from {before!r} to {arguments!r}; work on a copy")
            self.results.append(result)
        if not any(result.ok for result in self.results):
            raise Doubtful(f"no example found anything (ok=False in every result); {_GIVE_EXAMPLES} that do")

    async def event_loop(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(self.tool(self.arguments[0]))
        longest, last = 0.0, loop.time()
        while not task.done():
            await asyncio.sleep(0.002)
            longest, last = max(longest, loop.time() - last), loop.time()
        await task
        if longest > _BLOCKED_S:
            raise Doubtful(
                f"a call held up the event loop, and with it every other episode, for {longest:.1f} s; await an async "
                "client, or move the work to asyncio.to_thread"
            )

    async def determinism(self) -> None:
        if self.nondeterministic:
            raise NotApplicable("declared nondeterministic: not compared")
        advice = f"keep no state between calls and draw nothing at random, or {DECLARE}"
        for arguments, result in zip(self.arguments, self.results, strict=True):
            _same(await self.tool(arguments), result, f"{arguments!r} a second time", advice)
        self.comparable = True

    async def concurrency(self) -> None:
        numbers = [number % len(self.arguments) for number in range(_CONCURRENT_CALLS)]
        results = await asyncio.gather(*(self.tool(self.arguments[number]) for number in numbers))
        for result in results:
            _check_result(result, "a concurrent call")
        if not self.comparable:
            raise NotApplicable(f"called, {UNCOMPARED}")
        for number, result in zip(numbers, results, strict=True):
            advice = "keep what belongs to a call in local variables, not on the tool"
            _same(result, self.results[number], f"{self.arguments[number]!r} among other calls", advice)

    async def cancellation(self) -> str | None:
        task = asyncio.ensure_future(self.tool(self.arguments[0]))
        await asyncio.sleep(0)  # let it begin
        if task.done():
            raise NotApplicable("a call ends before it can be cancelled")
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=_CANCEL_S)
        advice = "let asyncio.CancelledError through (`except Exception` does)"
        expect(bool(done), f"a call was still running {_CANCEL_S:g} s after it had been cancelled; {advice}")
        expect(task.cancelled(), f"a cancelled call went on to its end instead of stopping; {advice}")
        after = await self.tool(self.arguments[0])
        _check_result(after, "a call after a cancelled one")
        advice = "release in `finally` what a call takes"
        return self._compare(after, "a call after a cancelled one", advice)

    async def hostile(self, text: str) -> str | None:
        resolved = resolve_call(
            {self.tool.name: self.tool}, self.tool.name, replace_texts(dict(self.examples[0]), text)
        )
        if isinstance(resolved, str):
            return "refused by the argument schema"
        try:
            _check_result(await self.tool(resolved[1]), f"text {short(text)}")
        except ToolError as error:
            raise Doubtful(
                f"text {short(text)} raised ToolError ({short(str(error))}), which ends the episode as "
                "tool_failure; if the policy is to blame, return ToolResult(ok=False) or refuse the text in the "
                "argument schema"
            ) from error
        return None

    async def copied(self, copier: Callable[[Any], Any], how: str) -> str | None:
        try:
            other = copier(self.tool)
        except Exception as error:
            raise Failed(
                f"it cannot be {how} ({type(error).__name__}: {error}), which copies of an environment and worker "
                "processes need; open connections when first used and leave them out in __getstate__"
            ) from error
        result = await other(self.arguments[0])
        _check_result(result, f"a {how} tool")
        return self._compare(result, f"a {how} tool", "keep all settings in __getstate__")

    def _compare(self, result: ToolResult, what: str, advice: str) -> str | None:
        """Compare the result of the first example where that makes sense; the remark says so if not."""
        if not self.comparable:
            return f"result {UNCOMPARED}"
        _same(result, self.results[0], what, advice)
        return None

    def _attribute(self, name: str, example: str) -> Any:
        try:
            return getattr(self.tool, name)
        except AttributeError:
            raise Failed(f"the tool has no attribute {name!r}; add to the class, for instance, {example}") from None


def _pickled(tool: Any) -> Any:
    return pickle.loads(pickle.dumps(tool))


def _check_result(result: Any, what: str) -> None:
    expect(isinstance(result, ToolResult), f"{what} gave {short(result)}; return a ToolResult")
    expect(isinstance(result.text, str), f"{what}: ToolResult.text must be a str, got {short(result.text)}")
    expect(isinstance(result.ok, bool), f"{what}: ToolResult.ok must be a bool, got {short(result.ok)}")
    urls = result.urls
    expect(
        isinstance(urls, tuple) and all(isinstance(url, str) and url.strip() for url in urls),
        f"{what}: ToolResult.urls must be a tuple of strings that are not blank, got {short(urls)}",
    )


def _same(result: ToolResult, expected: ToolResult, what: str, advice: str) -> None:
    expect(result == expected, f"{what} gave {short(result)} instead of {short(expected)}; {advice}")
