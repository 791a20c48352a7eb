from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from tests.env.beliefs.test_evidence import turn
from tests.env.policies import tiny
from venus_env.protocol.trajectory import Trajectory
from venus_env.protocol.turns import Message

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.env.beliefs.completions import CompletionsServer, serve  # noqa: E402
from venus_env.beliefs.base import open_belief  # noqa: E402
from venus_env.beliefs.errors import BeliefError  # noqa: E402
from venus_env.beliefs.hf import HFBelief  # noqa: E402
from venus_env.beliefs.pseudo_answer import PseudoAnswer  # noqa: E402
from venus_env.beliefs.server import CHATML, ServerBelief  # noqa: E402
from venus_env.commands.errors import CommandError  # noqa: E402
from venus_env.commands.objects import load_belief  # noqa: E402
from venus_env.testing import check_belief  # noqa: E402
from venus_env.testing.cli import add_check_parser  # noqa: E402

MESSAGES: list[Message] = [
    {"role": "system", "content": "Answer."},
    {"role": "user", "content": "Which city?"},
    *turn("search", {"query": ["city"]}, "Paris is a city; 東京 and Zürich, too."),
    *turn("visit", {"url": ["u"], "goal": "g"}, "Rome is one, too."),
]
ANSWERS = ["the North Sea", "Zürich 🌊"]
TRAJECTORY = Trajectory(task={}, messages=MESSAGES, turns=[], end="turn_limit")


@pytest.fixture(scope="module")
def model(chatml_tokenizer: Any) -> Any:
    torch.set_num_threads(1)
    return tiny.qwen(vocab_size=len(chatml_tokenizer), max_position_embeddings=4096)


@pytest.fixture(scope="module")
def root(model: Any, chatml_tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    model.save_pretrained(folder)
    chatml_tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def server(model: Any, chatml_tokenizer: Any, root: str) -> Iterator[CompletionsServer]:
    with serve(model, chatml_tokenizer, root) as server:
        yield server


def belief_of(server: CompletionsServer, tokenizer: Any, **kwargs: Any) -> ServerBelief:
    return ServerBelief(server.url, "tiny", tokenizer=tokenizer, backoff_s=0.001, attempts=2, **kwargs)


@pytest.mark.parametrize("method", ["echo", "prompt_logprobs", "forced"])
@pytest.mark.parametrize("wrapper", [None, PseudoAnswer("", ""), PseudoAnswer("Ответ: th", " Sea")])
async def test_scores_are_those_of_the_model(
    server: CompletionsServer, model: Any, chatml_tokenizer: Any, method: Any, wrapper: PseudoAnswer | None
) -> None:
    local = HFBelief(model, chatml_tokenizer, wrapper=wrapper)
    belief = belief_of(server, chatml_tokenizer, method=method, wrapper=wrapper)
    expected = await local.score(TRAJECTORY, [2, 4, 4, 6], ANSWERS)
    scores = await belief.score(TRAJECTORY, [2, 4, 4, 6], ANSWERS)
    state = belief.open("Which city?", ANSWERS)
    steps = [await state.update(MESSAGES[:2]), await state.update(MESSAGES[2:6])]
    for values, wanted in zip([*scores, *steps], [*expected, expected[0], expected[3]], strict=True):
        assert values == pytest.approx(wanted, abs=1e-4)
    await belief.aclose()


async def test_text_is_tokenised_by_the_server_and_matched_by_offsets(
    server: CompletionsServer, model: Any, chatml_tokenizer: Any
) -> None:
    """Offsets drift behind 東京, whose bytes are several tokens each; the answer is found all the same."""
    answers = ["the North Sea", "Elbe 12"]
    belief = ServerBelief(server.url, layout=CHATML)
    expected = await HFBelief(model, chatml_tokenizer).score(TRAJECTORY, [2, 6], answers)
    scores = await belief.score(TRAJECTORY, [2, 6], answers)
    for values, wanted in zip(scores, expected, strict=True):
        assert values == pytest.approx(wanted, abs=1e-4)
    assert all(isinstance(body["prompt"], str) for body in server.requests)
    with pytest.raises(BeliefError, match=r"text offsets .* '東京': pass the model's tokenizer"):
        await belief.score(TRAJECTORY, [2], ["東京"])  # within the answer they must be right
    server.reply = lambda number, body: (200, {"choices": [{"logprobs": {"token_logprobs": [-1.0] * 9999}}]})
    with pytest.raises(BeliefError, match=r"no usage.prompt_tokens"):
        await belief.score(TRAJECTORY, [2], answers)
    await belief.aclose()


async def test_a_thought_that_the_layout_opens_is_not_opened_twice(model: Any, thinking_tokenizer: Any) -> None:
    from venus_env.tokens import ChatLayout

    model = tiny.qwen(vocab_size=len(thinking_tokenizer))
    layout = ChatLayout.from_tokenizer(thinking_tokenizer)
    with serve(model, thinking_tokenizer) as server:
        scores = await ServerBelief(server.url, layout=layout).score(TRAJECTORY, [2, 6], ["Elbe"])
    expected = await HFBelief(model, thinking_tokenizer).score(TRAJECTORY, [2, 6], ["Elbe"])
    assert [values[0] for values in scores] == pytest.approx([values[0] for values in expected], abs=1e-4)


async def test_one_pass_is_concurrent_within_its_bound(server: CompletionsServer, chatml_tokenizer: Any) -> None:
    gate = threading.Barrier(3, timeout=10)  # opens when three requests are there at a time

    def meet(number: int, body: dict[str, Any]) -> None:
        gate.wait()

    server.reply = meet
    belief = belief_of(server, chatml_tokenizer, max_connections=3)
    await belief.score(TRAJECTORY, [2, 4, 6], ANSWERS)
    assert server.most_at_once == 3
    await belief.aclose()


def test_the_environment_plays_with_it(server: CompletionsServer) -> None:
    env = gym.make("VenusResearch-v0", belief=f"server:{server.url}")
    env.reset(seed=0)
    _, _, _, _, info = env.step(
        '<think>x</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["a"]}}\n</tool_call>'
    )
    assert isinstance(info["reward_terms"]["information_gain"], float)
    assert info["reward_terms"]["information_gain"] != 0.0
    assert server.requests[0]["model"] == "tiny"
    server.reply = lambda number, body: (400, "no more")
    _, reward, terminated, truncated, info = env.step(
        '<think>x</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["b"]}}\n</tool_call>'
    )
    assert (reward, terminated, truncated, info["end"], info["score"]) == (0.0, False, True, "judge_failure", None)
    assert "HTTP 400: no more" in env.unwrapped.trajectory.error  # type: ignore[attr-defined]
    env.close()


def test_it_keeps_the_contract_of_a_belief(server: CompletionsServer, chatml_tokenizer: Any) -> None:
    report = check_belief(belief_of(server, chatml_tokenizer), tolerance=1e-4)
    assert report.ok, str(report)


def test_the_command_line_checks_it(server: CompletionsServer, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    add_check_parser(parser.add_subparsers())
    args = parser.parse_args(["check", "belief", f"server:{server.url}#other"])
    assert args.run(args) == 2
    assert "no model 'other' (it has 'tiny')" in capsys.readouterr().err
    for spec in (f"server:{server.url}", f"server:{server.url}#tiny"):
        args = parser.parse_args(["check", "belief", spec])
        assert args.run(args) == 0
        assert "belief ServerBelief" in capsys.readouterr().out


def test_commands_refuse_a_server_that_cannot_be_used(server: CompletionsServer) -> None:
    assert isinstance(load_belief(f"server:{server.url}"), ServerBelief)
    with pytest.raises(CommandError, match="no model 'other'"):
        load_belief(f"server:{server.url}#other")


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((500, "out of memory"), "failed 2 times, last with HTTP 500: out of memory"),
        ((400, "This model's maximum context length is 10"), "refused the request: HTTP 400: This model's maximum"),
        ((200, "<html>"), "form that is no completion"),
        ((200, {"choices": []}), "form that is no completion"),
        ((200, {"choices": [{"logprobs": None}]}), "no log-probabilities of the prompt"),
        ((200, {"choices": [{"logprobs": [1]}]}), "no log-probabilities of the prompt"),
        ((200, {"choices": [{"logprobs": {"token_logprobs": None}}]}), "no log-probabilities of the prompt"),
        ((200, {"choices": [{"logprobs": {"token_logprobs": [None, -1.0]}}]}), "no log-probabilities of the prompt"),
        ((200, {"choices": [{"logprobs": {"token_logprobs": [None] * 9999}}]}), "gave None as a log-probability"),
        ((200, {"choices": [{"logprobs": {"token_logprobs": [0.5] * 9999}}]}), "gave 0.5 as a log-probability"),
        (
            (200, {"choices": [{"logprobs": {"token_logprobs": [-1.0] * 9999}}], "usage": {"prompt_tokens": 7}}),
            "adds tokens of its own",
        ),
    ],
)
async def test_trouble_is_an_error_and_no_score(
    server: CompletionsServer, chatml_tokenizer: Any, reply: Any, message: str
) -> None:
    server.reply = lambda number, body: reply
    belief = belief_of(server, chatml_tokenizer)
    with pytest.raises(BeliefError, match=message):
        await belief.open("?", ANSWERS).update(MESSAGES[:2])
    with pytest.raises(BeliefError, match=message):
        await belief.score(TRAJECTORY, [2, 4], ANSWERS)
    await belief.aclose()


@pytest.mark.parametrize(
    ("method", "fields", "message"),
    [
        ("prompt_logprobs", {"prompt_logprobs": None}, "no 'prompt_logprobs'"),
        ("forced", {"logprobs": None}, "did not generate the one token"),
        ("forced", {"logprobs": {"tokens": [], "token_logprobs": None}}, "did not generate the one token"),
        (
            "forced",
            {"logprobs": {"tokens": ["token_id:0"], "token_logprobs": [-1.0]}},
            "did not generate the one token",
        ),
    ],
)
async def test_servers_without_fields_of_vllm_are_told_apart(
    server: CompletionsServer, chatml_tokenizer: Any, method: Any, fields: dict[str, Any], message: str
) -> None:
    server.reply = lambda number, body: (200, {"choices": [fields]})
    belief = belief_of(server, chatml_tokenizer, method=method)
    with pytest.raises(BeliefError, match=message):
        await belief.score(TRAJECTORY, [2], ANSWERS)
    await belief.aclose()


async def test_log_probabilities_after_the_mask_are_noticed(server: CompletionsServer, chatml_tokenizer: Any) -> None:
    def processed(number: int, body: dict[str, Any]) -> Any:
        (token,) = body["allowed_token_ids"]
        return 200, {"choices": [{"logprobs": {"tokens": [f"token_id:{token}"], "token_logprobs": [0.0]}}]}

    server.reply = processed
    with pytest.raises(BeliefError, match="raw_logprobs"):
        await belief_of(server, chatml_tokenizer, method="forced").score(TRAJECTORY, [2], ANSWERS)


async def test_a_server_that_stalls_or_fails_once_is_asked_again(
    server: CompletionsServer, model: Any, chatml_tokenizer: Any
) -> None:
    released = threading.Event()

    def first_stalls(number: int, body: dict[str, Any]) -> Any:
        if number == 1:
            released.wait(10)
        return (503, "loading") if number == 2 else None

    server.reply = first_stalls
    belief = ServerBelief(server.url, tokenizer=chatml_tokenizer, timeout_s=0.5, backoff_s=0.001)
    (score,) = await belief.open("?", ["Elbe"]).update(MESSAGES[:2])
    released.set()
    ((expected,),) = await HFBelief(model, chatml_tokenizer).score(TRAJECTORY, [2], ["Elbe"])
    assert score == pytest.approx(expected, abs=1e-4)
    await belief.aclose()


async def test_a_server_that_is_down_or_serves_several_models(server: CompletionsServer, chatml_tokenizer: Any) -> None:
    belief = ServerBelief("http://127.0.0.1:9/v1", attempts=2, backoff_s=0.001)
    with pytest.raises(BeliefError, match=r"127.0.0.1:9/v1/models failed 2 times"):
        await belief.open("?", ANSWERS).update(MESSAGES[:2])
    server.models = [("a", ""), ("b", "")]
    with pytest.raises(BeliefError, match=r"several models or none \(it has 'a', 'b'\); name one"):
        await ServerBelief(server.url).connect()
    server.models = [("nothing/like-this", "no/such/folder")]
    with pytest.raises(BeliefError, match=r"tokenizer 'no/such/folder' .* cannot be loaded"):
        await ServerBelief(server.url).connect()


async def test_the_key_is_sent_and_kept_nowhere(
    server: CompletionsServer, chatml_tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "very-secret")
    belief = belief_of(server, chatml_tokenizer, api_key_env="MY_KEY")
    expected = await belief.score(TRAJECTORY, [2], ANSWERS)
    assert server.headers[0]["Authorization"] == "Bearer very-secret"
    assert repr(belief) == f"ServerBelief('{server.url}', 'tiny', method='echo')"
    assert b"very-secret" not in pickle.dumps(belief)
    for other in (pickle.loads(pickle.dumps(belief)), copy.deepcopy(belief)):
        assert await other.score(TRAJECTORY, [2], ANSWERS) == expected
        await other.aclose()
    await belief.aclose()
    monkeypatch.delenv("MY_KEY")
    await belief.score(TRAJECTORY, [2], ANSWERS)
    assert "Authorization" not in server.headers[-1]


def test_it_works_on_one_loop_after_another(server: CompletionsServer, chatml_tokenizer: Any) -> None:
    belief = belief_of(server, chatml_tokenizer)
    first, second = (asyncio.run(belief.score(TRAJECTORY, [2], ANSWERS)) for _ in range(2))
    assert first == second


async def test_boundaries_and_arguments_are_checked(server: CompletionsServer, chatml_tokenizer: Any) -> None:
    for layout in (None, CHATML):
        belief = ServerBelief(server.url, "tiny", tokenizer=None if layout else chatml_tokenizer, layout=layout)
        assert await belief.score(TRAJECTORY, [], ANSWERS) == []
        for boundaries in ([3], [0], [4, 2], [8]):
            with pytest.raises(ValueError, match=r"before a turn|must ascend"):
                await belief.score(TRAJECTORY, boundaries, ANSWERS)
    for arguments in (
        {"method": "guess"},
        {"layout": CHATML, "tokenizer": chatml_tokenizer},
        {"layout": CHATML, "method": "forced"},
        {"base_url": "localhost:8000"},
        {"base_url": "http://me:secret@localhost/v1"},
        {"attempts": 0},
    ):
        with pytest.raises(ValueError, match=r"method|layout|base_url|attempts") as caught:
            ServerBelief(**{"base_url": server.url, **arguments})
        assert "secret" not in str(caught.value)


def test_specs() -> None:
    belief = open_belief("server:http://localhost:8000/v1#org/model")
    assert repr(belief) == "ServerBelief('http://localhost:8000/v1', 'org/model', method='echo')"
    assert open_belief("server:http://localhost:8000/v1").model is None  # type: ignore[union-attr]
    for spec in ("server:", "server:localhost", "servers:http://x"):
        with pytest.raises(ValueError, match=r"unknown|base_url"):
            open_belief(spec)


def test_no_torch_is_imported(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from venus_env.beliefs.base import open_belief; open_belief('server:http://x/v1'); "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
