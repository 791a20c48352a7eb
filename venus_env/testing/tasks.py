"""``check_tasks``: are the tasks of a file usable, and does a corpus hold the evidence that they name?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from venus_env.corpus.document import Corpus, Page
from venus_env.envs.portal import portal
from venus_env.tasks.loaders import TaskFileError, load_tasks
from venus_env.tasks.task import Task
from venus_env.testing.report import Doubtful, Failed, NotApplicable, Report, expect

_SHOWN = 3  # examples in a message


def check_tasks(
    tasks: str | Path | Sequence[Task], corpus: Corpus | None = None, *, timeout_s: float = 600.0
) -> Report:
    """Check tasks, and their evidence where a corpus is given.

    Args:
        tasks: A task file, ``"embedded"``, or tasks.
        corpus: Where the evidence should be found.
        timeout_s: Seconds after which a single check is given up as failed.
    """
    given = tasks if isinstance(tasks, str | Path) else f"{len(tasks)} given"
    report = Report(f"tasks {given}", timeout_s)
    portal().run(_TaskChecks(tasks, corpus).run(report))
    return report


class _TaskChecks:
    def __init__(self, tasks: str | Path | Sequence[Task], corpus: Corpus | None) -> None:
        self.given = tasks
        self.corpus = corpus
        self.tasks: Sequence[Task] = []
        self.pages: dict[str, Page | None] = {}

    async def run(self, report: Report) -> None:
        await report.run_async("load", self.load)
        await report.run_async("ids", self.ids, needs=("load",))
        await report.run_async("splits", self.splits, needs=("load",))
        await report.run_async("questions", self.questions, needs=("load",))
        await report.run_async("evidence pages", self.evidence_pages, needs=("load",))
        for check in (self.evidence_sentences, self.answers_in_evidence):
            await report.run_async(check.__name__.replace("_", " "), check, needs=("evidence pages",))

    def load(self) -> str:
        try:
            self.tasks = load_tasks(self.given) if isinstance(self.given, str | Path) else self.given
        except TaskFileError as error:
            raise Failed(str(error)) from error
        expect(bool(self.tasks), "there are no tasks")
        return f"{len(self.tasks)} tasks"

    def ids(self) -> None:
        twice = [task_id for task_id, count in Counter(task.id for task in self.tasks).items() if count > 1]
        expect(not twice, f"ids must be unique; {_some(twice)} occur more than once")

    def splits(self) -> str:
        sizes = Counter(task.split or "(none)" for task in self.tasks)
        if len(sizes) > 1 and "(none)" in sizes:
            raise Doubtful(
                f"{sizes['(none)']} tasks name no split while others do, so no run will use them: {dict(sizes)}"
            )
        return ", ".join(f"{split} {size}" for split, size in sizes.items())

    def questions(self) -> None:
        """The same question in two splits is training on the test set; twice in one split only counts double."""
        splits: dict[str, set[str | None]] = {}
        for task in self.tasks:
            splits.setdefault(" ".join(task.question.lower().split()), set()).add(task.split)
        leaked = [question for question, own in splits.items() if len(own) > 1]
        expect(not leaked, f"a question must be in one split only; {_some(leaked)} are in several")
        repeated = len(self.tasks) - len(splits)
        if repeated:
            raise Doubtful(f"{repeated} of {len(self.tasks)} questions repeat an earlier one")

    async def evidence_pages(self) -> str:
        if self.corpus is None:
            raise NotApplicable("no corpus to look for the evidence in; give one (corpus=…, --corpus)")
        urls = [step.url for task in self.tasks for step in task.evidence if step.url]
        if not urls:
            raise NotApplicable("no task names the url of its evidence")
        for url in dict.fromkeys(urls):
            self.pages[url] = await self.corpus.page(url)
        lost = [url for url, page in self.pages.items() if page is None]
        expect(
            not lost,
            f"{len(lost)} of {len(self.pages)} evidence pages are not in the corpus: {_some(lost)}; no policy can read "
            "them: add the pages, or drop the tasks",
        )
        return f"{len(self.pages)} pages of {sum(bool(task.evidence) for task in self.tasks)} tasks"

    def evidence_sentences(self) -> None:
        steps = [(task.id, step) for task in self.tasks for step in task.evidence if step.url and step.sentence]
        if not steps:
            raise NotApplicable("no task names the sentence of its evidence")
        lost = [
            f"{task_id}: {step.sentence!r}"
            for task_id, step in steps
            if _spaced(step.sentence) not in self._text(step.url)
        ]
        expect(not lost, f"{len(lost)} evidence sentences are not on their pages word for word: {_some(lost)}")

    def answers_in_evidence(self) -> str:
        with_pages = [task for task in self.tasks if task.evidence and all(step.url for step in task.evidence)]
        if not with_pages:
            raise NotApplicable("no task names the url of all of its evidence")
        without = [
            task.id
            for task in with_pages
            if not any(
                _spaced(answer).lower() in self._text(step.url).lower()
                for answer in task.answers
                for step in task.evidence
            )
        ]
        if without:
            raise Doubtful(
                f"no accepted answer of {len(without)} of {len(with_pages)} tasks occurs on its evidence pages: "
                f"{_some(without)}; fine for yes/no questions, otherwise add the spelling of the page to the answers"
            )
        return f"all of {len(with_pages)} tasks"

    def _text(self, url: str) -> str:
        page = self.pages[url]
        return "" if page is None else _spaced(" ".join(passage.text for passage in page.passages))


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _some(items: Sequence[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more
