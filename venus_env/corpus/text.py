"""What counts as a word, a stem, a sentence and an address: decided here once, used by every index and tool."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from urllib.parse import unquote, urlsplit

# Raise it when words, stems or terms of the same text change: indexes made before are then refused.
TERMS_VERSION = 2

_RUN = re.compile(r"[^\W_]+")
_ASCII_RUN = re.compile(r"[a-z0-9]+")  # the same for lower-cased ASCII, in half the time
# Scripts written without spaces: Han with its iteration mark, kana, and the rarer Han of the planes beyond the first.
_UNSPACED = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_HAN = re.compile(f"[{_UNSPACED}]|[^{_UNSPACED}]+")
_ONE_HAN = re.compile(f"[{_UNSPACED}]")
_PIECE = re.compile(f"[{_UNSPACED}][^\\w\\s]*|[^\\s{_UNSPACED}]+")
_HANGUL = re.compile("[\uac00-\ud7a3]{3,}")
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

# Answers, as words, that judge a statement: no page has to hold them, and any page may.
JUDGEMENTS = frozenset([("yes",), ("no",), ("true",), ("false",)])

# Ends in a full stop without ending a sentence.
_ABBREVIATION_TEXT = """
    adm approx capt cf ca co col corp dr ed eds eg est etc fig ft gen gov hon inc jr lt ltd maj mr mrs ms mt no nos
    op pp prof rev sen sgt sr st vol vs viz
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_TEXT.split())
_SENTENCE_END = re.compile(r"[.!?]+[\"'”’)\]]*(?=\s+[\"'“‘(\[]*[^\W_a-z])|[。！？]+[”’」』）]*|\n+")
_SNIPPET_REACH = 10_000
_LAST_TOKEN = re.compile(r"[^\s(\[\"'“‘]+$")
_LONGEST_ABBREVIATION = 32  # characters; more than any has, so that a longer token cut there is still none


def scrub(text: str) -> str:
    """Replace lone surrogates, which JSON can smuggle in and UTF-8 cannot hold."""
    return _SURROGATES.sub("\ufffd", text)


def words(text: str) -> list[str]:
    """Split text into lower-cased words without accents; each Han or kana character is a word of its own."""
    text = text.lower()
    if text.isascii():
        return _ASCII_RUN.findall(text)
    # NFKD separates accents from letters (and folds full-width forms); NFC puts the rest, Hangul above all, together.
    text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    return [word for run in _RUN.findall(text) for word in (_HAN.findall(run) if not run.isascii() else (run,))]


def stem(words: list[str]) -> list[str]:
    """Reduce words, as :func:`words` gives them, to their English stems."""
    import Stemmer

    # A stemmer object is cheap to make (under a microsecond) and not safe to share between threads.
    stemmed: list[str] = Stemmer.Stemmer("english", 0).stemWords(words)
    return stemmed


def index_terms(words: list[str]) -> list[str]:
    """Terms under which words are found: their English stems, and pairs of characters where a script has no spaces.

    Pairs are made of neighbouring Han or kana, and of the syllables of longer Hangul words, whose endings vary: the
    usual bigrams of search in Chinese, Japanese and Korean. Other words have no pairs.
    """
    return stem(words) + _pairs(words)


def _pairs(words: list[str]) -> list[str]:
    if "".join(words).isascii():
        return []
    singles = [_ONE_HAN.fullmatch(word) is not None for word in words]
    pairs = [words[place - 1] + words[place] for place in range(1, len(words)) if singles[place - 1] and singles[place]]
    for word in words:
        if _HANGUL.fullmatch(word):
            pairs += [word[place : place + 2] for place in range(len(word) - 1)]
    return pairs


def content_words(words: list[str]) -> list[str]:
    """Words that carry a topic; all of them when there are no others (``The Who``)."""
    return [word for word in words if word not in STOPWORDS] or words


def content_stems(text: str) -> list[str]:
    """Stems of the words that carry a topic; of all words when there are no others."""
    return stem(content_words(words(text)))


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
    """First ``limit`` words (or Han or kana characters) of a text on one line; an ellipsis shows that it was cut."""
    return _window(text, _places(text, limit + 1), 0, limit)


def snippet(text: str, query: str, limit: int) -> str:
    """Stretch of ``limit`` words that holds most of a query's topic words, on one line; ellipses show where it was cut.

    The beginning of the text is preferred, since it says what the text is about, unless another stretch holds more.
    Only the first 10,000 words are looked at.
    """
    places = _places(text, max(_SNIPPET_REACH, limit + 1))
    if len(places) <= limit:
        return _window(text, places, 0, limit)
    wanted = set(content_stems(query))
    pieces = [words(text[start:end]) for start, end in places]
    stems = iter(stem([word for piece in pieces for word in piece]))
    held = [wanted.intersection([next(stems) for _ in piece]) for piece in pieces]
    counts: Counter[str] = Counter()
    best, first = -1, 0
    for place, found in enumerate(held):
        counts.update(found)
        if place >= limit:
            counts.subtract(held[place - limit])
        if place >= limit - 1 and (holds := sum(count > 0 for count in counts.values())) > best:
            best, first = holds, place - limit + 1
    if first:
        # The stretch ends with the word that made it the best: leave as many words after what it holds as before.
        inside = [place for place in range(first, first + limit) if held[place]]
        first = min(max(inside[0] - (limit - 1 - inside[-1] + inside[0]) // 2, 0), len(places) - limit)
    return _window(text, places, first, limit)


def _places(text: str, limit: int) -> list[tuple[int, int]]:
    """Where the words of a text stand, punctuation included: runs between spaces, and single Han or kana."""
    return [match.span() for match in islice(_PIECE.finditer(text), limit)]


def _window(text: str, places: Sequence[tuple[int, int]], first: int, limit: int) -> str:
    kept = places[first : first + limit]
    shown = " ".join(text[kept[0][0] : kept[-1][1]].split()) if kept else ""
    return f"{'... ' if first else ''}{shown}{' ...' if first + limit < len(places) else ''}"


def tokens_by_words(text: str) -> int:
    """Rough token count of prose: what a visit's extract is cut by.

    Four tokens for three words, never fewer than one for six characters, and one for each Han or kana character.
    (:func:`venus_env.protocol.estimate_tokens` counts bytes instead: it also has to weigh markup and code.)
    """
    unspaced = 0 if text.isascii() else len(_ONE_HAN.findall(text))
    return max(-(-4 * len(text.split()) // 3), len(text) // 6) + unspaced


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
