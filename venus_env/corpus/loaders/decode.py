"""Bytes of a text file to text, whatever encoding they are in."""

from __future__ import annotations

import codecs

from venus_env.corpus.loaders.document import BadInput, MissingExtra

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Of the bytes beyond ASCII: below, a UTF-8 file has a few broken characters; above, it is something else.
_BROKEN_SHARE = 0.1
_PROBE_BYTES = 65_536


def decode(data: bytes, declared: str | None = None) -> str:
    """Decode by byte-order mark, as UTF-8, as declared, as damaged UTF-8, or by the likeliest legacy encoding.

    Args:
        data: The file.
        declared: Encoding that the file itself names, if any.

    Raises:
        BadInput: The bytes are no text in any known encoding.
        MissingExtra: They are not UTF-8 and there is no library to guess with.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = _legacy(data, declared)
    if "\x00" in text[:1024]:
        raise BadInput("holds NUL bytes: not a text file")
    return text


def _legacy(data: bytes, declared: str | None) -> str:
    if declared is not None:
        try:
            return data.decode(declared, errors="replace")
        except LookupError:
            pass  # the declaration is as wrong as it can be
    text = data.decode(errors="replace")
    beyond_ascii = sum(byte > 127 for byte in data[:_PROBE_BYTES])
    if data[:_PROBE_BYTES].decode(errors="replace").count("\ufffd") <= _BROKEN_SHARE * beyond_ascii:
        return text
    if b"\x00" in data[:1024]:
        raise BadInput("holds NUL bytes: not a text file")
    try:
        from charset_normalizer import from_bytes
    except ImportError as error:
        raise MissingExtra("a text file that is not UTF-8", "charset-normalizer") from error
    best = from_bytes(data[:_PROBE_BYTES]).best()
    if best is None:
        raise BadInput("is in no known text encoding")
    return data.decode(best.encoding, errors="replace")
