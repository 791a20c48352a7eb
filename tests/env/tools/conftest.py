from __future__ import annotations

import json

import pytest

from venus_env.corpus.build import build_index
from venus_env.corpus.local import LocalCorpus

LONG = " ".join(f"Filler sentence number {n} talks about weather." for n in range(40))
ROWS = [
    ("oslo", "Oslo", "Oslo is the capital of Norway. Its harbour lies at the end of a long fjord.", "2021-05-06"),
    ("lyon", "Lyon", 'Lyon is a city in France. Locals call it "la ville des gones".', None),
    ("long", "Long", f"A long page begins here. {LONG} The treasure was buried in Bergen. {LONG}", None),
    ("long", "Long", "The treasure was found by Ada in 1999. Nothing else is known.", None),
]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> LocalCorpus:
    folder = tmp_path_factory.mktemp("tools")
    lines = []
    for number, (name, title, text, date) in enumerate(ROWS):
        row = {"id": str(number), "url": f"https://venus.wiki/{name}", "title": title, "text": text, "date": date}
        lines.append(json.dumps(row) + "\n")
    (folder / "pages.jsonl").write_text("".join(lines))
    build_index(folder / "pages.jsonl", folder / "index")
    return LocalCorpus(folder / "index")
