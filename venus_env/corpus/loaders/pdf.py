"""PDF: the text layer, page by page."""

from __future__ import annotations

import re

from venus_env.corpus.loaders.document import BadInput, MissingExtra, Section
from venus_env.corpus.loaders.plain import unwrap

_DATE = re.compile(r"(?:D:)?(\d{4})(\d{2})?(\d{2})?")
_BLANK = re.compile(r"\n\s*\n")


def pdf_sections(data: bytes) -> tuple[dict[str, str], list[Section]]:
    """Read a document; each page is a section named ``p. N``.

    Returns:
        ``title`` and ``date`` where the document states them, and its sections.

    Raises:
        BadInput: It is damaged, encrypted, or holds pictures only.
    """
    try:
        import pypdfium2  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra("reading PDF", "pypdfium2") from error
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise BadInput(f"not a readable PDF ({error})") from error
    try:
        fields = _metadata(document.get_metadata_dict(skip_empty=True))
        sections = [
            Section(f"p. {number}", _page_text(document[number - 1].get_textpage().get_text_bounded()))
            for number in range(1, len(document) + 1)
        ]
    except pypdfium2.PdfiumError as error:
        raise BadInput(f"damaged PDF ({error})") from error
    finally:
        document.close()
    if not any(section.text for section in sections):
        raise BadInput("PDF without a text layer (scanned pages?)")
    return fields, sections


def _page_text(text: str) -> str:
    # U+FFFE is how PDFium marks the hyphen of a word that is divided at the end of a line.
    text = text.replace("\r\n", "\n").replace("\ufffe\n", "").replace("\ufffe", "")
    return "\n\n".join(filter(None, map(unwrap, _BLANK.split(text))))


def _metadata(found: dict[str, str]) -> dict[str, str]:
    fields = {"title": found["Title"]} if found.get("Title", "").strip() else {}
    date = _DATE.match(found.get("CreationDate", ""))
    if date:
        fields["date"] = "-".join(part for part in date.groups() if part)
    return fields
