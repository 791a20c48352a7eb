from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from venus_env.tools.arguments import SearchArguments, VisitArguments


def test_schemas_are_those_of_the_method() -> None:
    query = SearchArguments.model_json_schema()
    assert query["required"] == ["query"]
    assert {key: query["properties"]["query"][key] for key in ("type", "items", "minItems")} == {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
    }
    visit = VisitArguments.model_json_schema()
    assert visit["required"] == ["url", "goal"]
    assert visit["properties"]["url"]["type"] == "array"
    assert visit["properties"]["goal"]["type"] == "string"


def test_strings_blanks_repeats_and_extras_are_tidied() -> None:
    assert SearchArguments(query="one").query == ["one"]  # type: ignore[arg-type]
    arguments = SearchArguments.model_validate({"query": [" a ", "", "b", "a"], "filter_year": 3})
    assert arguments.query == ["a", "b"]
    assert VisitArguments.model_validate({"url": "u", "goal": " find\nit "}).goal == "find it"
    assert SearchArguments.model_validate({"query": ["a\ud800"]}).query == ["a\ufffd"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"query": []}, "at least 1 item"),
        ({"query": [" ", ""]}, "give at least one query that is not blank"),
        ({"query": ["x" * 1001]}, "at most 1000 characters; one here has 1001"),
        ({"query": [3]}, "valid string"),
        ({}, "Field required"),
    ],
)
def test_bad_search_arguments_say_what_to_do(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        SearchArguments.model_validate(arguments)


def test_bad_visit_arguments_say_what_to_do() -> None:
    with pytest.raises(ValidationError, match="at least one url"):
        VisitArguments.model_validate({"url": "  ", "goal": "x"})
    with pytest.raises(ValidationError, match="a goal has at most 2000 characters"):
        VisitArguments.model_validate({"url": "u", "goal": "x" * 2001})
    with pytest.raises(ValidationError, match="goal"):
        VisitArguments.model_validate({"url": "u"})
