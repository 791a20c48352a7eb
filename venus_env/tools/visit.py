"""``visit``: read pages of a corpus for a goal; what comes back is verbatim text of the page, never invented."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel

from venus_env.corpus.document import Corpus, Page
from venus_env.corpus.text import content_stems, join_gaps, sentences, stem, tokens_by_words, words
from venus_env.protocol.turns import ToolResult
from venus_env.tools.arguments import VisitArguments
from venus_env.tools.base import ToolError
from venus_env.tools.search import SEPARATOR

UNKNOWN_URL = "This page could not be accessed: no page has this url. Copy a url exactly as a search result shows it."
EMPTY_PAGE = "This page could not be processed: it holds no text. Visit another page."
# Characters from which on a page is read on a thread, so that other episodes need not wait: some twenty milliseconds.
_LONG_PAGE = 100_000
# Say of a goal word for standing in the paragraph; standing in the sentence itself counts one besides.
_PARAGRAPH = 1.0


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of a page: its paragraph, its place on the page, its text."""

    paragraph: int
    position: int
    text: str


class VisitTool:
    """Read pages of a corpus.

    The evidence is made of the sentences that match the goal best, in page order, within a token budget; a page that
    fits is shown whole. The summary is the single best sentence.

    Attributes:
        corpus: Where pages are looked up.
        max_tokens: Budget for the evidence of one page.
        max_urls: Pages that one call may read; further urls are named as not read.
        style: ``full`` is the frame of the method (spec 1.7); ``compact`` is the title and the evidence only.
    """

    name: ClassVar[str] = "visit"
    aliases: ClassVar[tuple[str, ...]] = ("browse",)
    description: ClassVar[str] = "Open one or several pages by url and read what they say about a goal."
    arguments: type[BaseModel] = VisitArguments

    def __init__(
        self,
        corpus: Corpus,
        max_tokens: int = 1000,
        *,
        max_urls: int = 10,
        style: Literal["full", "compact"] = "full",
        count_tokens: Callable[[str], int] = tokens_by_words,
    ) -> None:
        for label, value in (("max_tokens", max_tokens), ("max_urls", max_urls)):
            if value < 1:
                raise ValueError(f"VisitTool: {label} must be at least 1, got {value}")
        if style not in ("full", "compact"):
            raise ValueError(f"VisitTool: style must be 'full' or 'compact', got {style!r}")
        self.corpus = corpus
        self.max_tokens = max_tokens
        self.max_urls = max_urls
        self.style = style
        self.count_tokens = count_tokens

    async def __call__(self, arguments: VisitArguments) -> ToolResult:
        """Read all urls of a call concurrently.

        Raises:
            ToolError: The corpus could not be read.
        """
        urls, refused = arguments.url[: self.max_urls], arguments.url[self.max_urls :]
        pages = await asyncio.gather(*(self._page(url) for url in urls))
        blocks = [await self._block(url, page, arguments.goal) for url, page in zip(urls, pages, strict=True)]
        for url in refused:
            note = f"This page was not read: a call takes at most {self.max_urls} urls."
            blocks.append(self._frame(url, arguments.goal, note, "Nothing was read.", url))
        read = dict.fromkeys(page.url for page in pages if page is not None)
        return ToolResult(SEPARATOR.join(blocks), ok=bool(read), urls=tuple(read))

    async def _page(self, url: str) -> Page | None:
        try:
            return await self.corpus.page(url)
        except Exception as error:
            raise ToolError(f"visit failed on {url!r}: {type(error).__name__}: {error}") from error

    async def _block(self, url: str, page: Page | None, goal: str) -> str:
        if page is None:
            return self._frame(url, goal, UNKNOWN_URL, "Nothing was read.", url)
        if sum(len(passage.text) for passage in page.passages) > _LONG_PAGE:
            return await asyncio.to_thread(self._read, url, page, goal)
        return self._read(url, page, goal)

    def _read(self, url: str, page: Page, goal: str) -> str:
        found = [
            _Sentence(paragraph, position, sentence)
            for paragraph, passage in enumerate(page.passages)
            for position, sentence in enumerate(sentences(passage.text))
        ]
        if not found:
            return self._frame(url, goal, EMPTY_PAGE, "Nothing was read.", page.title)
        ranked = rank_sentences([sentence.text for sentence in found], goal, [sentence.paragraph for sentence in found])
        evidence = self._evidence(found, ranked)
        return self._frame(url, goal, evidence, found[ranked[0]].text, page.title)

    def _frame(self, url: str, goal: str, evidence: str, summary: str, title: str) -> str:
        if self.style == "compact":
            return f"{title}\n{evidence}"
        return (
            f"The useful information in {url} for user goal {goal} as follows: \n\n"
            f"Evidence in page: \n{evidence}\n\nSummary: \n{summary}\n\n"
        )

    def _evidence(self, found: Sequence[_Sentence], ranked: Sequence[int]) -> str:
        """Take sentences in order of merit while they fit, then lay them out in page order."""
        left = self.max_tokens
        kept: set[int] = set()
        for index in ranked:
            cost = self.count_tokens(found[index].text)
            if cost <= left:
                kept.add(index)
                left -= cost
        if not kept:  # even the best sentence alone is over the budget
            return self._cut(found[ranked[0]].text)
        paragraphs: dict[int, list[tuple[int, str]]] = {}
        for index in sorted(kept):
            paragraphs.setdefault(found[index].paragraph, []).append((found[index].position, found[index].text))
        return "\n".join(join_gaps(paragraph) for paragraph in paragraphs.values())

    def _cut(self, sentence: str) -> str:
        """Longest beginning of a sentence within the budget, found by halving (token counts grow with length)."""
        low, high = 1, len(sentence)
        while low < high:
            middle = (low + high + 1) // 2
            if self.count_tokens(sentence[:middle]) <= self.max_tokens:
                low = middle
            else:
                high = middle - 1
        return sentence[:low].rstrip() + " [...]"


def rank_sentences(texts: Sequence[str], goal: str, paragraphs: Sequence[int] | None = None) -> list[int]:
    """Order sentences by how well they match a goal, best first; the earlier one wins a tie.

    A goal word weighs more the fewer sentences hold it, so the page's own subject, named everywhere, decides little.
    A sentence that says "it" or "he" is about what its paragraph names, so goal words of the paragraph count too.

    Args:
        texts: The sentences of a page, in order.
        goal: What to look for.
        paragraphs: Paragraph of each sentence; by default all stand in one.
    """
    wanted = set(content_stems(goal))
    held = [wanted.intersection(stem(words(text))) for text in texts]
    frequency = Counter(word for found in held for word in found)
    weight = {word: math.log(1 + len(texts) / count) for word, count in frequency.items()}
    merit = [sum(sorted(weight[word] for word in found)) for found in held]
    if paragraphs is not None:
        named: defaultdict[int, set[str]] = defaultdict(set)
        for paragraph, found in zip(paragraphs, held, strict=True):
            named[paragraph] |= found
        around = {one: _PARAGRAPH * sum(sorted(weight[word] for word in found)) for one, found in named.items()}
        merit = [own + around[paragraph] for own, paragraph in zip(merit, paragraphs, strict=True)]
    return sorted(range(len(texts)), key=lambda index: (-merit[index], index))
