"""Small real operators in a fake run are computed by one thread; others as ever."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tui_profiler.messages import InputSpec
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace

threads: list[int] = []


@torch.library.custom_op("tui_profiler_tests::threads", mutates_args=())
def noted(table: torch.Tensor) -> torch.Tensor:
    """Note how many threads an operator has."""
    threads.append(torch.get_num_threads())
    return table.clone()


@noted.register_fake
def _(table: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(table)


class Positions(nn.Module):
    """Adds what it computes of a real table."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(rows))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu() + noted(self.table)[:1]


@pytest.mark.parametrize(("rows", "expected"), [(8, 1), ((1 << 20) + 1, 2)])
def test_a_small_table_is_computed_by_one_thread(rows: int, expected: int) -> None:
    before = torch.get_num_threads()
    x = torch.zeros(1, 4)
    inputs = Inputs((x,), {}, (InputSpec("x", (1, 4), "float32", "given"),), 1)
    threads.clear()
    torch.set_num_threads(2)
    try:
        made = trace(Positions(rows), (inputs,))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert made.method == "dispatch:fake"
    assert threads[0] == expected  # then its cost is asked for, of its parts
