from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROWS: list[dict[str, Any]] = [
    {
        "id": "lyon",
        "url": "https://venus.wiki/Lyon",
        "title": "Lyon",
        "text": "Lyon is a city in France. It stands where the Rhone meets the Saone.",
        "date": "2020-01-02",
    },
    {
        "id": "oslo",
        "url": "https://venus.wiki/Oslo",
        "title": "Oslo",
        "text": "Oslo is the capital of Norway. Its harbour lies at the end of a long fjord.",
    },
    {
        "id": "curie",
        "url": "https://venus.wiki/Marie_Curie",
        "title": "Marie Curie",
        "text": "Marie Curie was a physicist born in Warsaw. She discovered polonium and radium.",
    },
    # A second passage of the first page, further down the file.
    {
        "id": "lyon-2",
        "url": "https://venus.wiki/Lyon",
        "title": "Lyon",
        "text": "Silk weaving made Lyon rich. Its weavers revolted in 1831.",
    },
    {
        "id": "saopaulo",
        "url": "https://venus.wiki/S%C3%A3o_Paulo",
        "title": "São Paulo",
        "text": "São Paulo is the largest city of Brazil.",
    },
]


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return [dict(row) for row in ROWS]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_rows(rows: Sequence[dict[str, Any]], name: str = "pages.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return path

    return write_rows


@pytest.fixture(scope="session")
def wiki7k() -> Path:
    folder = (Path(__file__).resolve().parents[3] / "../shared/data/wiki7k").resolve()
    if not folder.is_dir():
        pytest.skip(f"needs the real passages at {folder}")
    return folder


@pytest.fixture(scope="session")
def wiki7k_index(wiki7k: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from venus_env.corpus.build import build_index

    out = tmp_path_factory.mktemp("wiki7k") / "index"
    build_index(wiki7k / "corpus.jsonl", out)
    return out
