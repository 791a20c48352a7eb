"""Tools as the policy sees them, and calls as the tools see them. Both are derived from the pydantic models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import AliasChoices, AliasPath, BaseModel, ValidationError

if TYPE_CHECKING:  # tools are built on this package, not the other way round
    from venus_env.tools.base import Tool

Toolbox: TypeAlias = "Mapping[str, Tool]"
"""Tools by their canonical name, in the order in which the prompt lists them."""

_CALLABLE_NAME = re.compile(r"[\w.-]{1,64}")
_TYPE_NAMES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "object": "dict",
    "null": "None",
}


def as_toolbox(tools: Toolbox | Iterable[Tool]) -> dict[str, Tool]:
    """Index ``tools`` by name.

    Raises:
        ValueError: There is no tool, a name cannot be used in a call, or two tools answer to the same name or alias.
    """
    box: dict[str, Tool] = {}
    taken: dict[str, str] = {}
    for tool in tools.values() if isinstance(tools, Mapping) else tools:
        for name in (tool.name, *tool.aliases):
            if name in taken:
                raise ValueError(f"tools {taken[name]!r} and {tool.name!r} both answer to {name!r}; rename one of them")
            if not _CALLABLE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name for a tool; use letters, digits, '_', '-' and '.' only")
            taken[name] = tool.name
        box[tool.name] = tool
    if not box:
        raise ValueError("an episode needs at least one tool")
    return box


def tool_schema(tool: Tool) -> dict[str, Any]:
    """Render a tool as the function signature that chat models are trained on."""
    schema = _without_titles(tool.arguments.model_json_schema())
    parameters = {"type": "object", "properties": schema.get("properties", {}), "required": schema.get("required", [])}
    if "$defs" in schema:
        parameters["$defs"] = schema["$defs"]
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def tool_signature(tool: Tool) -> str:
    """Render a tool as one line of Python-like signature, e.g. ``visit(url: list[str], goal: str)``."""
    parameters = tool_schema(tool)["function"]["parameters"]
    parts = []
    for name, schema in parameters["properties"].items():
        default = repr(schema["default"]) if "default" in schema else "..."
        optional = "" if name in parameters["required"] else f" = {default}"
        parts.append(f"{name}: {_type_name(schema)}{optional}")
    return f"{tool.name}({', '.join(parts)})"


def resolve_call(tools: Toolbox, name: str, arguments: Mapping[str, Any]) -> tuple[Tool, BaseModel] | str:
    """Find the tool that a call means and validate its arguments.

    Arguments that the tool does not know are dropped, as models like to add some (``topk``, ``lang``); missing or
    wrong ones are never guessed.

    Returns:
        The tool and its validated arguments, or one sentence that tells the policy what to change.
    """
    tool = tools.get(name) or next((tool for tool in tools.values() if name in tool.aliases), None)
    if tool is None:
        return f"there is no tool named {name[:60]!r}; available tools: {', '.join(tools)}"
    model = tool.arguments
    if model.model_config.get("extra") != "allow":
        known = _names(model)
        arguments = {key: value for key, value in arguments.items() if key in known}
    try:
        return tool, model.model_validate(dict(arguments))
    except ValidationError as error:
        problems = [_problem(dict(detail)) for detail in error.errors(include_url=False)]
        return f"{tool.name} was called with wrong arguments: {'; '.join(problems)}. Expected {tool_signature(tool)}"


def _names(model: type[BaseModel]) -> set[str]:
    """All names by which a call may give the arguments of a model."""
    names = set(model.model_fields)
    for field in model.model_fields.values():
        alias = field.validation_alias  # pydantic sets it from ``alias``, too
        for choice in alias.choices if isinstance(alias, AliasChoices) else (alias,):
            first = choice.path[0] if isinstance(choice, AliasPath) else choice
            if isinstance(first, str):
                names.add(first)
    return names


def _problem(detail: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in detail["loc"]) or "arguments"
    if detail["type"] == "missing":
        return f"{where!r} is missing"
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"{where!r}: {message[:1].lower()}{message[1:]}"


def _without_titles(schema: Any) -> Any:
    """Drop pydantic's generated titles; a *property* called ``title`` maps to a schema, not to text, and stays."""
    if isinstance(schema, dict):
        return {
            key: _without_titles(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    return schema


def _type_name(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " | ".join(_type_name(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(repr(value) for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"list[{_type_name(schema.get('items', {}))}]"
    return _TYPE_NAMES.get(str(kind), "object")
