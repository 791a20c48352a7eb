"""Turn a checkpoint of a run into a Hugging Face folder: ``python -m venus_rl.merge RUN --out DIR``.

    python -m venus_rl.merge runs/venus --out my-policy                   the newest checkpoint of the last stage
    python -m venus_rl.merge runs/venus --stage rl --step 40 --out my-policy

The folder holds weights (safetensors, LoRA adapters merged), configuration, tokenizer, chat template and generation
settings, and loads with transformers and vLLM.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from venus_env.evaluation.card import write_text_atomic
from venus_rl.checkpoints import complete_steps, step_folder
from venus_rl.model.adapters import BASE_WEIGHT, is_adapter, plain_name

WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_STAGES = ("rl", "sft")


class MergeError(ValueError):
    """There is nothing to merge, or nowhere to put it; the message names the argument and the fix."""


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit status (0 done, 2 wrong input)."""
    parser = argparse.ArgumentParser(
        prog="python -m venus_rl.merge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="run folder (run.dir of venus_rl.train)")
    parser.add_argument("--stage", choices=_STAGES, help="stage of the checkpoint; default: rl if it has one, else sft")
    parser.add_argument("--step", type=int, help="step of the checkpoint; default: the newest")
    parser.add_argument("--out", type=Path, required=True, help="folder to make")
    parser.add_argument("--force", action="store_true", help="replace --out if it exists")
    arguments = parser.parse_args(argv)
    try:
        source = find_checkpoint(arguments.run, arguments.stage, arguments.step)
        if arguments.out.exists() and not arguments.force:
            raise MergeError(f"--out {arguments.out} exists: choose another folder, or replace it with --force")
        if arguments.out.resolve() in (source.resolve(), *source.resolve().parents):
            raise MergeError(f"--out {arguments.out} holds the run itself: choose another folder")
        export(source, arguments.out)
    except (MergeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{source} -> {arguments.out}")
    return 0


def find_checkpoint(run: Path, stage: str | None = None, step: int | None = None) -> Path:
    """Return the Hugging Face folder that verl keeps in a checkpoint.

    Args:
        run: Run folder.
        stage: ``rl`` or ``sft``; None for the last one with a checkpoint.
        step: Its step; None for the newest.

    Raises:
        MergeError: There is no such checkpoint; names those that there are.
    """
    if not run.is_dir():
        raise MergeError(f"{run}: no such run folder")
    found = {name: complete_steps(run / name / "checkpoints") for name in _STAGES}
    name = stage or next((name for name in _STAGES if found[name]), None)
    if name is None or not found[name]:
        raise MergeError(f"{run / (stage or '')} has no checkpoint; those of the run: {_listed(found)}")
    if step is not None and step not in found[name]:
        raise MergeError(f"--step {step}: stage {name} has no such checkpoint; those of the run: {_listed(found)}")
    folder = step_folder(run / name / "checkpoints", found[name][-1] if step is None else step)
    return folder / ("actor/huggingface" if name == "rl" else "huggingface")


def export(source: Path, target: Path) -> None:
    """Copy the Hugging Face folder ``source`` to ``target``, replacing it as a whole; LoRA adapters are merged.

    Raises:
        MergeError: ``source`` holds no weights, or the adapters' rank and scale are not on record.
    """
    if not any((source / name).exists() for name in (WEIGHTS, _INDEX)):
        raise MergeError(f"verl left no Hugging Face weights in {source}")
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # of an attempt that was killed
    try:
        shutil.copytree(source, temporary)
        _merge_adapters(source, temporary)
        _tidy(temporary)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _merge_adapters(source: Path, folder: Path) -> None:
    """Replace weights that verl saved in PEFT's layout by those of a plain model; others are left as they are."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    files = sorted(folder.glob("*.safetensors"))
    names: dict[str, Path] = {}
    for file in files:
        with safe_open(file, framework="pt") as weights:
            names |= dict.fromkeys(weights.keys(), file)
    if not any(map(is_adapter, names)):
        return
    meta = source.parent / "lora_train_meta.json"
    if not meta.exists():
        raise MergeError(f"{source} holds LoRA adapters, but {meta} with their rank and alpha is missing")
    lora = json.loads(meta.read_text(encoding="utf-8"))
    scale = lora["lora_alpha"] / lora["r"]

    def read(name: str) -> Any:
        with safe_open(names[name], framework="pt") as weights:
            return weights.get_tensor(name)

    merged = {}
    for name in names:
        if is_adapter(name):
            continue
        weight, layer = read(name), name.removesuffix(BASE_WEIGHT)
        if f"{layer}.lora_A.default.weight" in names:
            low, high = (read(f"{layer}.lora_{part}.default.weight") for part in "AB")
            weight = (weight.double() + scale * (high.double() @ low.double())).to(weight.dtype)
        merged[plain_name(name)] = weight.contiguous()
    for file in (*files, folder / _INDEX):
        file.unlink(missing_ok=True)
    save_file(merged, folder / WEIGHTS, metadata={"format": "pt"})


def _tidy(folder: Path) -> None:
    """Name the type of the weights in ``config.json``, where verl writes bfloat16 whatever it saves; let all read."""
    from safetensors import safe_open

    files = sorted(folder.glob("*.safetensors"))
    with safe_open(files[0], framework="pt") as weights:
        dtype = str(weights.get_tensor(next(iter(weights.keys()))).dtype).removeprefix("torch.")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    write_text_atomic(folder / "config.json", json.dumps(config | {"dtype": dtype}, indent=2) + "\n")
    for file in files:
        file.chmod(0o644)


def _listed(found: dict[str, list[int]]) -> str:
    return "; ".join(f"{name}: {', '.join(map(str, steps))}" for name, steps in found.items() if steps) or "none"


if __name__ == "__main__":
    raise SystemExit(main())
