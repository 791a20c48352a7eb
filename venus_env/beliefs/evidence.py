"""What a tool's reply really says: its words without what the policy itself put there, each sentence once.

Replies repeat parts of the call (the query, the goal, an unknown url). If those words counted as evidence, a policy
could raise its own reward by naming guesses in its queries, or by asking for the same page again and again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from venus_env.corpus.text import words
from venus_env.protocol.parser import Call, parse_turn, repair_turn
from venus_env.protocol.prompt import restore, unwrap_tool_response
from venus_env.protocol.turns import Message

_URL = re.compile(r"https?://\S+")
# Sentences here are only what is compared to tell whether it was read before, so a cut after "St." does no harm, and
# looking for abbreviations would take half of the time of a turn. Line breaks end sentences, too.
_SENTENCE_ENDS = (". ", "! ", "? ", "。", "！", "？")
# Lower-cased ASCII: everything but words and line breaks becomes a space.
_GAPS = {ord(char): " " for char in map(chr, range(128)) if not char.isalnum() and char != "\n"}
_BLOCKS = re.compile(r"\n=======\n")
# Found by its comma first, since most commas group nothing.
_GROUPING_COMMA = re.compile(r",(?<=\d,)(?=\d{3}(?!\d))")
_HIT_FIELDS = ("title", "snippet", "date")


def evidence_words(text: str) -> list[str]:
    """Words of a text as evidence: those of :func:`venus_env.corpus.text.words`, but ``2,493,859`` is one word.

    Three short numbers would be found on many a page; and the same number may be written without its commas.
    """
    return words(_GROUPING_COMMA.sub("", text))


class EvidenceReader:
    """Reads the messages of one episode in order and yields the sentences that are new, as lists of words."""

    def __init__(self) -> None:
        self._call: Call | None = None
        self._seen: set[str] = set()

    def read(self, messages: Sequence[Message]) -> Iterator[list[str]]:
        """Yield the new sentences of the tool replies among ``messages``; everything else is not evidence."""
        for message in messages:
            if message["role"] == "assistant":
                turn = parse_turn(repair_turn(message["content"]))
                self._call = turn if isinstance(turn, Call) else None
            elif message["role"] == "user" and self._call is not None:
                reply = restore(unwrap_tool_response(message["content"]))
                for sentence in _reply_sentences(reply, self._call):
                    key = " ".join(sentence)  # a tuple of the words would take several times the memory
                    if key and key not in self._seen:
                        self._seen.add(key)
                        yield sentence
                self._call = None


def _reply_sentences(reply: str, call: Call) -> Iterator[list[str]]:
    if reply.startswith("Error:"):  # the call did not run
        return
    hits = _search_hits(reply)
    if hits is not None:
        for hit in hits:
            for field in _HIT_FIELDS:
                yield from _sentences(str(hit.get(field) or ""))
        return
    echoes = [echo for text in _strings(call.arguments) if (echo := evidence_words(text))]
    for block in _BLOCKS.split(reply):
        found = _sentences(block)
        present: set[str] = set().union(*found) if echoes else set()
        yield from _without_echoes(found, [echo for echo in echoes if present.issuperset(echo)])


def _search_hits(reply: str) -> list[Mapping[str, Any]] | None:
    """Hits of a reply in the JSON layout of the search tool; None for any other reply."""
    if not reply.startswith("["):
        return None
    try:
        # A request for the final answer may follow the JSON.
        records, _ = json.JSONDecoder().raw_decode(reply)
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(record, dict) and isinstance(record.get("web_page_info_list"), list) for record in records):
        return None
    return [hit for record in records for hit in record["web_page_info_list"] if isinstance(hit, dict)]


def _sentences(text: str) -> list[list[str]]:
    text = _GROUPING_COMMA.sub("", _URL.sub(" ", text))
    for end in _SENTENCE_ENDS:
        text = text.replace(end, "\n")
    if text.isascii():  # as ``words`` does it, but for the whole text at once: several times faster
        return [sentence.split() for sentence in text.lower().translate(_GAPS).split("\n")]
    return [words(sentence) for sentence in text.split("\n")]


def _strings(value: Any) -> Iterator[str]:
    """All strings in the arguments of a call, addresses left out (they are never evidence)."""
    if isinstance(value, str):
        yield _URL.sub(" ", value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _without_echoes(found: list[list[str]], echoes: Sequence[list[str]]) -> list[list[str]]:
    """Take the first verbatim occurrence of each echo out of a block: a reply frames its findings with the call."""
    if not echoes:
        return found
    flat = [word for sentence in found for word in sentence]
    kept = [True] * len(flat)
    for echo in echoes:
        size = len(echo)
        for start in _occurrences(flat, echo):
            if all(kept[start : start + size]):
                kept[start : start + size] = [False] * size
                break
    if all(kept):
        return found
    position = 0
    result = []
    for sentence in found:
        marks = kept[position : position + len(sentence)]
        result.append([word for word, keep in zip(sentence, marks, strict=True) if keep])
        position += len(sentence)
    return result


def _occurrences(flat: list[str], phrase: list[str]) -> Iterator[int]:
    """Positions at which ``phrase`` stands in ``flat``; jumps from one first word to the next."""
    position = -1
    for _ in range(flat.count(phrase[0]) if phrase else 0):
        position = flat.index(phrase[0], position + 1)
        if flat[position : position + len(phrase)] == phrase:
            yield position
