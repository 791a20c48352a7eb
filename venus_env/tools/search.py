"""``search``: several queries at once, each answered with titles, urls and short snippets of a corpus."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from venus_env.corpus.document import Corpus, Hit, Passage
from venus_env.corpus.text import leading_words, snippet
from venus_env.protocol.turns import ToolResult
from venus_env.tools.arguments import SearchArguments
from venus_env.tools.base import ToolError

SEPARATOR = "\n=======\n"
NO_RESULTS = "No results. Try other or fewer words."


class SearchTool:
    """Search a corpus.

    Snippets are a few words of the best passage of a page, so that reading a page stays a decision of its own.

    Attributes:
        corpus: Where to search.
        top_k: Pages per query.
        snippet_words: Words per snippet.
        max_queries: Queries that one call may run; further ones are named as not run.
        style: ``json`` is the layout of the method (spec 1.7); ``compact`` saves tokens for very small models.
        snippets: ``query`` shows the words of the passage around those of the query, ``leading`` the first ones. By
            default ``query`` in the ``json`` style and ``leading`` in the ``compact`` one, whose small models read the
            results of one page as the same words each time.
    """

    name: ClassVar[str] = "search"
    aliases: ClassVar[tuple[str, ...]] = ()
    description: ClassVar[str] = (
        "Search the corpus with one or several queries at once; gives titles, urls and snippets of the best pages."
    )
    arguments: type[BaseModel] = SearchArguments

    def __init__(
        self,
        corpus: Corpus,
        top_k: int = 10,
        snippet_words: int = 40,
        *,
        max_queries: int = 10,
        style: Literal["json", "compact"] = "json",
        snippets: Literal["query", "leading"] | None = None,
    ) -> None:
        for label, value in (("top_k", top_k), ("snippet_words", snippet_words), ("max_queries", max_queries)):
            if value < 1:
                raise ValueError(f"SearchTool: {label} must be at least 1, got {value}")
        if style not in ("json", "compact"):
            raise ValueError(f"SearchTool: style must be 'json' or 'compact', got {style!r}")
        if snippets not in ("query", "leading", None):
            raise ValueError(f"SearchTool: snippets must be 'query' or 'leading', got {snippets!r}")
        self.corpus = corpus
        self.top_k = top_k
        self.snippet_words = snippet_words
        self.max_queries = max_queries
        self.style = style
        self.snippets = snippets or ("query" if style == "json" else "leading")

    async def __call__(self, arguments: SearchArguments) -> ToolResult:
        """Run all queries of a call in one batch.

        Raises:
            ToolError: The corpus could not be searched.
        """
        queries, refused = arguments.query[: self.max_queries], arguments.query[self.max_queries :]
        try:
            found = await self.corpus.search(queries, self.top_k)
        except Exception as error:
            raise ToolError(f"search failed on {queries}: {type(error).__name__}: {error}") from error
        notes = dict.fromkeys(refused, f"Not run: a call takes at most {self.max_queries} queries.")
        notes |= {query: NO_RESULTS for query, hits in zip(queries, found, strict=True) if not hits}
        results = dict(zip(queries, found, strict=True)) | {query: [] for query in refused}
        render = self._json if self.style == "json" else self._compact
        urls = dict.fromkeys(hit.passage.url for hits in results.values() for hit in hits)
        return ToolResult(render(results, notes), ok=bool(urls), urls=tuple(urls))

    def snippet(self, query: str, passage: Passage) -> str:
        """Words of a passage that a result shows."""
        if self.snippets == "leading":
            return leading_words(passage.text, self.snippet_words)
        return snippet(passage.text, query, self.snippet_words)

    def _json(self, results: dict[str, list[Hit]], notes: dict[str, str]) -> str:
        records = []
        for query, hits in results.items():
            record: dict[str, Any] = {"query": query, "web_page_info_list": [self._item(query, hit) for hit in hits]}
            if query in notes:
                record["message"] = notes[query]
            records.append(record)
        return json.dumps(records, ensure_ascii=False)

    def _item(self, query: str, hit: Hit) -> dict[str, str]:
        passage = hit.passage
        item = {
            "title": passage.title,
            "url": passage.url,
            "snippet": self.snippet(query, passage),
        }
        if passage.date:
            item["date"] = passage.date
        return item

    def _compact(self, results: dict[str, list[Hit]], notes: dict[str, str]) -> str:
        blocks = []
        for query, hits in results.items():
            lines = [
                f"{rank}. {hit.passage.title}\n{hit.passage.url}\n{self.snippet(query, hit.passage)}"
                for rank, hit in enumerate(hits, start=1)
            ]
            blocks.append("\n".join(lines) or f"{query}: {notes[query]}")
        return SEPARATOR.join(blocks)
