"""A real forward beside bounds."""

from __future__ import annotations

import torch
from torch import nn

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import traced
from tui_profiler.probe.trace.trace import real_cost


class Chosen(nn.Module):
    """A linear layer on the rows whose first number is above 0."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, rows):
        return self.linear(rows[rows[:, 0] > 0])


def test_the_rows_that_there_are_are_counted() -> None:
    model, rows = Chosen(), torch.ones(10, 4)
    rows[3:] = -1
    made = traced(model, rows)

    real = real_cost(model, made)

    assert made.costs[0].macs == 10 * 4 * 5
    assert real is not None
    assert real.cost is not None
    assert (real.cost.macs, real.cost.parameters) == (3 * 4 * 5, 25)


def test_there_is_none_where_nothing_is_bounded() -> None:
    model = nn.Linear(4, 4)

    assert real_cost(model, traced(model, torch.zeros(1, 4))) is None


def test_what_it_raised_is_told() -> None:
    def raises_for_real(x):
        if not x[x > 0].numel():
            raise ValueError("no row")
        return x

    model = Function(raises_for_real)

    real = real_cost(model, traced(model, torch.zeros(3)))

    assert real is not None
    assert (real.cost, real.why) == (None, "ValueError: no row")
