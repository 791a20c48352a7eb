"""Cleaning of recorded trajectories for SFT: normalise → prune → dedup → validate → correctness → resample → write.

Every row that is read is either in ``clean.parquet`` (in one or several copies) or, with stage and reason, in
``rejected.parquet``. ``stats.json`` counts what each stage did, ``report.html`` shows it, and ``report.json`` is the
manifest: the same counts, what the result was made from, and the hashes of its files.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from venus_env.protocol.turns import Message
from venus_env.rewards import judge, llm_judge, outcome
from venus_env.rewards.llm_judge import LLMJudge
from venus_env.tokens import Renderer
from venus_rl.data import calls, correctness, dedup, process, prune, resample, row_store, tally, validate
from venus_rl.data.artifact import Artifact, file_hash, produce, source_hash
from venus_rl.data.build import READERS, tokenizer_hash
from venus_rl.data.correctness import Verdict, ask, final_answer, match
from venus_rl.data.normalise import default_prompt
from venus_rl.data.options import CleanConfig
from venus_rl.data.parquet import RowWriter
from venus_rl.data.process import Clean, Item, Rejected
from venus_rl.data.report_page import page
from venus_rl.data.resample import bucket, consecutive, copies, spread
from venus_rl.data.row_store import RowStore
from venus_rl.data.sources import find_files, raw_rows
from venus_rl.data.tally import Tally

logger = logging.getLogger(__name__)

CLEAN_FILE, REJECTED_FILE, STATS_FILE, PAGE_FILE = "clean.parquet", "rejected.parquet", "stats.json", "report.html"
_CODE = (
    *READERS,
    calls,
    correctness,
    dedup,
    judge,
    llm_judge,
    outcome,
    process,
    prune,
    resample,
    row_store,
    tally,
    validate,
)
_ROWS_PER_TASK = 8
_ROWS_PER_JUDGEMENT = 512

_Value = TypeVar("_Value")


def clean(
    inputs: Iterable[str | Path],
    config: CleanConfig,
    out: str | Path,
    *,
    prompt: str | None = None,
    workers: int = 1,
    progress: bool = True,
) -> Artifact:
    """Clean trajectories; reuse the result of an earlier run with the same inputs.

    Must be called outside of a running event loop. A result with undecided rows is made again by the next run, which
    asks the judge for these only: all verdicts are kept.

    Args:
        inputs: Files, folders or glob patterns, see :mod:`venus_rl.data.normalise`.
        config: The stages.
        out: Folder under which the result's own folder lies.
        prompt: System prompt of the template where ``config.prompt_file`` names none; the environment's if None.
        workers: Processes for the stages before ``correctness``.
        progress: Show progress.

    Returns:
        The result: ``clean.parquet``, ``rejected.parquet``, ``stats.json``, ``report.html``, and the report. It may be
        without any trajectory.

    Raises:
        OSError: An input, the prompt's file or the tokenizer is not there.
        ValueError: The key of the judge is not in the environment.
    """
    files = find_files(inputs)
    if config.prompt_file is not None:
        prompt = config.prompt_file.read_text(encoding="utf-8")
    elif prompt is None:
        prompt = default_prompt(config.current_date)
    tokenizer = None if config.tokenizer is None else _load_tokenizer(config.tokenizer)
    out = Path(out)
    settings = config.model_dump(mode="json", exclude={"judge", "prompt_file", "current_date", "tokenizer"})
    depends_on = {
        "code": source_hash(*_CODE),
        "files": [[path.name, file_hash(path)] for path in files],
        "config": settings,
        "judge": [config.judge.url, config.judge.model] if config.correctness == "llm" else None,
        "prompt": prompt,
        "tokenizer": None if tokenizer is None else tokenizer_hash(tokenizer),
    }
    run = _Run(config, prompt, out, None if tokenizer is None else Renderer(tokenizer), workers, progress)
    return produce(out, "clean", depends_on, lambda folder: run.write(files, folder))


class _Run:
    """One pass over the inputs."""

    def __init__(
        self,
        config: CleanConfig,
        prompt: str,
        out: Path,
        renderer: Renderer | None,
        workers: int,
        progress: bool,
    ) -> None:
        self._config = config
        self._prompt = prompt
        self._out = out
        self._renderer = renderer
        self._workers = workers
        self._progress = progress
        self._tally = Tally()

    def write(self, files: Sequence[Path], folder: Path) -> Mapping[str, Any]:
        """Write all files of the result but the manifest, whose content is returned."""
        with RowStore(folder) as store:
            counts = self._sort_out(files, folder, store)
            self._write_clean(counts, folder, store)
        report = {**self._tally.report(), "buckets": self._buckets(), "complete": not self._tally.undecided}
        (folder / STATS_FILE).write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / PAGE_FILE).write_text(page(report, files), encoding="utf-8")
        written = (CLEAN_FILE, REJECTED_FILE, STATS_FILE, PAGE_FILE)
        return {**report, "sha256": {name: file_hash(folder / name) for name in written}}

    def _sort_out(self, files: Sequence[Path], folder: Path, store: RowStore) -> list[int]:
        """Keep what goes through in the store, write the rest; return the copies of each kept row."""
        config, counts = self._config, []
        items = tqdm(_items(files), desc="clean", unit="row", disable=not self._progress)
        with RowWriter.rejected(folder / REJECTED_FILE) as rejected, closing(self._outcomes(items)) as outcomes:
            for made in outcomes:
                self._tally.add(made)
                if isinstance(made, Rejected):
                    rejected.add(
                        source=made.source, stage=made.stage, reason=made.reason, detail=made.detail, row=made.row
                    )
                    continue
                if self._renderer is not None:
                    self._tally.tokens[len(self._renderer.encode(_messages(made)).ids)] += 1
                counts.append(copies(made.turns, config.thresholds, config.multipliers))
                self._tally.written[made.turns] += counts[-1]
                store.append((made.question, made.gt, _messages(made), made.source, made.turns))
        return counts

    def _write_clean(self, counts: Sequence[int], folder: Path, store: RowStore) -> None:
        config = self._config
        if config.reference:
            order = consecutive(counts, config.seed if config.shuffled else None)
        elif config.shuffled:
            order = spread(counts, config.seed)
        else:
            order = consecutive(counts)
        with RowWriter.clean(folder / CLEAN_FILE, bare=config.reference) as writer:
            for row, copy in tqdm(order, desc="write", unit="row", disable=not self._progress):
                question, gt, messages, source, turns = store[row]
                writer.add(question=question, messages=messages, gt=gt, source=source, turns=turns, copy=copy)

    def _outcomes(self, items: Iterable[Item]) -> Generator[Clean | Rejected, None, None]:
        processed = _processed(items, self._config, self._prompt, self._workers)
        if self._config.correctness == "none":
            yield from processed
            return
        with asyncio.Runner() as runner:
            asked = _open_judge(self._config, self._out)
            try:
                for batch in _batches(processed, _ROWS_PER_JUDGEMENT):
                    rows = [made for made in batch if isinstance(made, Clean)]
                    verdicts = iter(runner.run(_verdicts(rows, self._config, asked)))
                    for made in batch:
                        yield made if isinstance(made, Rejected) else self._decide(made, next(verdicts))
            finally:
                if asked is not None:
                    self._tally.stages["judge"] += asked.usage
                    runner.run(asked.aclose())

    def _decide(self, row: Clean, verdict: Verdict) -> Clean | Rejected:
        row.counts["correctness"] = Counter([verdict.value])
        if verdict.value == "correct" or (verdict.value != "wrong" and self._config.undecided == "keep"):
            return row
        record = {"question": row.question, "messages": row.messages, "gt": row.gt}
        written = json.dumps(record, ensure_ascii=False)
        return Rejected(row.source, "correctness", verdict.value, verdict.detail, written, row.counts)

    def _buckets(self) -> dict[str, dict[str, int]]:
        """Trajectories and copies per bucket of turns."""
        made: dict[str, Counter[str]] = {"original": Counter(), "resampled": Counter()}
        for name, histogram in (("original", self._tally.after), ("resampled", self._tally.written)):
            for turns, number in sorted(histogram.items()):
                made[name][bucket(turns, self._config.thresholds)] += number
        return {name: dict(counts) for name, counts in made.items()}


def _items(files: Sequence[Path]) -> Iterator[Item]:
    for path in files:
        for number, value in raw_rows(path):
            yield Item(path, number, value)


def _processed(items: Iterable[Item], config: CleanConfig, prompt: str, workers: int) -> Iterator[Clean | Rejected]:
    """Outcomes in the order of the items; only a few items per worker are in memory."""
    if workers == 1:
        for item in items:
            yield process.process(item, config, prompt)
        return
    pending: deque[Future[list[Clean | Rejected]]] = deque()
    # Not fork: the judge's connections and tqdm's threads would be copied in whatever state they are.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for batch in _batches(items, _ROWS_PER_TASK):
            pending.append(pool.submit(_process_all, batch, config, prompt))
            if len(pending) > 2 * workers:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def _process_all(items: list[Item], config: CleanConfig, prompt: str) -> list[Clean | Rejected]:
    return [process.process(item, config, prompt) for item in items]


def _batches(values: Iterable[_Value], size: int) -> Iterator[list[_Value]]:
    iterator = iter(values)
    while batch := list(islice(iterator, size)):
        yield batch


async def _verdicts(rows: Sequence[Clean], config: CleanConfig, asked: LLMJudge | None) -> list[Verdict]:
    if asked is not None:
        return await ask(asked, [(row.question, row.answers, final_answer(row.messages)) for row in rows])
    threshold = config.f1_threshold if config.correctness == "f1" else None
    return [match(row.answers, final_answer(row.messages), threshold) for row in rows]


def _open_judge(config: CleanConfig, out: Path) -> LLMJudge | None:
    if config.correctness != "llm":
        return None
    settings = config.judge
    key = None
    if settings.key_variable is not None:
        key = os.environ.get(settings.key_variable)
        if not key:
            raise ValueError(f"judge.key_variable={settings.key_variable}: there is no such environment variable")
    return LLMJudge(
        str(settings.url),
        str(settings.model),  # CleanConfig has checked that both are there
        api_key=key,
        cache=settings.cache or out / "judge.sqlite",
        concurrency=settings.concurrency,
        max_requests=settings.max_requests,
        max_reply_tokens=settings.max_reply_tokens,
        timeout_s=settings.timeout_s,
        attempts=settings.attempts,
        backoff_s=settings.backoff_s,
    )


def _messages(row: Clean) -> list[Message]:
    return [Message(role=message["role"], content=message["content"]) for message in row.messages]


def _load_tokenizer(folder: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)
