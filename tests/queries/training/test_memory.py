"""Memory over a training step: totals, phases and who is alive, of a step that was recorded."""

from __future__ import annotations

import torch
from torch import nn

from tests.probe.trace.training.recorded import recorded
from tests.queries.training.test_step_costs import trained
from tests.small_model import CONV, CONV_OP, FC, FC_OP
from tui_profiler.messages import TrainSpec, known
from tui_profiler.queries.training import memory
from tui_profiler.session.training import MemoryColumns

MODEL = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU())


def test_the_highest_point_is_the_peak() -> None:
    told = recorded(MODEL, torch.ones(4, 3, 16, 16), spec=TrainSpec("adamw")).memory
    columns = MemoryColumns(told)
    peak = memory.peak_point(columns)
    found = memory.alive_at(columns, peak, 1000)

    assert max(memory.totals(columns)) == told.peak + (known(told.workspace) or 0)
    assert memory.phase_at(columns, peak) == told.phase
    assert columns.constant_bytes + sum(found.uses) + (found.workspace or 0) == max(
        memory.totals(columns)
    )
    assert sum(one.bytes for one in found.tensors) == sum(found.uses)
    assert max(one.whole for one in memory.drawn(columns, 7)) == (
        max(memory.totals(columns)) - columns.constant_bytes
    )


def test_phases_begin_where_they_were_recorded() -> None:
    columns = trained().training_memory

    assert columns is not None
    assert memory.phases(columns) == (("forward", 0), ("backward", 1), ("optimizer", 2))


def test_a_point_belongs_to_the_module_of_its_operator() -> None:
    session = trained()
    tree, columns = session.tree, session.training_memory

    assert tree is not None
    assert columns is not None
    assert [memory.module_at(tree, columns, point) for point in range(3)] == [CONV, FC, 0]
    assert memory.first_point(tree, columns, FC) == 1
    assert [memory.module_of(tree, node) for node in (CONV_OP, FC_OP, -1, 99)] == [CONV, FC, 0, 0]


def test_a_module_saves_what_its_own_operators_made() -> None:
    assert list(memory.saved_by_modules(trained(), 5)) == [(CONV, 1024), (FC, 1024)]
    assert list(memory.saved_by_modules(trained(), 1)) == [(CONV, 1024)]
