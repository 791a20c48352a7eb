"""JSON lines, plain or gzipped, in any of the layouts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from venus_env.corpus.loaders.chunk import Chunk, Found, Unreadable
from venus_env.corpus.loaders.document import BadInput
from venus_env.corpus.loaders.layouts import LAYOUTS
from venus_env.corpus.loaders.source import SourceFile, open_rows
from venus_env.corpus.rows import READ_ERRORS, parse_row

_CHUNK_BYTES = 4 * 2**20
MAX_LINE_BYTES = 512 * 2**20


@dataclass(frozen=True, slots=True)
class LineChunk:
    """Some lines of a file."""

    file: str
    first: int
    data: bytes
    layout: str
    url_base: str

    def fingerprint(self) -> bytes:
        """Hash the lines; where in the file they stand does not matter."""
        return hashlib.sha256(f"{self.layout}\n{self.url_base}\n".encode() + self.data).digest()

    def documents(self) -> Iterator[Found]:
        """Parse the lines; blank ones are nothing."""
        layout = LAYOUTS[self.layout]
        for number, line in enumerate(self.data.split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                yield Found("", number, layout(parse_row(line), self.url_base))
            except ValueError as error:  # BadInput and the row checks
                yield Found("", number, BadInput(str(error)))


def line_chunks(file: SourceFile, layout: str, url_base: str, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[Chunk]:
    """Cut a file into chunks of whole lines; memory is bounded by the longest line."""
    first = 0
    try:
        with open_rows(file.path) as rows:
            while data := rows.read(chunk_bytes):
                if not data.endswith(b"\n"):
                    data += rows.readline(MAX_LINE_BYTES)
                    if len(data) > MAX_LINE_BYTES and not data.endswith(b"\n"):
                        yield Unreadable(file.name, first + data.count(b"\n"), _TOO_LONG)
                        return
                yield LineChunk(file.name, first, data, layout, url_base)
                first += data.count(b"\n")
    except READ_ERRORS as error:
        yield Unreadable(file.name, first, f"cannot be read from about here on ({error})")


_TOO_LONG = f"a line of more than {MAX_LINE_BYTES} bytes: this is not one JSON object a line"
