from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from venus_rl.config import Config, ConfigError, load_config
from venus_rl.settings import describe_keys

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.yaml"))
KEYS = describe_keys(Config)


def load(text: str | bytes | None, tmp_path: Path, *overrides: str) -> Config:
    if text is None:
        return load_config(None, list(overrides))
    path = tmp_path / "run.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_config(path, list(overrides))


def test_defaults_then_file_then_arguments(tmp_path: Path) -> None:
    file = "rl:\n  steps: 3\n  group: 4\n"
    config = load(file, tmp_path, "rl.group=6", "rl.lr=1e-5", "rl.hops=[1, 2]", "env.current_date=null")
    assert (config.rl.steps, config.rl.group, config.rl.lr, config.rl.hops) == (3, 6, 1e-5, [1, 2])
    assert config.rl.prompts == Config().rl.prompts
    assert config.env.current_date is None


def test_an_argument_may_hold_tags_quotes_and_line_breaks(tmp_path: Path) -> None:
    config = load(None, tmp_path, 'rl.probe_prefix="<think>Done.</think>\\n<answer>"', "rl.probe_suffix=</answer>")
    assert config.rl.probe_prefix == "<think>Done.</think>\n<answer>"
    assert config.rl.probe_suffix == "</answer>"


def test_one_key_of_an_optional_group_makes_the_group(tmp_path: Path) -> None:
    config = load("model:\n  path: base\n", tmp_path, "model.init.layers=2")
    assert config.model.init is not None
    assert (config.model.init.layers, config.model.init.hidden) == (2, 160)
    assert load("model:\n  init:\n    layers: 2\n", tmp_path, "model.init=null").model.init is None


@pytest.mark.parametrize("empty", ["", "null", "# nothing\n"])
def test_an_empty_file_is_the_defaults(empty: str, tmp_path: Path) -> None:
    assert load(empty, tmp_path) == Config()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("rl.stepz=3", "unknown key 'rl.stepz'; did you mean 'rl.steps'?"),
        ("steps=3", "unknown key 'steps'; did you mean 'rl.steps'?"),
        ("model.init.layer=2", "did you mean 'model.init.layers'?"),
        ("top_k=3", "did you mean 'env.top_k'?"),
        ("env.rewards.outcom=em", "did you mean 'env.rewards.outcome'?"),
        ("xyzzy=3", "unknown key 'xyzzy'; no key is similar"),
        ("=3", "unknown key ''"),
        ("rl=3", "'rl' is a group; set one of its keys, e.g. rl.algorithm="),
        ("rl=null", "rl: "),
        ("rl.steps", "'rl.steps' is not key=value"),
        ("rl.steps=", "rl.steps: Input should be a valid integer (got None)"),
        ("rl.steps=many", "rl.steps: Input should be a valid integer"),
        ("rl.group=0", "rl.group: Input should be greater than or equal to 1 (got 0)"),
        ("rl.hops=1", "rl.hops: Input should be a valid list"),
        ("rl.algorithm=ppo", "rl.algorithm: Input should be 'igpo' or 'grpo' (got 'ppo')"),
        ("rl.hops=[1,2", "cannot read the configuration"),
        ("rl.steps=${nowhere}", "Interpolation key 'nowhere' not found"),
        ("run.dir.x=1", "run.dir: "),
        ("model.path=null", "set model.path to a folder (or 'base'), or model.init"),
        ("env.max_turn_tokens=2000", "max_turn_tokens (2000) must be smaller than max_context_tokens (1024)"),
        ("sft.warmup=1.0", "sft.warmup: Input should be less than 1"),
    ],
)
def test_a_wrong_argument_is_named_with_the_fix(argument: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load(None, tmp_path, argument)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rl:\n  stepz: 1\n", "unknown key 'rl.stepz'; did you mean 'rl.steps'?"),
        ("- 1\n- 2\n", "run.yaml: cannot read the configuration"),
        ("rl: [1\n", "run.yaml: cannot read the configuration"),
        ("rl:\n\tsteps: 1\n", "found character '\\t'"),
        ("rl:\n steps: 1\n steps: 2\n", "duplicate key steps"),
        ("1: 2\n", "unknown key '1'"),
        (b"\xff\xfe\x00", "run.yaml: cannot read the configuration"),
    ],
)
def test_a_wrong_file_is_named_with_the_place(text: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load(text, tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--config .*nothing\.yaml: no such file"):
        load_config(tmp_path / "nothing.yaml", [])


@settings(max_examples=80, deadline=None)
@example(["[="])
@given(st.lists(st.text(st.sampled_from("rlsteps.=[]{}$:&*-\"'# \n0e"), max_size=12), max_size=3))
def test_whatever_is_typed_ends_in_a_configuration_or_a_config_error(arguments: list[str]) -> None:
    with suppress(ConfigError):
        assert isinstance(load_config(None, arguments), Config)


def test_every_key_has_a_description_and_its_true_default() -> None:
    assert [key for key, _, text in KEYS if not text.strip()] == []
    assert len({key for key, _, _ in KEYS}) == len(KEYS)
    defaults = {key: default for key, default, _ in KEYS}
    assert defaults["rl.steps"] == "10"
    assert defaults["env.max_turns"] == "10"  # of a training run, not of the bare environment
    assert defaults["model.init"] == "null"
    assert "env.rewards.outcome" in defaults


@pytest.mark.parametrize("key", [key for key, default, _ in KEYS if default == "null"])
def test_null_may_be_set_explicitly_wherever_it_is_the_default(key: str) -> None:
    assert load_config(None, [f"{key}=null"]) is not None


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_shipped_configurations_load(path: Path) -> None:
    config = load_config(path, [])
    # What a run folder keeps is read back to the same configuration: as YAML by users, as JSON by stage processes.
    again = Config.model_validate(
        OmegaConf.to_container(OmegaConf.create(OmegaConf.to_yaml(config.model_dump(mode="json"))))
    )
    assert again == config == Config.model_validate_json(config.model_dump_json())


def test_there_are_shipped_configurations() -> None:
    assert "tiny-cpu.yaml" in [path.name for path in CONFIGS]


def test_help_and_a_wrong_key_do_not_wait_for_torch() -> None:
    code = (
        "import sys, venus_rl.train as t; t.main(['rl.stepz=1']); print(sorted({'torch', 'verl'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    assert "did you mean 'rl.steps'?" in run.stderr
