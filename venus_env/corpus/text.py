"""What counts as a word, a stem, a sentence and an address: decided here once, used by every index and tool."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urlsplit

_RUN = re.compile(r"[^\W_]+")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_SURROGATES = re.compile("[\ud800-\udfff]")

# Function words of English: they say nothing about a topic, so a query with anything else in it drops them.
_STOPWORD_TEXT = """
    a about above after again against all also am an and any are as at be because been before being below between
    both but by can could did do does doing during each few for from had has have having he her here hers him his how i
    if in into is it its just me more most my no nor not of off on once only or other our out over own s same she so
    some such t than that the their them then there these they this those through to too under until up very was we
    were what when where which while who whom whose why will with would you your
"""
STOPWORDS = frozenset(_STOPWORD_TEXT.split())

# Ends in a full stop without ending a sentence.
_ABBREVIATION_TEXT = """
    adm approx capt cf ca co col corp dr ed eds eg est etc fig ft gen gov hon inc jr lt ltd maj mr mrs ms mt no nos
    op pp prof rev sen sgt sr st vol vs viz
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_TEXT.split())
_SENTENCE_END = re.compile(r"[.!?]+[\"'”’)\]]*(?=\s+[\"'“‘(\[]*[^\W_a-z])|[。！？]+[”’」』）]*|\n+")
_LAST_TOKEN = re.compile(r"[^\s(\[\"'“‘]+$")
_LONGEST_ABBREVIATION = 32  # characters; more than any has, so that a longer token cut there is still none


def scrub(text: str) -> str:
    """Replace lone surrogates, which JSON can smuggle in and UTF-8 cannot hold."""
    return _SURROGATES.sub("\ufffd", text)


def words(text: str) -> list[str]:
    """Split text into lower-cased words without accents; each Han or kana character is a word of its own."""
    text = text.lower()
    if text.isascii():
        return _RUN.findall(text)
    # NFKD separates accents from letters (and folds full-width forms); NFC puts the rest, Hangul above all, together.
    text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    return [word for run in _RUN.findall(text) for word in (_HAN.findall(run) if not run.isascii() else (run,))]


def stem(words: list[str]) -> list[str]:
    """Reduce words, as :func:`words` gives them, to their English stems."""
    import Stemmer

    # A stemmer object is cheap to make (under a microsecond) and not safe to share between threads.
    stemmed: list[str] = Stemmer.Stemmer("english", 0).stemWords(words)
    return stemmed


def content_stems(text: str) -> list[str]:
    """Stems of the words that carry a topic; of all words when there are no others (``The Who``)."""
    every = words(text)
    return stem([word for word in every if word not in STOPWORDS] or every)


def sentences(text: str) -> list[str]:
    """Split text into sentences, verbatim apart from outer whitespace; abbreviations and initials do not split."""
    return [piece for piece in _pieces(text) if piece]


def _pieces(text: str) -> Iterator[str]:
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if match.group().startswith(".") and _is_abbreviation(text[start : match.start()]):
            continue
        yield text[start : match.end()].strip()
        start = match.end()
    yield text[start:].strip()


def _is_abbreviation(before: str) -> bool:
    """Tell whether the full stop after ``before`` belongs to its last token."""
    found = _LAST_TOKEN.search(before[-_LONGEST_ABBREVIATION:])  # not the whole sentence: it is searched from the left
    if found is None:
        return False
    token = found.group()
    # One letter (an initial) or dotted letters (U.S); "e.g" and the like fall under the same rule.
    initials = all(len(part) == 1 and part.isalpha() for part in token.split("."))
    return initials or token.lower() in _ABBREVIATIONS


def leading_words(text: str, limit: int) -> str:
    """First ``limit`` words of a text on one line; an ellipsis shows that it was cut."""
    pieces = text.split()
    return " ".join(pieces) if len(pieces) <= limit else " ".join(pieces[:limit]) + " ..."


def estimate_tokens(text: str) -> int:
    """Rough token count of a text: four tokens for three words, and never fewer than one for six characters."""
    return max(-(-4 * len(text.split()) // 3), len(text) // 6)


def canonical_url(url: str) -> str:
    """One spelling for addresses that mean the same page: scheme, host case, escapes, fragment, final slash."""
    url = url.strip().strip("<>\"'`")
    try:
        parts = urlsplit(url)
    except ValueError:  # e.g. an unclosed bracket in the host: not an address, look it up as it stands
        return url
    if parts.scheme.lower() in {"http", "https"}:
        query = f"?{parts.query}" if parts.query else ""
        url = parts.netloc.lower() + unquote(parts.path).rstrip("/") + query
    return unicodedata.normalize("NFC", url.replace(" ", "_"))


def join_gaps(kept: Sequence[tuple[int, str]]) -> str:
    """Join numbered sentences into a paragraph; an ellipsis stands where numbers, hence sentences, are missing."""
    text = ""
    previous = None
    for number, sentence in kept:
        if previous is not None:
            text += " " if number == previous + 1 else " [...] "
        text += sentence
        previous = number
    return text
