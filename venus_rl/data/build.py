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
from venus_env.protocol.turns import Message
from venus_env.tokens import Renderer
from venus_rl.data import calls, chat_formats, conversation, normalise, redsearcher, search_results, sources
from venus_rl.data.artifact import Artifact, file_hash, produce, source_hash, summary
from venus_rl.data.normalise import ReadReport, default_prompt, read_conversations
from venus_rl.data.sources import find_files

SFT_FILE = "sft.parquet"
READERS = (calls, chat_formats, conversation, normalise, redsearcher, search_results, sources)
"""Modules that decide what a row becomes."""
_ROWS_PER_GROUP = 256


def build_sft(
    inputs: Iterable[str | Path],
    tokenizer: Any,
    out: str | Path,
    *,
    max_tokens: int,
    prompt: str | None = None,
    progress: bool = True,
) -> Artifact:
    """Tokenise conversations; reuse the result of an earlier run with the same inputs.

    Args:
        inputs: Files, folders or glob patterns, see :mod:`venus_rl.data.normalise`.
        tokenizer: The policy's (fast) tokenizer with its chat template.
        out: Folder under which the result's own folder lies.
        max_tokens: Longest trajectory that is kept.
        prompt: System prompt of rows that have none of this protocol; the environment's if None.
        progress: Show a progress bar.

    Returns:
        The result: ``sft.parquet`` and a report on rows, drops and lengths.

    Raises:
        ValueError: No trajectory is left, or a source is damaged.
    """
    files = find_files(inputs)
    renderer = Renderer(tokenizer)
    prompt = default_prompt() if prompt is None else prompt
    depends_on = {
        "code": source_hash(venus_env.tokens, sys.modules[__name__], *READERS),
        "prompt": prompt,
        "files": [[path.name, file_hash(path)] for path in files],
        "tokenizer": tokenizer_hash(tokenizer),
        "max_tokens": max_tokens,
    }
    return produce(
        Path(out), "sft", depends_on, lambda folder: _write(files, prompt, renderer, folder, max_tokens, progress)
    )


def tokenizer_hash(tokenizer: Any) -> str:
    """Hash of all that decides how conversations become ids: pieces, merges, added tokens, chat template."""
    text = f"{tokenizer.backend_tokenizer.to_str()}\n{tokenizer.chat_template}"
    return hashlib.sha256(text.encode()).hexdigest()


def _write(
    files: list[Path], prompt: str, renderer: Renderer, folder: Path, max_tokens: int, progress: bool
) -> Mapping[str, Any]:
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
        rows = read_conversations(files, read, prompt)
        for row in tqdm(rows, desc="tokenise", unit="trajectory", disable=not progress):
            conversation = renderer.encode([Message(role=m["role"], content=m["content"]) for m in row.messages])
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
