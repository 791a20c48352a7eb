from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.env.corpus.loaders.samples import HTML, pdf
from venus_env.corpus.loaders.document import URL_BASE, BadInput
from venus_env.corpus.loaders.files import read_file


def test_html_keeps_the_content_and_drops_the_rest() -> None:
    document = read_file("a b/lyon.html", HTML.encode(), URL_BASE)
    assert (document.id, document.url) == ("a b/lyon.html", "https://corpus.invalid/a%20b/lyon.html")
    assert (document.title, document.date) == ("Lyon: silk", "2021-05-06")
    assert [section.heading for section in document.sections] == [None, "Revolts", "Revolts > Songs & such"]
    assert "The weavers revolted in 1831" in document.sections[1].text
    assert "- first item of the list\n- second item" in document.sections[1].text
    text = " ".join(section.text for section in document.sections)
    for boilerplate in ("cookies", "Shop", "buy silk", "imprint", "<b>", "**"):
        assert boilerplate not in text


@pytest.mark.parametrize(
    ("page", "title", "text"),
    [
        ("<p>short", "page", "short"),
        ("<title>Stub</title><nav>menu</nav><body>Two words<script>no()</script>", "Stub", "Two words"),
        ("<html><body>" + "<div>" * 3000 + "deep words", "page", "deep words"),
    ],
)
def test_pages_without_main_content_give_their_visible_text(page: str, title: str, text: str) -> None:
    document = read_file("page.html", page.encode(), URL_BASE)
    assert document.title == title
    assert document.sections[0].text == text


def test_large_pages_are_read_in_linear_time() -> None:
    page = "<html><body>" + "<p>Some words in a paragraph here.</p>" * 40_000
    assert len(read_file("page.html", page.encode(), URL_BASE).sections[0].text) > 1_000_000


def test_declared_encoding_is_used() -> None:
    page = '<head><meta charset="windows-1251"></head><p>' + "Привет, это проверка."
    assert read_file("p.html", page.encode("cp1251"), URL_BASE).sections[0].text == "Привет, это проверка."


def test_markdown_sections_and_front_matter() -> None:
    source = (
        "---\ntitle: From the head\ndate: 2019-04-01\n---\n# First\n\nIntro [link](http://x) and `code`,\nwrapped.\n\n"
        "## A\n- one\n- two\n\n```\nprint(1)\n```\n\n### B\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "## C\n\n<div>raw</div>\n"
    )
    document = read_file("notes/read.md", source.encode(), "https://example.org/docs")
    assert (document.title, document.date) == ("From the head", "2019-04-01")
    assert document.url == "https://example.org/docs/notes/read.md"
    assert [(section.heading, section.text) for section in document.sections] == [
        (None, "Intro link and code, wrapped."),
        ("A", "- one\n- two\n\nprint(1)"),
        ("A > B", "a | b\n1 | 2"),
        ("C", "raw"),
    ]
    assert read_file("read_me.md", b"text only", URL_BASE).title == "read me"
    assert read_file("x.md", b"# Heading\n\ntext", URL_BASE).title == "Heading"


def test_pdf_pages_are_sections() -> None:
    data = pdf("Silk made Lyon rich and\nits weavers revolted.", "", "Third page.")
    document = read_file("report.pdf", data, URL_BASE)
    assert (document.title, document.date) == ("A report", "2020-01-02")
    assert [(section.heading, section.text) for section in document.sections] == [
        ("p. 1", "Silk made Lyon rich and its weavers revolted."),
        ("p. 3", "Third page."),
    ]


def test_hard_wrapped_text_is_joined_and_lists_are_not() -> None:
    wrapped = "This paragraph was wrapped by an editor at seventy columns, as\nis the custom in mail and in notes.\n"
    document = read_file("a.txt", (wrapped + "\n\nmilk\neggs\n").replace("\n", "\r\n").encode(), URL_BASE)
    assert document.sections[0].text == wrapped.strip().replace("\n", " ") + "\n\nmilk\neggs"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("Grüße".encode("utf-8-sig"), "Grüße"),
        ("Grüße".encode("utf-16"), "Grüße"),
        ("Die Straße in Köln ist schöner, größer und älter.".encode("latin-1"), "schöner, größer"),
        ("Die Straße in Köln ist schöner, größer und älter, ähnlich öde".encode() + b"\xff", "öde\ufffd"),
        (b"nul\x07bell\x0cpage", "nul bell page"),
    ],
)
def test_encodings(data: bytes, text: str) -> None:
    assert text in read_file("a.txt", data, URL_BASE).sections[0].text


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"", "empty file"),
        ("a.html", b" \n", "empty file"),
        ("a.txt", b"\x89PNG\x00\x00\x01", "NUL bytes"),
        ("a.html", b"<html><body><!-- nothing -->", "holds no text"),
        ("a.html", b"<div>" * 200_000 + b"x", "nested more than 5000 deep"),
        ("a.md", b"# Only\n\n## headings\n", "holds no text"),
        ("a.pdf", b"%PDF-1.4 garbage", "not a readable PDF"),
        ("a.pdf", pdf("text")[:200], "not a readable PDF"),
        ("a.pdf", pdf(""), "without a text layer"),
    ],
)
def test_files_without_text_are_named_with_the_reason(name: str, data: bytes, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        read_file(name, data, URL_BASE)


@pytest.mark.parametrize(
    ("library", "name"), [("trafilatura", "a.html"), ("markdown_it", "a.md"), ("pypdfium2", "a.pdf")]
)
def test_missing_extra_names_the_pip_line(library: str, name: str) -> None:
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from venus_env.corpus.loaders.files import read_file\n"
        f"try: read_file({name!r}, b'<p>text', 'https://x/')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("MissingExtra")
    assert 'pip install "venus-research[corpus]"' in done.stdout


def test_a_name_that_is_not_utf8_still_has_an_address(tmp_path: Path) -> None:
    document = read_file("caf\udce9.txt", b"coffee", URL_BASE)
    assert document.url == "https://corpus.invalid/caf%E9.txt"
    document.id.encode()
