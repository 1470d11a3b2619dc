"""The bound of a fused recurrent layer: its time steps run one after another; figures by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.queries.sessions import cost_of, node_of, ticked, traced
from tui_profiler.messages import CacheCeiling, Ceiling, Ceilings, Node
from tui_profiler.messages.model import Tensor
from tui_profiler.queries.cost.bound import bound, called_cost, floors
from tui_profiler.session import Session, apply

STEPS, HIDDEN = 64, 1024
MATRIX = 4 * HIDDEN * HIDDEN * 4
"""Bytes of the hidden-to-hidden matrix of an LSTM."""
ROOFS = Ceilings(
    *("cpu", 1, (Ceiling("float32", 100e9),), 10e9, 1e-6, 0.0, 0.0),
    caches=(CacheCeiling(2, 1 << 20, 80e9),),
)


def lstm(seconds: float, steps: int = STEPS, hidden: int = HIDDEN) -> Session:
    """Return a timed model of one recurrent layer, batch 1."""
    matrix = 4 * hidden * hidden * 4
    shapes = ((steps, 1, hidden), (4 * hidden, hidden), (4 * hidden, hidden))
    nodes: list[Node] = [node_of(-1, "m", "M", [])]
    nodes.append(node_of(0, "lstm", "LSTM", nodes))
    op = node_of(1, "aten::mkldnn_rnn_layer", "aten.mkldnn_rnn_layer.default", nodes)
    given = tuple(Tensor(one, "float32", matrix) for one in shapes)
    nodes.append(replace(op, inputs=given))
    macs = steps * 8 * hidden * hidden
    work = replace(cost_of(0, macs), weight_bytes=2 * matrix)
    session = traced(nodes, [work, work, work])
    return apply(ticked(session, {"": seconds, "lstm": seconds}), ROOFS)


def test_every_step_reads_the_hidden_to_hidden_matrix_again() -> None:
    session = lstm(0.3)
    assert session.tree is not None
    least = floors(session.tree, ROOFS).memory_seconds(1, 3)
    assert least == pytest.approx((2 * MATRIX + (STEPS - 1) * MATRIX) / 10e9)
    # 10.7 ms of arithmetic; both matrices read once are 3.4 ms, with every step 109 ms.
    found = bound(session, 1)
    assert found is not None
    assert (found.kind, found.measured) == ("memory", True)


def test_every_step_is_an_operator() -> None:
    session = lstm(2e-3, steps=256, hidden=32)
    assert session.tree is not None
    assert called_cost(session.tree, 1).ops == called_cost(session.tree, 2).ops == 256
    # 256 us; 42 us of arithmetic.
    found = bound(session, 1)
    assert found is not None
    assert found.kind == "overhead"
    assert found.overhead_share == pytest.approx(0.128)


def test_without_the_roof_of_a_cache_it_is_open_where_the_matrix_is_read_from() -> None:
    session, alone = lstm(2e-3, steps=256, hidden=32), replace(ROOFS, caches=())
    assert session.tree is not None
    assert floors(session.tree, alone).memory_seconds(1, 3) is None


def test_a_single_step_is_as_any_operator() -> None:
    session = lstm(2e-3, steps=1)
    assert session.tree is not None
    assert called_cost(session.tree, 2).ops == 1
    assert floors(session.tree, ROOFS).memory_seconds(1, 3) == pytest.approx(2 * MATRIX / 10e9)
