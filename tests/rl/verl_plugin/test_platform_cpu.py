from __future__ import annotations

import copy
import pickle

import pytest
import torch
from verl.plugin.platform import PlatformRegistry, get_platform
from verl.utils import device

from venus_rl.verl_plugin.platform_cpu import PlatformCPU


def test_verl_finds_the_platform_and_uses_it() -> None:
    assert PlatformRegistry.get("cpu") is PlatformCPU
    assert isinstance(get_platform(), PlatformCPU)
    assert (device.get_device_name(), device.get_nccl_backend(), device.get_resource_name()) == ("cpu", "gloo", "GPU")


def test_tensors_move_to_the_current_device() -> None:
    """An int would mean cuda:<int>."""
    assert torch.zeros(1).to(device.get_device_id()).device.type == "cpu"


def test_the_device_module_answers_what_verl_asks() -> None:
    module = device.get_torch_device()
    assert module.is_available() is False  # skips verl's CUDA memory utilities
    assert module.device_count() == 1
    assert module.current_device() == torch.cpu.current_device()  # torch.cpu stands behind
    assert module.memory_allocated() > 2**20
    free, total = module.mem_get_info()
    assert 0 < free <= total
    for quiet in (module.synchronize, module.empty_cache, module.reset_peak_memory_stats):
        assert quiet() is None
    assert module.set_device(0) is None
    with pytest.raises(AttributeError):
        _ = module.no_such_function


def test_the_device_module_is_no_trap_for_copy_and_pickle() -> None:
    """Lookups of dunder names must not end in torch.cpu."""
    module = device.get_torch_device()
    assert not hasattr(module, "__deepcopy__")
    assert not hasattr(module, "__path__")
    assert pickle.loads(pickle.dumps(PlatformCPU())).device_module is module
    assert copy.deepcopy(PlatformCPU()).device_name == "cpu"


@pytest.mark.parametrize("seed", ["manual_seed", "manual_seed_all"])
def test_random_state_is_that_of_the_cpu(seed: str) -> None:
    before = torch.get_rng_state()
    try:
        for owner in (device.get_torch_device(), get_platform()):
            getattr(owner, seed)(7)
            state = device.get_torch_device().get_rng_state()
            first = torch.rand(3)
            device.get_torch_device().set_rng_state(state)
            assert torch.equal(torch.rand(3), first)
            torch.manual_seed(7)
            assert torch.equal(torch.rand(3), first)
    finally:
        torch.set_rng_state(before)


def test_ranges_and_profilers_do_nothing() -> None:
    platform = get_platform()
    with platform.nvtx_range("step"):
        platform.profiler_start()
        platform.profiler_stop()
    assert platform.get_device_capability() == (None, None)
    assert platform.ray_noset_envvars() == []
    assert not platform.is_ipc_supported()
