import asyncio
import itertools
import threading
import time
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from tests.env.protocol.tools import Lookup
from tests.env.testing.reports import assert_clean, assert_first
from venus_env.corpus import open_corpus
from venus_env.protocol.turns import ToolResult
from venus_env.testing import check_tool
from venus_env.tools.base import ToolError
from venus_env.tools.search import SearchTool
from venus_env.tools.visit import VisitTool


class WordArguments(BaseModel):
    word: str


class Echo:
    """A sound tool; the wrong ones below differ from it in one way."""

    name: ClassVar[Any] = "echo"
    aliases: ClassVar[Any] = ("repeat",)
    description: ClassVar[Any] = "Repeat a word."
    arguments: Any = WordArguments

    async def __call__(self, arguments: Any) -> Any:
        await asyncio.sleep(0)
        return ToolResult(f"You said {arguments.word}.")


class BlankName(Echo):
    name = "my tool"


class StringAliases(Echo):
    aliases = "repeat"


class RepeatedAlias(Echo):
    aliases = ("echo",)


class TwoLines(Echo):
    description = "Repeat\na word."


class Instance(Echo):
    arguments = WordArguments(word="x")


class UnknownTypeArguments(BaseModel):
    value: Any = Field()


class NoExample(Echo):
    arguments = UnknownTypeArguments


class PickyArguments(BaseModel):
    word: str
    size: Annotated[int, BeforeValidator(lambda value: abs(value))] = 1


class CrashingValidator(Echo):
    arguments = PickyArguments


class DriftingArguments(BaseModel):
    word: Annotated[str, AfterValidator(lambda word: word + "!")]


class Drifting(Echo):
    arguments = DriftingArguments


class UnserialisableArguments(BaseModel):
    word: Annotated[Any, Field(examples=["x"]), AfterValidator(lambda word: object())]


class Unserialisable(Echo):
    arguments = UnserialisableArguments


class PlainText(Echo):
    async def __call__(self, arguments: Any) -> Any:
        return arguments.word


class Synchronous(Echo):
    def __call__(self, arguments: Any) -> Any:  # type: ignore[override]
        return ToolResult(arguments.word)


class BytesText(Echo):
    async def __call__(self, arguments: Any) -> Any:
        return ToolResult(arguments.word.encode())


class ListOfUrls(Echo):
    async def __call__(self, arguments: Any) -> Any:
        return ToolResult("x", urls=["https://x"])  # type: ignore[arg-type]


class Down(Echo):
    async def __call__(self, arguments: Any) -> Any:
        raise ToolError("no server")


class Mutating(Echo):
    async def __call__(self, arguments: Any) -> Any:
        arguments.word += "!"
        return ToolResult("x")


class FindsNothing(Echo):
    async def __call__(self, arguments: Any) -> Any:
        return ToolResult("Nothing.", ok=False)


class Counting(Echo):
    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, arguments: Any) -> Any:
        self.runs += 1
        return ToolResult(f"run {self.runs}")


class CountingUnpicklable(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Refusing(Echo):
    """Its argument schema takes short words only."""

    class Arguments(BaseModel):
        word: str = Field(max_length=1000)

    arguments = Arguments


class EndsAtOnce(Echo):
    async def __call__(self, arguments: Any) -> Any:
        return ToolResult(arguments.word)


class SharedWord(Echo):
    async def __call__(self, arguments: Any) -> Any:
        self.word = arguments.word
        await asyncio.sleep(0.001)
        return ToolResult(self.word)


class Blocking(Echo):
    """Blocks where blocking is looked for: in the call after those of the two examples."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self, arguments: Any) -> Any:
        self.runs += 1
        if self.runs == 3:
            time.sleep(0.55)  # noqa: ASYNC251
        return ToolResult("x")


class Uncancellable(Echo):
    async def __call__(self, arguments: Any) -> Any:
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            return ToolResult("not now")
        return ToolResult(arguments.word)


class KeepsItsLock(Echo):
    """After a cancelled call nobody gets the lock any more."""

    def __init__(self) -> None:
        self.free = True

    async def __call__(self, arguments: Any) -> Any:
        while not self.free:  # noqa: ASYNC110 (an Event could not be copied)
            await asyncio.sleep(0.01)
        self.free = False
        await asyncio.sleep(0.001)
        self.free = True
        return ToolResult(arguments.word)


class HatesUnicode(Echo):
    async def __call__(self, arguments: Any) -> Any:
        return ToolResult(arguments.word.encode("ascii").decode())


class BlamesTheServer(Echo):
    async def __call__(self, arguments: Any) -> Any:
        if len(arguments.word) > 1000:
            raise ToolError("413")
        return ToolResult("x")


class Unpicklable(Echo):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class ForgetsSettings(Echo):
    """A copy lacks the suffix."""

    def __init__(self, suffix: str = "") -> None:
        self.suffix = suffix

    async def __call__(self, arguments: Any) -> Any:
        return ToolResult(arguments.word + self.suffix)


class PicklesBadly(ForgetsSettings):
    def __getstate__(self) -> dict[str, str]:
        return {"suffix": ""}


class CopiesBadly(ForgetsSettings):
    def __deepcopy__(self, memo: Any) -> "CopiesBadly":
        return CopiesBadly()


def without(name: str) -> Any:
    """A sound tool that lacks one attribute."""
    body = {key: value for key, value in vars(Echo).items() if key not in (name, "__dict__", "__weakref__")}
    return type("Lacking", (), body)()


@pytest.mark.parametrize(
    ("tool", "failing", "message"),
    [
        (without("name"), "name", "no attribute 'name'"),
        (without("aliases"), "aliases", r"aliases: ClassVar\[tuple"),
        (without("arguments"), "argument schema", "no attribute 'arguments'"),
        (BlankName(), "name", "got 'my tool'"),
        (StringAliases(), "aliases", "expected a tuple of names, got 'repeat'"),
        (RepeatedAlias(), "aliases", "repeat each other"),
        (TwoLines(), "description", "a single line"),
        (Instance(), "argument schema", "assign the class"),
        (NoExample(), "examples", "no example for argument 'value'"),
        (CrashingValidator(), "wrong arguments", "TypeError out of the argument schema .* raise ValueError"),
        (Drifting(), "examples", "make them agree"),
        (Unserialisable(), "examples", "PydanticSerializationError"),
        (PlainText(), "result", "return a ToolResult"),
        (Synchronous(), "result", "async def __call__"),
        (BytesText(), "result", "must be a str"),
        (ListOfUrls(), "result", "must be a tuple of strings"),
        (Down(), "result", "ToolError: no server; is its backend up"),
        (Mutating(), "result", "changed its arguments"),
        (Counting(), "determinism", "nondeterministic=True, --nondeterministic"),
        (SharedWord(), "concurrency", "local variables"),
        (Uncancellable(), "cancellation", "went on to its end"),
        (KeepsItsLock(), "cancellation", "did not finish within"),
        (HatesUnicode(), "hostile text: unicode", "UnicodeEncodeError"),
        (Unpicklable(), "pickle", "cannot be pickled"),
        (PicklesBadly("!"), "pickle", "keep all settings"),
        (CopiesBadly("!"), "deepcopy", "keep all settings"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Echo) else None,
)
def test_a_wrong_tool_fails_where_it_is_wrong(tool: Any, failing: str, message: str) -> None:
    report = check_tool(tool, timeout_s=0.1 if isinstance(tool, KeepsItsLock) else 10)
    assert_first(report, "failed", failing, message)


@pytest.mark.parametrize(
    ("tool", "doubtful", "message"),
    [
        (FindsNothing(), "result", "no example found anything"),
        (Blocking(), "event loop", "asyncio.to_thread"),
        (BlamesTheServer(), "hostile text: 100 KB", "ToolError"),
    ],
)
def test_a_doubtful_tool_is_warned_of(tool: Any, doubtful: str, message: str) -> None:
    report = check_tool(tool)
    assert report.ok
    assert_first(report, "warning", doubtful, message)


def test_sound_tools() -> None:
    assert_clean(check_tool(Echo()))


def test_without_determinism_the_other_checks_compare_nothing() -> None:
    undeclared = check_tool(Counting())
    assert undeclared.named("failed") == ["determinism"], str(undeclared)
    declared = check_tool(Counting(), nondeterministic=True)
    assert declared.named("failed") == []
    for report in (undeclared, declared):
        assert "concurrency" in report.named("skipped")
        remarks = {check.name: check.message for check in report.checks if check.status == "passed"}
        assert remarks["pickle"] == remarks["deepcopy"] == "result not compared: needs determinism"
    assert check_tool(CountingUnpicklable()).named("failed") == ["determinism", "pickle", "deepcopy"]


def test_what_could_not_be_tried_has_no_tick() -> None:
    assert_first(check_tool(EndsAtOnce()), "skipped", "cancellation", "ends before it can be cancelled")


def test_a_text_may_be_refused() -> None:
    report = check_tool(Refusing())
    assert_clean(report)
    assert "hostile text: 100 KB\n      refused by the argument schema" in str(report)


def test_the_tools_of_the_package() -> None:
    corpus = open_corpus("embedded")
    url = asyncio.run(corpus.search(["Magdeburg"], 1))[0][0].passage.url
    examples = [{"url": [url], "goal": "country"}, {"url": ["nowhere"], "goal": "country"}]
    for report in (check_tool(SearchTool(corpus)), check_tool(VisitTool(corpus), examples)):
        assert_clean(report)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "the list of examples is empty"),
        ([{}], "'query' is missing"),
        ([{}], "give examples (examples=[{…}], --example) that work"),
        ({"query": ["x"]}, "must list mappings"),
    ],
)
def test_examples_that_do_not_do(examples: Any, message: str) -> None:
    report = check_tool(Lookup(), examples)
    assert report.named("failed") == ["examples"]
    assert message in str(report)


def test_calls_are_counted() -> None:
    """The docstring promises how often a paid backend is asked."""
    tool = Counting()
    check_tool(tool, nondeterministic=True)
    assert tool.runs <= 30


def test_names_of_hostile_texts_are_unique() -> None:
    names = [check.name for check in check_tool(Echo()).checks]
    assert all(a != b for a, b in itertools.combinations(names, 2))
