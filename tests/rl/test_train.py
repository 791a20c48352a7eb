"""The command line: bad input stops with status 2, names key and fix, and leaves every file as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rl.conftest import World
from venus_rl import train
from venus_rl.config import Config
from venus_rl.process import StageFailed
from venus_rl.run_folder import RunFolder
from venus_rl.settings import describe_keys

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(world: World, policy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command line on the small world; returns exit status, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        base = [f"run.dir={tmp_path / 'run'}", "run.threads=1", f"model.path={policy_folder}", "data.oracle=4"]
        world_keys = [f"env.corpus={world.corpus}", f"env.tasks={world.tasks}"]
        status = train.main([*base, *world_keys, *arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


BAD: list[tuple[list[str], list[str]]] = [
    (["rl.stepz=3"], ["unknown key 'rl.stepz'", "did you mean 'rl.steps'?"]),
    (["env.corpus=TMP/no.jsonl"], ["env.corpus=", "no.jsonl"]),
    (["env.corpus=TMP"], ["env.corpus=", "TMP"]),
    (["env.tasks=TMP/no.jsonl"], ["env.tasks=", "no task file at", "give 'embedded', 'full' or a .jsonl"]),
    (["env.tasks=TMP/wrong-column.jsonl"], ["env.tasks=", "row 1", "querry", "question"]),
    (["eval.split=validation"], ["env.tasks=", "no task of split 'validation'", "it has test, train"]),
    (["data.hops=[7]"], ["data.hops=[7]", "has [1]"]),
    (["rl.hops=[7]"], ["rl.hops=[7]", "has [1]"]),
    (["rl.prompts=9"], ["rl.prompts=9", "has 8 to train on", "use rl.prompts=8 or less"]),
    (["rl.group=1"], ["rl.group=1", "use rl.group=2 or more"]),
    (["run.processes=3", "sft.batch_size=32"], ["sft.batch_size=32", "run.processes=3", "use sft.batch_size=33"]),
    (
        ["run.processes=3", "sft.batch_size=3", "rl.prompts=2", "rl.group=4"],
        ["rl.prompts × rl.group = 2 × 4", "run.processes=3", "use rl.group=6"],
    ),
    (["env.max_context_tokens=4096"], ["env.max_context_tokens=4096", "2048", "set env.max_context_tokens=2048"]),
    (["sft.max_tokens=4096"], ["sft.max_tokens=4096", "set sft.max_tokens=2048 or less"]),
    (["model.init.positions=512"], ["env.max_context_tokens=1024", "model.init.positions=512"]),
    (["model.init.layers=1"], ["model.init:", "layers >= 2"]),
    (["model.path=TMP/none"], ["model.path=", "no config.json", "model.init"]),
    (["model.path=TMP/no-weights"], ["model.path=", "no *.safetensors weights"]),
    (["model.path=TMP/damaged"], ["model.path=", "config.json is damaged"]),
    (["sft.data=TMP/nothing*"], ["sft.data=", "no such file, folder or pattern"]),
    (["data.oracle=0"], ["data.oracle=0", "sft.data", "sft.enabled=false"]),
    (["stage=rl"], ["stage=rl", "run stage=sft first", "sft.enabled=false"]),
    (["run.dir=TMP/file/run"], ["run.dir=", "cannot make this folder"]),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_input_is_named_with_the_fix_and_nothing_is_written(
    command: Command, tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    write(tmp_path / "wrong-column.jsonl", {"querry": "Who?", "answers": ["x"]})
    (tmp_path / "file").write_text("")
    for name, config in (("no-weights", "{}"), ("damaged", "{")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(config)
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"")
    before = contents(tmp_path)
    status, out, err = command(*[argument.replace("TMP", str(tmp_path)) for argument in arguments])
    assert status == 2
    assert out == ""
    message = err[err.index("error: ") :]
    assert [word for word in words if word.replace("TMP", str(tmp_path)) not in message] == []
    assert "Traceback" not in err
    assert contents(tmp_path) == before
    assert not (tmp_path / "run").exists()


def test_sizes_of_stages_that_do_not_run_are_not_checked(command: Command, tmp_path: Path) -> None:
    sizes = ["run.processes=3", "sft.batch_size=32", "rl.group=1", "rl.prompts=99"]
    assert command(*sizes, "sft.enabled=false", "rl.steps=0", "eval.stages=[]")[0] == 0
    assert (tmp_path / "run" / "config.yaml").exists()


def test_settings_that_a_finished_stage_was_not_made_with_are_refused_before_anything_is_replaced(
    command: Command, make_config: Callable[..., Config], tmp_path: Path
) -> None:
    assert command("stage=data")[0] == 0
    folder = RunFolder(make_config())
    for name in ("sft", "rl"):
        folder.begin(name, "made with other settings")
        folder.finish(name, "made with other settings", 1.0, steps=10)
    (folder.root / "eval").mkdir()
    (folder.root / "eval" / "initial.json").write_text("an earlier card")
    before = contents(folder.root)
    for arguments, stage in (
        (["stage=sft", "sft.lr=0.5"], "sft"),
        (["stage=all", "sft.lr=0.5"], "sft"),
        (["stage=rl", "sft.enabled=false", "rl.lr=0.5"], "rl"),
    ):
        status, _, err = command(*arguments)
        assert status == 2
        assert f"run/{stage} was made with other settings: choose another run.dir, or delete that folder" in err
        assert contents(folder.root) == before
    (folder.root / "sft" / "model").mkdir()
    assert command("stage=rl", "rl.lr=0.5")[0] == 2
    assert contents(folder.root) == before


def test_a_bad_size_of_a_new_model_can_be_corrected_in_the_same_folder(command: Command) -> None:
    """Nothing may be marked as begun with sizes that no model can have."""
    sizes = [
        "model.init.hidden=32",
        "model.init.head_dim=32",
        "model.init.vocab_size=600",
        "model.init.feed_forward=16",
    ]
    assert command("stage=data", *sizes)[0] == 2  # too narrow for the copying start
    assert command("stage=data", *sizes, "model.init.copying=false", "model.init.positions=512")[0] == 2
    assert command("stage=data", *sizes, "model.init.copying=false", "model.init.positions=2048")[0] == 0


def test_stage_data_prepares_conversations_and_repeats_nothing(command: Command, tmp_path: Path) -> None:
    assert command("stage=data")[0] == 0
    before = contents(tmp_path / "run")
    assert any(name.endswith("sft.parquet") for name in before)
    assert not any(name.startswith(("sft/", "rl/", "eval/")) for name in before)
    assert command("stage=data")[0] == 0
    assert contents(tmp_path / "run") == before


def test_help_lists_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        train.main(["--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert [key for key, _, _ in describe_keys(Config) if f"  {key}=" not in text] == []
    assert "python -m venus_rl.train --config configs/tiny-cpu.yaml" in text


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (StageFailed("sft failed (exit status 1)"), 1, "error: sft failed (exit status 1)\nThe same command goes on"),
        (KeyboardInterrupt(), 130, "interrupted; the same command goes on from the last checkpoint"),
    ],
)
def test_a_failed_or_interrupted_stage_says_how_to_go_on(
    error: BaseException, status: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_config: Config) -> None:
        raise error

    monkeypatch.setattr(train, "run", fail)
    assert train.main([]) == status
    assert words in capsys.readouterr().err


def test_a_programming_error_is_not_dressed_up_as_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_config: Config) -> None:
        raise KeyError("bug")

    monkeypatch.setattr(train, "run", fail)
    with pytest.raises(KeyError, match="bug"):
        train.main([])
