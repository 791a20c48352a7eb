"""Pydantic models of what a policy may pass to the tools; their JSON schemas are what the prompt shows."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from venus_env.corpus.text import scrub

MAX_QUERY_CHARACTERS = 1_000
MAX_URL_CHARACTERS = 2_000
MAX_GOAL_CHARACTERS = 2_000
MAX_ITEMS = 100  # queries or urls of one call; fewer are run, and the reply names the others


def _as_list(value: Any) -> Any:
    """Accept a bare string as a list of one."""
    return [value] if isinstance(value, str) else value


def _cleaned(limit: int, what: str) -> AfterValidator:
    """Strip items, drop blank and repeated ones, refuse over-long ones and a list with nothing left."""

    def clean(items: list[str]) -> list[str]:
        kept = list(dict.fromkeys(stripped for item in items if (stripped := scrub(item).strip())))
        if len(kept) > MAX_ITEMS:
            raise ValueError(f"give at most {MAX_ITEMS} at once, not {len(kept)}")
        if not kept:
            raise ValueError(f"give at least one {what} that is not blank")
        for item in kept:
            if len(item) > limit:
                raise ValueError(f"a {what} has at most {limit} characters; one here has {len(item)}")
        return kept

    return AfterValidator(clean)


def _clean_goal(goal: str) -> str:
    goal = " ".join(scrub(goal).split())
    if len(goal) > MAX_GOAL_CHARACTERS:
        raise ValueError(f"a goal has at most {MAX_GOAL_CHARACTERS} characters; this one has {len(goal)}")
    return goal


class SearchArguments(BaseModel):
    """Arguments of ``search``."""

    model_config = ConfigDict(extra="ignore")

    query: Annotated[
        list[str],
        Field(min_length=1, description="One or more search queries, each searched on its own."),
        BeforeValidator(_as_list),
        _cleaned(MAX_QUERY_CHARACTERS, "query"),
    ]


class VisitArguments(BaseModel):
    """Arguments of ``visit``."""

    model_config = ConfigDict(extra="ignore")

    url: Annotated[
        list[str],
        Field(min_length=1, description="One or more urls, exactly as search results show them."),
        BeforeValidator(_as_list),
        _cleaned(MAX_URL_CHARACTERS, "url"),
    ]
    goal: Annotated[str, Field(description="What to look for on the pages."), AfterValidator(_clean_goal)]
