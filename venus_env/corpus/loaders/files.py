"""Documents that are files: HTML, Markdown, PDF and plain text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from venus_env.corpus.loaders.chunk import Found
from venus_env.corpus.loaders.decode import decode
from venus_env.corpus.loaders.document import BadInput, Document, front_matter, local_url, make_document
from venus_env.corpus.loaders.html import html_sections
from venus_env.corpus.loaders.markdown import markdown_sections
from venus_env.corpus.loaders.pdf import pdf_sections
from venus_env.corpus.loaders.plain import plain_sections
from venus_env.corpus.loaders.source import SourceFile

KINDS = {
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".pdf": "pdf",
    ".txt": "text",
    ".text": "text",
}
MAX_BYTES = 512 * 2**20
_CHUNK_FILES = 64
_CHUNK_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class FileChunk:
    """Some files of a folder."""

    files: tuple[SourceFile, ...]
    url_base: str
    file: str = ""
    first: int = 0

    def fingerprint(self) -> bytes:
        """Hash names and contents."""
        named = "".join(f"{file.name}\0{file.sha256}\n" for file in self.files)
        return hashlib.sha256(f"files\n{self.url_base}\n{named}".encode("utf-8", "surrogateescape")).digest()

    def documents(self) -> Iterator[Found]:
        """Read the files."""
        for file in self.files:
            try:
                if file.bytes > MAX_BYTES:
                    raise BadInput(f"{file.bytes} bytes; files above {MAX_BYTES} are not read: split it")
                yield Found(file.name, None, read_file(file.name, file.path.read_bytes(), self.url_base))
            except BadInput as error:
                yield Found(file.name, None, error)
            except OSError as error:
                yield Found(file.name, None, BadInput(f"cannot be read ({error.strerror or error})"))


def file_chunks(files: list[SourceFile], url_base: str) -> Iterator[FileChunk]:
    """Group files, in order, so that a group is a job of some seconds."""
    group: list[SourceFile] = []
    size = 0
    for file in files:
        if group and (len(group) == _CHUNK_FILES or size + file.bytes > _CHUNK_BYTES):
            yield FileChunk(tuple(group), url_base)
            group, size = [], 0
        group.append(file)
        size += file.bytes
    if group:
        yield FileChunk(tuple(group), url_base)


def read_file(name: str, data: bytes, url_base: str) -> Document:
    """Turn one file into a document.

    Args:
        name: Path below the folder, with ``/``; it becomes the document's id and, behind ``url_base``, its address.
        data: Content.
        url_base: Base of addresses.

    Raises:
        BadInput: The file holds no text that can be read.
    """
    if not data.strip():
        raise BadInput("empty file")
    kind = KINDS[PurePosixPath(name.lower()).suffix]
    fields: dict[str, str] = {}
    if kind == "html":
        fields, sections = html_sections(data)
    elif kind == "pdf":
        fields, sections = pdf_sections(data)
    elif kind == "markdown":
        fields, text = front_matter(decode(data).replace("\r\n", "\n"))
        heading, sections = markdown_sections(text)
        fields = {"title": heading} | fields
    else:
        sections = plain_sections(data)
    title = fields.get("title") or PurePosixPath(name).stem.replace("_", " ")
    return make_document(name, local_url(url_base, name), title, sections, fields.get("date"))


def is_document(path: Path) -> bool:
    """Tell by its name whether a file is of a kind that is read here."""
    return path.suffix.lower() in KINDS
