"""The cost of a page fault, against torch on memory of its own."""

from __future__ import annotations

from resource import RUSAGE_THREAD, getrusage
from statistics import median
from time import thread_time

import pytest
import torch

from tui_profiler.messages import Unknown
from tui_profiler.probe.measure.ceilings.page_faults import fault_seconds


def test_a_fault_costs_what_torch_takes_longer_without_memory_of_its_own() -> None:
    found = fault_seconds()
    if isinstance(found, Unknown):
        pytest.skip(found.reason)
    x = torch.ones(8 << 20)
    out = torch.ones(8 << 20)
    costs = []
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(9):
            faults, began = getrusage(RUSAGE_THREAD).ru_minflt, thread_time()
            fresh = torch.mul(x, 2.0)
            took, faults = thread_time() - began, getrusage(RUSAGE_THREAD).ru_minflt - faults
            began = thread_time()
            torch.mul(x, 2.0, out=out)
            again = thread_time() - began
            del fresh
            if faults > 4_000:
                costs.append((took - again) / faults)
    finally:
        torch.set_num_threads(before)
    if not costs:
        pytest.skip("torch kept the memory")
    assert found == pytest.approx(median(costs), rel=0.5)
