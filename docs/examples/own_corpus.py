"""Documents of your own: a file of passages that gets an index, or a class that searches wherever you like."""

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import gymnasium as gym

import venus_env  # noqa: F401 (registers the environment)
from venus_env.corpus import Hit, Page, Passage
from venus_env.corpus.build import build_index
from venus_env.protocol import render_call

# A passage is a line of JSON; all passages of one url, in order, are a page.
passages = [
    {
        "id": "1",
        "url": "https://wiki.acme.example/printer",
        "title": "The printer",
        "text": "The printer is in room 12.",
    },
    {"id": "2", "url": "https://wiki.acme.example/rooms", "title": "Rooms", "text": "Room 12 is on the third floor."},
    {
        "id": "3",
        "url": "https://wiki.acme.example/rooms",
        "title": "Rooms",
        "text": "The third floor is closed on Sunday.",
    },
]
questions = [{"id": "q1", "question": "On which floor is the printer?", "answers": ["third floor", "third", "3"]}]

folder = Path(tempfile.mkdtemp())
for name, rows in (("passages.jsonl", passages), ("questions.jsonl", questions)):
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

# 1. An index: hybrid search (titles, BM25, vectors). The same as
#    python -m venus_env corpus build passages.jsonl --out index/
build_index(folder / "passages.jsonl", folder / "index")
indexed = gym.make("VenusResearch-v0", corpus=folder / "index", tasks=folder / "questions.jsonl", split=None)


# 2. A class. Here it counts common words; it could as well ask your search server.
class WordCorpus:
    """Finds passages by common words."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages

    @property
    def content_hash(self) -> str:
        """Names the content, so that results say what they were measured on."""
        return hashlib.sha256(repr(self.passages).encode()).hexdigest()

    async def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """For each query at most k hits, best first, at most one per page. Trouble is raised, not returned as text."""
        return [self._hits(query)[:k] for query in queries]

    async def page(self, url: str) -> Page | None:
        """The page at a url, None if there is none."""
        own = tuple(passage for passage in self.passages if passage.url == url)
        return Page(url, own[0].title, own) if own else None

    def unigram_counts(self) -> Mapping[str, int]:
        """How often each word occurs: the background of the "lexical" belief."""
        return Counter(word for passage in self.passages for word in _words(passage.text))

    def _hits(self, query: str) -> list[Hit]:
        hits = [Hit(passage, len(set(_words(query)) & set(_words(passage.text)))) for passage in self.passages]
        best = {}
        for hit in sorted(hits, key=lambda hit: -hit.score):
            if hit.score > 0:
                best.setdefault(hit.passage.url, hit)
        return list(best.values())


def _words(text: str) -> list[str]:
    return [word.strip(".,?").lower() for word in text.split()]


handmade = gym.make(
    "VenusResearch-v0",
    corpus=WordCorpus([Passage(**passage) for passage in passages]),
    tasks=folder / "questions.jsonl",
    split=None,
)

replies = []
for env in (indexed, handmade):
    env.reset(seed=7)
    env.step(render_call("Where is it?", "search", {"query": ["printer"]}))
    url = "https://wiki.acme.example/rooms"
    reply, reward, *_ = env.step(
        render_call("Which floor is that?", "visit", {"url": [url], "goal": "floor of room 12"})
    )
    replies.append(reply)
    print(reply)
