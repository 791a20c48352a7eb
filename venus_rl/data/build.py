"""Conversations → token ids and loss masks in a parquet file, ready for supervised fine-tuning.

Columns: ``input_ids``, ``loss_mask`` (1 on what the assistant wrote and on its end-of-turn token), ``turns``,
``tokens``, ``source``. A trajectory longer than the limit is dropped and counted, never truncated: truncation on the
right would cut off just the answer.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

import venus_env.tokens
import venus_rl.data.normalise
from venus_env.tokens import Renderer
from venus_rl.data.artifact import Artifact, file_hash, produce, source_hash, summary
from venus_rl.data.normalise import ReadReport, find_files, read_conversations

SFT_FILE = "sft.parquet"
_ROWS_PER_GROUP = 256


def build_sft(
    sources: Iterable[str | Path], tokenizer: Any, out: str | Path, *, max_tokens: int, progress: bool = True
) -> Artifact:
    """Tokenise conversations; reuse the result of an earlier run with the same inputs.

    Args:
        sources: Files, folders or glob patterns, see :mod:`venus_rl.data.normalise`.
        tokenizer: The policy's (fast) tokenizer with its chat template.
        out: Folder under which the result's own folder lies.
        max_tokens: Longest trajectory that is kept.
        progress: Show a progress bar.

    Returns:
        The result: ``sft.parquet`` and a report on rows, drops and lengths.

    Raises:
        ValueError: No trajectory is left, or a source is damaged.
    """
    files = find_files(sources)
    renderer = Renderer(tokenizer)
    inputs = {
        "code": source_hash(venus_env.tokens, sys.modules[__name__], venus_rl.data.normalise),
        "files": [[path.name, file_hash(path)] for path in files],
        "tokenizer": tokenizer_hash(tokenizer),
        "max_tokens": max_tokens,
    }
    return produce(Path(out), "sft", inputs, lambda folder: _write(files, renderer, folder, max_tokens, progress))


def tokenizer_hash(tokenizer: Any) -> str:
    """Hash of all that decides how conversations become ids: pieces, merges, added tokens, chat template."""
    text = f"{tokenizer.backend_tokenizer.to_str()}\n{tokenizer.chat_template}"
    return hashlib.sha256(text.encode()).hexdigest()


def _write(files: list[Path], renderer: Renderer, folder: Path, max_tokens: int, progress: bool) -> Mapping[str, Any]:
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema(
        {
            "input_ids": pyarrow.list_(pyarrow.int32()),
            "loss_mask": pyarrow.list_(pyarrow.int8()),
            "turns": pyarrow.int32(),
            "tokens": pyarrow.int32(),
            "source": pyarrow.string(),
        }
    )
    read = ReadReport()
    dropped: Counter[str] = read.dropped
    tokens: list[int] = []
    turns: list[int] = []
    trained = 0
    pending: list[dict[str, Any]] = []
    with pyarrow.parquet.ParquetWriter(folder / SFT_FILE, schema, compression="zstd") as writer:
        rows = read_conversations(files, read)
        for row in tqdm(rows, desc="tokenise", unit="trajectory", disable=not progress):
            conversation = renderer.encode(row.messages)
            if len(conversation.ids) > max_tokens:
                dropped["over_long"] += 1
                continue
            tokens.append(len(conversation.ids))
            turns.append(len(conversation.turns))
            trained += sum(conversation.mask)
            pending.append(
                {
                    "input_ids": conversation.ids,
                    "loss_mask": conversation.mask,
                    "turns": turns[-1],
                    "tokens": tokens[-1],
                    "source": row.source,
                }
            )
            if len(pending) == _ROWS_PER_GROUP:
                writer.write_table(pyarrow.Table.from_pylist(pending, schema=schema))
                pending = []
        writer.write_table(pyarrow.Table.from_pylist(pending, schema=schema))
    if not tokens:
        raise ValueError(
            f"no trajectory is left of {read.rows} rows; dropped by reason: {dict(dropped) or 'none read'}"
        )
    return {
        "rows": read.rows,
        "kept": len(tokens),
        "dropped": dict(sorted(dropped.items())),
        "tokens": summary(tokens),
        "turns": summary(turns),
        "total_tokens": sum(tokens),
        "loss_token_share": trained / sum(tokens),
    }
