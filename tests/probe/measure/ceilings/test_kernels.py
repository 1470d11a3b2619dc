"""What kernels cost: against work that is timed here, and the ways in which none is known."""

from __future__ import annotations

import pytest
import torch

from tui_profiler.messages import KernelCosts, Unknown
from tui_profiler.probe.measure.ceilings import kernels
from tui_profiler.probe.measure.ceilings.kernels import kernel_costs


@pytest.fixture(scope="module", name="costs")
def _costs() -> KernelCosts:
    found = kernel_costs("cpu")
    assert found is not None
    return found


def test_quantising_takes_longer_than_a_small_product(costs: KernelCosts) -> None:
    assert isinstance(costs.int8_call_seconds, float)
    assert 5e-7 < costs.int8_call_seconds < 5e-3
    assert isinstance(costs.int8_speedup, float)
    assert 0.02 < costs.int8_speedup < 50


def test_autograd_takes_longer_than_no_grad(costs: KernelCosts) -> None:
    assert isinstance(costs.autograd_seconds, float)
    assert isinstance(costs.no_grad_seconds, float)
    assert costs.no_grad_seconds < costs.autograd_seconds < 1e-3


def test_both_layouts_are_compared(costs: KernelCosts) -> None:
    for speedup in (costs.depthwise_speedup, costs.convolution_speedup):
        assert isinstance(speedup, float)
        assert 0.1 < speedup < 50


def test_threads_gradients_and_random_numbers_stay() -> None:
    torch.manual_seed(3)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    kernel_costs("cpu")
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_gpu_has_none() -> None:
    assert kernel_costs("cuda:0") is None


def test_what_this_machine_cannot_run_is_unknown_with_the_reason() -> None:
    def raises() -> float:
        raise RuntimeError("no engine for quantised operators\nat line 3")

    assert kernels._or_why(raises) == Unknown("no engine for quantised operators")
