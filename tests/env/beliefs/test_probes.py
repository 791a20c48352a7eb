from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from venus_env.beliefs import probes  # noqa: E402
from venus_env.beliefs.probes import (  # noqa: E402
    OnePassUnsupportedError,
    Probe,
    ProbeLayout,
    ProbeRequest,
    ProbeTree,
    best_scores,
    score_boundaries,
)
from venus_env.beliefs.pseudo_answer import PseudoAnswer  # noqa: E402
from venus_env.models import attending_by  # noqa: E402

SIZE = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}


def make_model(family: str, attention: str = "sdpa") -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    if family == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**SIZE, head_dim=16, tie_word_embeddings=True, initializer_range=0.2))
    else:
        model = LlamaForCausalLM(LlamaConfig(**SIZE, initializer_range=0.2))
    model.set_attn_implementation(attention)
    return model.eval()


@torch.no_grad()
def naive(model: Any, request: ProbeRequest, temperature: float = 1.0) -> np.ndarray:  # type: ignore[type-arg]
    """The oracle: one forward per (probe, boundary) over the bare sequence."""
    scores = np.zeros((len(request.probes), len(request.boundaries)))
    for p, probe in enumerate(request.probes):
        for b, boundary in enumerate(request.boundaries):
            ids = torch.tensor([[*request.ids[:boundary], *probe.ids]])
            logprobs = torch.log_softmax(model(input_ids=ids).logits[0].float() / temperature, -1)
            picked = [logprobs[boundary + j - 1, probe.ids[j]].item() for j in range(probe.start, len(probe.ids))]
            scores[p, b] = np.mean(picked)
    return scores


def requests(seed: int = 0) -> list[ProbeRequest]:
    rng = np.random.default_rng(seed)
    made = []
    for length, boundaries in ((40, [7, 19, 40]), (63, [1, 30, 31, 58, 63]), (12, [12])):
        answers = [
            Probe(tuple(rng.integers(0, 97, 9).tolist()), 5),
            Probe(tuple(rng.integers(0, 97, 4).tolist()), 0),  # no prefix: the context's last token predicts it
            Probe((3,), 0),
        ]
        made.append(ProbeRequest(rng.integers(0, 97, length).tolist(), boundaries, answers))
    return made


@pytest.mark.parametrize("family", ["qwen3", "llama"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("group_rows", [1, 20, 256])
def test_one_pass_equals_one_forward_per_boundary(
    family: str, attention: str, group_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "_GROUP_ROWS", group_rows)
    model = make_model(family, attention)
    wanted = [naive(model, request) for request in requests()]
    assert np.ptp(np.concatenate([w.ravel() for w in wanted])) > 0.5  # the model tells contexts apart
    for request, oracle in zip(requests(), wanted, strict=True):
        np.testing.assert_allclose(score_boundaries(model, request), oracle, atol=1e-4)
    assert model.config._attn_implementation == attention


def test_many_boundaries_in_a_longer_context() -> None:
    model = make_model("qwen3")
    rng = np.random.default_rng(1)
    probe = Probe(tuple(rng.integers(0, 97, 12).tolist()), 7)
    request = ProbeRequest(rng.integers(0, 97, 700).tolist(), list(range(10, 701, 15)), [probe])
    np.testing.assert_allclose(score_boundaries(model, request), naive(model, request), atol=1e-4)


def test_boundaries_in_any_order_and_repeated() -> None:
    model = make_model("llama")
    request = requests()[1]
    scores = score_boundaries(model, request)
    order = [3, 0, 0, 2, 3]
    again = score_boundaries(
        model, ProbeRequest(request.ids, [request.boundaries[index] for index in order], request.probes)
    )
    # The same but for the last boundary, which was left out.
    np.testing.assert_allclose(again, scores[:, order], atol=1e-5)


def test_temperature_divides_the_logits() -> None:
    model = make_model("qwen3")
    request = requests()[0]
    np.testing.assert_allclose(score_boundaries(model, request, temperature=0.7), naive(model, request, 0.7), atol=1e-4)


def test_context_after_a_boundary_is_invisible() -> None:
    model = make_model("qwen3")
    request = requests()[0]
    changed = ProbeRequest([*request.ids[:19], *[5] * 21], request.boundaries, request.probes)
    before, after = (score_boundaries(model, each) for each in (request, changed))
    np.testing.assert_allclose(before[:, :2], after[:, :2], atol=1e-5)
    assert np.abs(before[:, 2] - after[:, 2]).max() > 1e-3


def test_what_probes_have_in_common_is_one_branch() -> None:
    tree = ProbeTree.of([Probe((20, 21, 22), 1), Probe((20, 21, 23, 24), 2), Probe((20,), 0)])
    assert tree.tokens.tolist() == [20, 21, 23]
    assert tree.depths.tolist() == [0, 1, 2]
    assert tree.visible.astype(int).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert tree.rows.tolist() == [0, 1, 1, 2, -1]
    assert tree.targets.tolist() == [21, 22, 23, 24, 20]
    assert tree.lengths == (2, 2, 1)
    answers = [Probe((20, 21, 22), 1), Probe((20, 21, 23, 24), 2), Probe((20,), 0)]
    assert ProbeRequest(range(90), [8, 50, 8], answers).tokens_read == 50 + 2 * 3
    apart = ProbeTree.of([Probe((20, 21, 22), 2), Probe((30, 21, 22), 2)])
    assert apart.tokens.tolist() == [20, 21, 30, 21]
    assert not apart.visible[2:, :2].any()


def test_groups_see_the_context_up_to_their_boundaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_GROUP_ROWS", 4)
    layout = ProbeLayout(6, torch.tensor([1, 3, 6]), torch.ones(2, 2, dtype=torch.bool).tril())
    (first, seen), (second, last) = layout.groups()
    assert (first, second) == (slice(6, 10), slice(10, 12))
    assert seen.int().tolist() == [
        [1, 0, 0, 1, 0, 0, 0],
        [1, 0, 0, 1, 1, 0, 0],
        [1, 1, 1, 0, 0, 1, 0],
        [1, 1, 1, 0, 0, 1, 1],
    ]
    assert last.int().tolist() == [[1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 1]]


def test_others_may_run_the_model_meanwhile() -> None:
    model = make_model("qwen3")
    ids = torch.arange(24).reshape(2, 12)
    padded = torch.ones(2, 12, dtype=torch.long)
    padded[0, :5] = 0
    with torch.no_grad():
        for mask in (None, padded):
            expected = model(ids, attention_mask=mask).logits
            with attending_by(model.config, probes._ATTENTION, probes._attend):
                assert model.config._attn_implementation != "sdpa"
                torch.testing.assert_close(model(ids, attention_mask=mask).logits, expected)


def test_a_sharded_model_scores_alike() -> None:
    from torch import distributed
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model, request = make_model("qwen3"), requests()[0]
    expected = score_boundaries(model, request)
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = distributed.init_device_mesh("cpu", (1,))
        for part in (*model.model.layers, model):
            fully_shard(part, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.float32))
        assert score_boundaries(model, request) == pytest.approx(expected, abs=1e-6)
    finally:
        distributed.destroy_process_group()


def test_a_model_that_sees_a_part_of_the_context_is_refused() -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM, MistralConfig, MistralForCausalLM

    windowed = MistralForCausalLM(MistralConfig(**SIZE, sliding_window=50)).eval()
    short, long = requests()[2], requests()[1]
    np.testing.assert_allclose(score_boundaries(windowed, short), naive(windowed, short), atol=1e-4)  # fits the window
    with pytest.raises(OnePassUnsupportedError, match="50 tokens only"):
        score_boundaries(windowed, long)
    capped = Gemma2ForCausalLM(Gemma2Config(**SIZE, head_dim=8, sliding_window=4096)).eval()
    with pytest.raises(OnePassUnsupportedError, match="softcap"):
        score_boundaries(capped, short)


def test_a_model_with_attention_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("llama")
    monkeypatch.setattr(type(model), "_supports_attention_backend", False)
    with pytest.raises(OnePassUnsupportedError, match="attention interface"):
        score_boundaries(model, requests()[0])


def test_attention_set_by_others_during_a_pass_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("qwen3")
    layer = model.model.layers[1].self_attn
    forward = layer.forward

    def switched(*args: Any, **kwargs: Any) -> Any:
        model.config._attn_implementation = "sdpa"
        return forward(*args, **kwargs)

    monkeypatch.setattr(layer, "forward", switched)
    with pytest.raises(OnePassUnsupportedError, match="1 of the model's 2 layers"):
        score_boundaries(model, requests()[0])


def test_the_best_accepted_answer_counts_at_each_boundary() -> None:
    assert best_scores(np.array([[-3.0, -1.0], [-2.0, -2.0]])).tolist() == [-2.0, -1.0]


@pytest.mark.parametrize("answer", ["Elbe", "the North Sea", "12", "Straße 🌊"])
def test_a_probe_covers_the_answer(thinking_tokenizer: Any, answer: str) -> None:
    prefix, suffix = "Now I know.\n</think>\n<answer>\n", "\n</answer><|im_end|>"
    probe = Probe.of(PseudoAnswer(prefix, suffix), thinking_tokenizer, answer)
    text = thinking_tokenizer.decode(list(probe.ids[probe.start :]))
    assert answer in text
    assert text.strip() == answer
    assert thinking_tokenizer.decode(list(probe.ids)).startswith(prefix + answer)
    whole = thinking_tokenizer.encode(prefix + answer + suffix, add_special_tokens=False)
    assert list(probe.ids) == whole[: len(probe.ids)]


def test_a_probe_includes_tokens_glued_to_the_answer() -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE({"x": 0, "a": 1, "b": 2, "y": 3, "xa": 4, "by": 5}, [("x", "a"), ("b", "y")]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    assert Probe.of(PseudoAnswer("x", "y"), tokenizer, "aab") == Probe((4, 1, 5), 0)
    assert Probe.of(PseudoAnswer("y", ""), tokenizer, "aab") == Probe((3, 1, 1, 2), 1)


def test_bad_requests_are_named(thinking_tokenizer: Any) -> None:
    with pytest.raises(ValueError, match="blank"):
        Probe.of(PseudoAnswer("a", ""), thinking_tokenizer, "  ")
    with pytest.raises(ValueError, match="at least one answer token"):
        Probe((1, 2), 2)
    with pytest.raises(ValueError, match="boundary 4 lies outside"):
        ProbeRequest([1, 2, 3], [4], [Probe((1,), 0)])
    with pytest.raises(ValueError, match="boundary 0 lies outside"):
        ProbeRequest([1, 2, 3], [0], [Probe((1,), 0)])
    with pytest.raises(ValueError, match="at least one boundary"):
        ProbeRequest([1, 2, 3], [], [Probe((1,), 0)])
