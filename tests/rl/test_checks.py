from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from venus_rl import checks
from venus_rl.checks import Finding, refuse
from venus_rl.config import Config, ConfigError
from venus_rl.device import device_of
from venus_rl.model.shape import SHAPES


def gpus(**groups: Any) -> Config:
    gpu = {"nodes": 1, "per_node": 8, **groups.pop("gpu", {})}
    model = {"attention": "flash_attention_2", **groups.pop("model", {})}
    return Config.model_validate({"run": {"device": "cuda"}, "gpu": gpu, "model": model, **groups})


def errors(findings: Iterable[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.level == "error"]


def test_training_stops_at_the_first_error_only() -> None:
    fine, bad = Finding("warning", "a", "1", "is odd"), Finding("error", "b c", "2", "is wrong", "use 3")
    refuse([fine])
    with pytest.raises(ConfigError, match=r"^b c = 2 is wrong; use 3$"):
        refuse([fine, bad])


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"rl": {"group": 1, "prompts": 8}}, "rl.group=1 has no group to compare with; use rl.group=2 or more"),
        (
            {"rl": {"prompts": 3, "group": 3}},
            "3 × 3 = 9 rollouts do not divide among gpu.nodes × gpu.per_node = 8; use rl.group=8",
        ),
        ({"rollout": {"workers": 9}}, "only rl.prompts=8 questions a step to share among them; use rollout.workers=8"),
        ({"sft": {"batch_size": 9}}, "sft.batch_size=9 is not a multiple of gpu.per_node / gpu.sequence_parallel = 8"),
    ],
)
def test_sizes(groups: dict[str, Any], message: str) -> None:
    config = gpus(**groups)
    (error,) = errors(checks.check_sizes(config, device_of(config)))
    assert message in error


@pytest.mark.parametrize("prompts", range(1, 10))
@pytest.mark.parametrize("group", [2, 3, 5])
def test_the_group_that_is_suggested_divides(prompts: int, group: int) -> None:
    config = gpus(rl={"prompts": prompts, "group": group}, sft={"enabled": False})
    found = [error for error in errors(checks.check_sizes(config, device_of(config))) if "rl.group=" in error]
    if found:
        config.rl.group = int(found[0].rsplit("rl.group=", 1)[1])
    assert errors(checks.check_sizes(config, device_of(config))) == []


@pytest.mark.parametrize(
    ("gpu", "message"),
    [
        (
            {"tensor_parallel": 3},
            "gpu.tensor_parallel=3 does not divide 8 GPUs, 8 a machine; use gpu.tensor_parallel=2",
        ),
        (
            {"per_node": 6, "tensor_parallel": 6},
            "does not divide 32 query and 8 key heads evenly; use gpu.tensor_parallel=2",
        ),
        ({"sequence_parallel": 5}, "use gpu.sequence_parallel=4"),
    ],
)
def test_parallel_sizes(gpu: dict[str, int], message: str) -> None:
    config = gpus(gpu=gpu)
    (error,) = errors(checks.check_parallelism(config, device_of(config), SHAPES["qwen3-4b"]))
    assert message in error


def test_a_sequence_is_shared_by_flash_attention_only() -> None:
    config = gpus(gpu={"sequence_parallel": 8}, model={"attention": "sdpa"})
    (error,) = errors(checks.check_parallelism(config, device_of(config), SHAPES["qwen3-4b"]))
    assert "model.attention=sdpa cannot share a sequence" in error


def test_a_window_that_is_too_short() -> None:
    config = gpus(env={"max_context_tokens": 300}, sft={"max_tokens": 200})
    assert errors(checks.check_window(config, 300, "the model reads (300)")) == []
    (error,) = errors(checks.check_window(config, 299, "the model reads (299)"))
    text, fix = "is more tokens than the model reads (299)", "set env.max_context_tokens=299 or less"
    assert error == f"env.max_context_tokens=300 {text}; {fix}"


def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def test_a_tokenizer_that_fits(policy_folder: Path) -> None:
    found = list(checks.check_tokenizer(tokenizer(policy_folder), "m"))
    assert [finding.level for finding in found] == ["ok", "ok"]
    assert "holds" in found[-1].text


STRIPS = """{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['role'] == 'assistant' %}\
{{ m['content'].split('</think>')[-1] }}{% else %}{{ m['content'] }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""


@pytest.mark.parametrize(
    ("attribute", "value", "level", "words"),
    [
        ("chat_template", None, "error", "has no chat template"),
        ("chat_template", "{{ messages[0]['content'] }}", "error", "does not fit an append-only conversation"),
        ("eos_token", "<|endoftext|>", "error", "not what its chat template ends a turn with ('<|im_end|>')"),
        ("chat_template", STRIPS, "warning", "drops earlier thinking"),
    ],
)
def test_tokenizers_that_do_not(policy_folder: Path, attribute: str, value: Any, level: str, words: str) -> None:
    subject = tokenizer(policy_folder)
    setattr(subject, attribute, value)
    (found,) = [finding for finding in checks.check_tokenizer(subject, "m") if finding.level != "ok"]
    assert found.level == level
    assert words in found.text
    assert found.fix


def test_prompts_that_leave_no_room() -> None:
    config = gpus(env={"max_context_tokens": 100, "max_turn_tokens": 40})
    assert errors(checks.check_prompts([("a", 60), ("b", 10)], config)) == []
    (error,) = errors(checks.check_prompts([("a", 10), ("b", 61)], config))
    assert "task 'b': prompt and one turn take 101 tokens; use env.max_context_tokens=202" in error


def test_train_refuses_a_tokenizer_before_anything_is_written(
    make_config: Any, policy_folder: Path, tmp_path: Path
) -> None:
    from venus_rl import train

    folder = tmp_path / "bare"
    shutil.copytree(policy_folder, folder)
    for file in folder.glob("chat_template*"):
        file.unlink()
    with pytest.raises(ConfigError, match="has no chat template"):
        train.run(make_config(model={"path": str(folder)}))
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ConfigError, match="has no tokenizer files"):
        train.run(make_config(model={"path": str(folder)}))
    assert not (tmp_path / "run").exists()
