from __future__ import annotations

import json

import pytest

from venus_env.corpus import Corpus, open_corpus
from venus_env.tasks.task import Task

PAGES = {
    "Lyon": "Lyon is a city in France. Its mayor is Ann Leroy.",
    "Oslo": "Oslo is a city in Norway. Its mayor is Kari Dahl.",
    "Norway": "Norway is a country in Europe. Its currency is the krone.",
}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus of three pages."""
    folder = tmp_path_factory.mktemp("evaluation")
    rows = [
        {"id": title, "url": f"https://venus.wiki/{title}", "title": title, "text": text}
        for title, text in PAGES.items()
    ]
    source = folder / "pages.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return open_corpus(source, cache_dir=folder / "cache")


@pytest.fixture
def tasks() -> list[Task]:
    def evidence(title: str, relation: str, value: str) -> dict[str, str]:
        url, sentence = f"https://venus.wiki/{title}", f"Its {relation} is {value}."
        return {"url": url, "title": title, "sentence": sentence, "relation": relation, "value": value}

    rows = [
        ("lyon", "Who is the mayor of Lyon?", "Ann Leroy", [evidence("Lyon", "mayor", "Ann Leroy")]),
        ("oslo", "Who is the mayor of Oslo?", "Kari Dahl", [evidence("Oslo", "mayor", "Kari Dahl")]),
        ("norway", "What money do people use in Norway?", "krone", [evidence("Norway", "currency", "krone")]),
    ]
    return [
        Task(id=name, question=question, answers=(answer,), evidence=path, hops=1)  # type: ignore[arg-type]
        for name, question, answer, path in rows
    ]
