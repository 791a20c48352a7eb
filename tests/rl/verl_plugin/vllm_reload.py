"""Loads new weights into vLLM's CPU build in three ways: ``VLLM_PYTHON vllm_reload.py OLD_MODEL NEW_MODEL``.

Prints a JSON object: per way the largest difference between vLLM's log-probabilities and those of transformers with the
new weights, or the error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ |= {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
    "VLLM_PLUGINS": "",
}


def load_again(worker: Any, weights: dict[str, Any]) -> None:
    worker.model_runner.get_model().load_weights(weights.items())


def reload_only(worker: Any, weights: dict[str, Any]) -> None:
    worker.model_runner.reload_weights(weights_iterator=iter([(k, v.clone()) for k, v in weights.items()]))


def reload_and_pack(worker: Any, weights: dict[str, Any]) -> None:
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    reload_only(worker, weights)
    dispatch_cpu_unquantized_gemm(worker.model_runner.get_model().lm_head, remove_weight=False)


def main(old: str, new: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM
    from vllm import LLM, SamplingParams, TokensPrompt

    model = AutoModelForCausalLM.from_pretrained(new, dtype=torch.float32).eval()
    weights = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    engine = LLM(model=old, dtype="float32", max_model_len=256, enforce_eager=True, block_size=32)
    prompt = list(range(3, 99))

    def difference() -> float:
        engine.reset_prefix_cache()
        parameters = SamplingParams(temperature=0, max_tokens=8, logprobs=0, ignore_eos=True)
        (output,) = engine.generate([TokensPrompt(prompt_token_ids=prompt)], parameters, use_tqdm=False)
        ids = list(output.outputs[0].token_ids)
        with torch.no_grad():
            own = model(torch.tensor([prompt + ids])).logits[0].log_softmax(-1)
        pairs = zip(output.outputs[0].logprobs, ids, strict=True)
        return max(abs(there[token].logprob - own[95 + at, token].item()) for at, (there, token) in enumerate(pairs))

    found: dict[str, Any] = {"before": difference()}
    for way in (load_again, reload_only, reload_and_pack):
        try:
            engine.collective_rpc(way, args=(weights,))
            found[way.__name__] = difference()
        except Exception as error:
            found[way.__name__] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
