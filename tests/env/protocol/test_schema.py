from typing import ClassVar, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from tests.env.protocol.tools import Lookup, Read
from venus_env.protocol.schema import as_toolbox, resolve_call, tool_schema, tool_signature

TOOLS = as_toolbox([Lookup(), Read()])


class RichArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str = Field(description="A property that is named like a schema keyword.")
    limit: int | None = None
    mode: Literal["fast", "deep"] = "fast"
    weights: dict[str, float] = Field(default_factory=dict)

    @field_validator("limit")
    @classmethod
    def _positive(cls, value: int | None) -> int | None:
        if value is not None and value < 1:
            raise ValueError("Limit must be positive")
        return value


class Rich(Lookup):
    name: ClassVar[str] = "rich"
    aliases: ClassVar[tuple[str, ...]] = ()
    arguments: type[BaseModel] = RichArguments


def test_schema_has_the_shape_that_models_know() -> None:
    assert tool_schema(Lookup()) == {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Find pages.",
            "parameters": {
                "type": "object",
                "properties": {"query": {"items": {"type": "string"}, "minItems": 1, "type": "array"}},
                "required": ["query"],
            },
        },
    }


def test_titles_go_but_a_property_named_title_stays() -> None:
    properties = tool_schema(Rich())["function"]["parameters"]["properties"]
    assert properties["title"] == {
        "description": "A property that is named like a schema keyword.",
        "type": "string",
    }
    assert "title" not in properties["limit"]


def test_signatures() -> None:
    assert tool_signature(Lookup()) == "search(query: list[str])"
    assert tool_signature(Read()) == "visit(url: list[str], goal: str)"
    assert tool_signature(Rich()) == (
        "rich(title: str, limit: int | None = None, mode: 'fast' | 'deep' = 'fast', weights: dict = ...)"
    )


def test_resolves_names_and_aliases() -> None:
    tool, arguments = resolve_call(TOOLS, "browse", {"url": ["u"], "goal": "g", "lang": "en"})  # type: ignore[misc]
    assert tool is TOOLS["visit"]
    assert arguments.model_dump() == {"url": ["u"], "goal": "g"}
    _, arguments = resolve_call(TOOLS, "search", {"query": "a"})  # type: ignore[misc]
    assert arguments.model_dump() == {"query": ["a"]}


def test_extra_keys_are_dropped_even_for_a_strict_model() -> None:
    assert not isinstance(resolve_call({"rich": Rich()}, "rich", {"title": "t", "topk": 3}), str)


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("fetch", {}, "there is no tool named 'fetch'; available tools: search, visit"),
        (
            "visit",
            {"url": "u"},
            "visit was called with wrong arguments: 'url': input should be a valid list; 'goal' is missing. "
            "Expected visit(url: list[str], goal: str)",
        ),
        (
            "search",
            {"query": ["a", 1]},
            "search was called with wrong arguments: 'query.1': input should be a valid string. "
            "Expected search(query: list[str])",
        ),
        (
            "search",
            {"query": []},
            "search was called with wrong arguments: 'query': list should have at least 1 item after validation, "
            "not 0. Expected search(query: list[str])",
        ),
    ],
)
def test_problems_are_one_actionable_sentence(name: str, arguments: dict, problem: str) -> None:
    assert resolve_call(TOOLS, name, arguments) == problem


def test_a_validators_own_words_are_kept() -> None:
    problem = resolve_call({"rich": Rich()}, "rich", {"title": "t", "limit": 0})
    assert isinstance(problem, str)
    assert "'limit': limit must be positive. Expected" in problem


def test_toolboxes() -> None:
    assert list(TOOLS) == ["search", "visit"]
    assert as_toolbox(TOOLS) == TOOLS
    with pytest.raises(ValueError, match="both answer to 'search'"):
        as_toolbox([Lookup(), Lookup()])
    with pytest.raises(ValueError, match="at least one tool"):
        as_toolbox([])
