"""Edges join the operator that wrote a tensor to those that read that very tensor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import GPT2Config, GPT2Model

from tests.probe.trace.traced import inputs_of
from tui_profiler.probe.torch_compat.internals import storage_key
from tui_profiler.probe.trace.record import record
from tui_profiler.probe.trace.tracers import DISPATCH_FAKE, DISPATCH_REAL
from tui_profiler.probe.trace.tree.dataflow import Dataflow
from tui_profiler.probe.trace.tree.growing_tree import Place
from tui_profiler.probe.trace.tree.messages import Frozen

TRIES = 100_000
"""Pools of Python's allocator that are not full are filled first, many after a thousand tests."""


def place(name: str) -> Place:
    return Place(None, "op", name, name, "aten::add")


def tensor_with(key: int, key_of: Callable[[torch.Tensor], int | None]) -> torch.Tensor:
    """Return a new tensor that lies where one lay which is gone."""
    kept = []
    for _ in range(TRIES):
        kept.append(torch.empty(4))
        if key_of(kept[-1]) == key:
            return kept[-1]
    pytest.fail(f"no tensor of {TRIES} was put where the old one had been")


def test_a_tensor_where_another_one_lay_does_not_come_from_its_writer() -> None:
    writer, reader = place("writer"), place("reader")
    flow = Dataflow()
    gone = torch.empty(4)
    flow.add(writer, [], [gone], [])
    key = id(gone)
    del gone

    flow.add(reader, [tensor_with(key, id)], [], [])

    assert not flow.edges


def test_a_storage_where_another_one_lay_was_not_written_in_place() -> None:
    writer, reader = place("writer"), place("reader")
    flow = Dataflow()
    gone = torch.empty(4)
    flow.add(writer, [], [], [gone])
    key = storage_key(gone)
    assert key is not None
    del gone

    flow.add(reader, [tensor_with(key, storage_key)], [], [])

    assert not flow.edges


def test_a_write_in_place_is_read_through_every_view() -> None:
    maker, writer, reader, late = (place(name) for name in ("maker", "writer", "reader", "late"))
    flow = Dataflow()
    base = torch.zeros(4)
    view = base[1:]
    flow.add(maker, [], [base, view], [])
    flow.add(reader, [view], [], [])
    flow.add(writer, [base], [base], [base])
    flow.add(late, [view], [], [])

    assert list(flow.edges) == [(maker, reader), (maker, writer), (maker, late), (writer, late)]


@pytest.mark.parametrize("way", [DISPATCH_FAKE, DISPATCH_REAL], ids=["fake", "real"])
def test_the_edges_of_a_model_are_the_same_each_time(way) -> None:
    """Its masks and positions are made from numbers: tensors that no operator gave."""
    model, inputs = GPT2Model(GPT2Config(n_layer=3)).eval(), inputs_of(torch.zeros(1, 16).long())

    def edges():
        made = record(model, inputs, way, "")
        return Frozen(made.places).edges(made.recorder.dataflow.edges)

    first = edges()
    kept = [torch.empty(size) for size in range(50)]  # so that addresses are others
    assert edges() == first
    del kept
