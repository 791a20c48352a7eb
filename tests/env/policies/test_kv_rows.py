from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from venus_env.policies.kv_rows import PrefixStore, shared_length  # noqa: E402


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_shared_length() -> None:
    long = np.arange(30)
    assert shared_length(long, long) == 29  # one token must be left to compute
    assert shared_length(long[:20], long) == 20
    changed = long.copy()
    changed[18] = 99
    assert shared_length(changed, long) == 18
    assert shared_length(long[:10], long) == 0  # too short to be worth it


def test_store_replaces_prefixes_and_forgets_the_oldest() -> None:
    def tensors(length: int) -> list[torch.Tensor]:
        return [torch.zeros(1, length, 2)]  # 8 bytes a token

    store = PrefixStore(budget_bytes=8 * 100)
    base = np.arange(100)
    store.add(base[:20], tensors(20))
    store.add(base[:40], tensors(40))
    assert len(store) == 1  # the longer one covers the shorter one
    assert store.find(base)[0] == 40
    other = base + 500
    store.add(other[:50], tensors(50))
    assert len(store) == 2
    store.find(base)  # makes the first the more recent
    store.add((base + 900)[:30], tensors(30))  # 40 + 50 + 30 tokens exceed the budget of 100
    assert store.find(other)[0] == 0
    assert store.find(base)[0] == 40
    store.add(np.arange(2000, 2200), tensors(200))  # larger than the whole budget: not kept
    assert len(store) == 2
    store.clear()
    assert store.find(base) == (0, [])
