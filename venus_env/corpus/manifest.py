"""The manifest of an index: what it holds, what made it, and the size and hash of every file.

An index is a folder with ``manifest.json`` and one data folder that the manifest names. A rebuild writes a new data
folder beside the old one and then replaces the manifest in one step, so at every instant, crash or not, the manifest
names a complete index.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from venus_env.corpus.errors import CorpusDamaged, CorpusError
from venus_env.corpus.ingest import BuildOptions
from venus_env.corpus.rows import file_sha256

MANIFEST = "manifest.json"
SCHEMA: Final = "venus.index/2"
# Up to here opening an index re-hashes it (a fifth of a second at most); beyond, sizes are compared unless asked.
FULL_CHECK_BYTES = 256 * 2**20


class FileRecord(BaseModel):
    """Size and hash of one file of an index."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: int
    sha256: str


class Manifest(BaseModel):
    """``venus.index/2``.

    Attributes:
        content_hash: SHA-256 over the normalised passages; names the corpus in result cards.
        source: Name of the file or folder that the index was built from.
        source_sha256: Hash of its content; tells a rebuild whether anything changed.
        options: How the source became passages.
        encoder: Name and version of the dense vectors.
        encoder_spec: How their model is found.
        lexical: Library and format of the lexical index.
        documents: Number of documents, or of rows where these are passages.
        passages: Number of passages.
        pages: Number of distinct urls.
        words: Number of words.
        skipped: Number of rows and files that were left out because they are bad.
        duplicates: Number of documents that repeat an earlier one, dropped or not.
        data: Name of the data folder.
        files: Files in the data folder.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    schema_: Literal["venus.index/2"] = Field(default=SCHEMA, validation_alias="schema", serialization_alias="schema")
    content_hash: str
    source: str
    source_sha256: str
    options: BuildOptions
    encoder: str
    encoder_spec: str
    lexical: str
    documents: int
    passages: int
    pages: int
    words: int
    skipped: int
    duplicates: int
    data: str
    files: dict[str, FileRecord]

    def write(self, directory: Path) -> None:
        """Put this manifest in place in one step."""
        temporary = directory / f".{MANIFEST}-{secrets.token_hex(4)}"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(self.model_dump_json(by_alias=True, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(directory / MANIFEST)


def rebuild_hint(directory: Path) -> str:
    """Say how to get a sound index."""
    return f"build it again: python -m venus_env corpus build SOURCE --out {directory}"


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of an index.

    Raises:
        CorpusError: There is no index.
        CorpusDamaged: The manifest is unreadable or of another format version.
    """
    path = directory / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CorpusError(f"{directory}: no index here ({MANIFEST} is missing); {rebuild_hint(directory)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusDamaged(f"{path}: unreadable ({error}); {rebuild_hint(directory)}") from error
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        found = _schema_of(text)
        if found not in (None, SCHEMA):
            message = f"{path}: index format {found!r}, this version reads {SCHEMA!r}; {rebuild_hint(directory)}"
        else:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "whole file"
            message = f"{path}: damaged ({where}: {first['msg']}); {rebuild_hint(directory)}"
        raise CorpusDamaged(message) from error


def _schema_of(text: str) -> object:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value.get("schema") if isinstance(value, dict) else None


def check_files(directory: Path, manifest: Manifest, full: bool | None = None) -> None:
    """Compare the data folder with its manifest.

    Args:
        directory: The index.
        manifest: Its manifest.
        full: Re-hash every file; by default only where the index is small enough for that to be quick.

    Raises:
        CorpusDamaged: A file is missing, has another size or another content.
    """
    if full is None:
        full = sum(record.bytes for record in manifest.files.values()) <= FULL_CHECK_BYTES
    for name, record in manifest.files.items():
        path = directory / manifest.data / name
        try:
            size = path.stat().st_size
            changed = size == record.bytes and full and file_sha256(path) != record.sha256
        except OSError as error:
            raise CorpusDamaged(f"{path}: missing or unreadable ({error}); {rebuild_hint(directory)}") from error
        if size != record.bytes:
            raise CorpusDamaged(f"{path}: {size} bytes instead of {record.bytes}; {rebuild_hint(directory)}")
        if changed:
            raise CorpusDamaged(f"{path}: content differs from the manifest; {rebuild_hint(directory)}")


def describe_files(data: Path) -> dict[str, FileRecord]:
    """Size and hash of every file under a data folder, flushed to disk first."""
    records = {}
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        records[path.relative_to(data).as_posix()] = FileRecord(bytes=path.stat().st_size, sha256=file_sha256(path))
    return records
