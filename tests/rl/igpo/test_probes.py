from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from venus_env.beliefs.pseudo_answer import PseudoAnswer
from venus_rl.igpo.probes import Probe, ProbeRequest, best_scores, build_probes, score_boundaries

SIZE = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
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
        probes = [
            Probe(tuple(rng.integers(0, 97, 9).tolist()), 5),
            Probe(tuple(rng.integers(0, 97, 4).tolist()), 0),  # no prefix: the context's last token predicts it
            Probe((3,), 0),
        ]
        made.append(ProbeRequest(rng.integers(0, 97, length).tolist(), boundaries, probes))
    return made


@pytest.mark.parametrize("family", ["qwen3", "llama"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_one_pass_equals_one_forward_per_boundary(family: str, attention: str) -> None:
    model = make_model(family, attention)
    wanted = [naive(model, request) for request in requests()]
    assert np.ptp(np.concatenate([w.ravel() for w in wanted])) > 0.5  # the model tells contexts apart
    # All rollouts in one masked forward; some through the cache; all through it, the context in chunks of 13 and of 1.
    for max_attention in (16_000_000, 10_000, 1_500, 1):
        for mine, oracle in zip(score_boundaries(model, requests(), max_attention=max_attention), wanted, strict=True):
            np.testing.assert_allclose(mine, oracle, atol=1e-4)


def test_temperature_divides_the_logits() -> None:
    model = make_model("qwen3")
    request = requests()[0]
    np.testing.assert_allclose(
        score_boundaries(model, [request], temperature=0.7)[0], naive(model, request, 0.7), atol=1e-4
    )


def test_context_after_a_boundary_is_invisible() -> None:
    model = make_model("qwen3")
    request = requests()[0]
    changed = ProbeRequest([*request.ids[:19], *[5] * 21], request.boundaries, request.probes)
    before, after = score_boundaries(model, [request, changed])
    np.testing.assert_allclose(before[:, :2], after[:, :2], atol=1e-5)
    assert np.abs(before[:, 2] - after[:, 2]).max() > 1e-3


def test_layout_of_a_small_request() -> None:
    batch = build_probes(ProbeRequest([10, 11, 12], [1, 3], [Probe((20, 21, 22), 1)]))
    assert batch.input_ids.tolist() == [10, 11, 12, 20, 21, 20, 21]
    assert batch.position_ids.tolist() == [0, 1, 2, 1, 2, 3, 4]
    assert batch.rows.tolist() == [3, 4, 5, 6]
    assert batch.targets.tolist() == [21, 22, 21, 22]
    assert batch.context == 3
    assert batch.visible.astype(int).tolist() == [
        [1, 0, 0, 1, 0, 0, 0],
        [1, 0, 0, 1, 1, 0, 0],
        [1, 1, 1, 0, 0, 1, 0],
        [1, 1, 1, 0, 0, 1, 1],
    ]


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
        build_probes(ProbeRequest([1, 2, 3], [4], [Probe((1,), 0)]))
    with pytest.raises(ValueError, match="at least one boundary"):
        build_probes(ProbeRequest([1, 2, 3], [], [Probe((1,), 0)]))
    model = make_model("qwen3")
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match="flash_attention_2"):
        score_boundaries(model, requests())
