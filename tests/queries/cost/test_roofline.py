"""Parts under the roofline, with figures worked out by hand.

The roofs are 400 GFLOP/s and 20 GB/s, the ridge 20 FLOP/B, an operator takes 5 µs at least:

- conv: 400 MFLOP over 2 MB are 200 FLOP/B; 1 ms at the flat roof;
- fc: 2 MFLOP over 4 MB are 0.5 FLOP/B; 200 µs at the slope, which is 10 GFLOP/s there;
- add: 20 kFLOP over 200 kB are 0.1 FLOP/B; 10 µs at the slope;
- pool: no FLOPs, 100 kB; 5 µs.
"""

from __future__ import annotations

import pytest

from tests.fixtures.record import recorded
from tests.queries.sessions import ticked, traced, with_ceilings
from tests.small_model import cost, node, operator_times
from tui_profiler.formatting.plot import Axis
from tui_profiler.queries.cost.bound import bound
from tui_profiler.queries.cost.roofline import (
    name_of,
    node_roofline,
    part_nodes,
    parts,
    reached,
    roofs,
)
from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.session import EMPTY, Session, apply

ROOT, CONV, CONV_OP, BLOCK, FC, FC_OP, ADD, DROP, POOL, POOL_OP = range(10)
NODES = [
    node(-1, "net", "", "Net"),
    node(ROOT, "conv", "conv", "Conv2d"),
    node(CONV, "aten::convolution", "conv/0", "aten.convolution.default"),
    node(ROOT, "block", "block", "Block"),
    node(BLOCK, "fc", "block.fc", "Linear"),
    node(FC, "aten::addmm", "block.fc/0", "aten.addmm.default"),
    node(BLOCK, "aten::add", "block/0", "aten.add.Tensor"),
    node(ROOT, "drop", "drop", "Dropout"),
    node(ROOT, "pool", "pool", "MaxPool2d"),
    node(POOL, "aten::max_pool2d", "pool/0", "aten.max_pool2d.default"),
]
_CONV = cost(flops=400_000_000, input_bytes=2_000_000, ops=1)
_FC = cost(flops=2_000_000, input_bytes=4_000_000, ops=1)
_ADD = cost(flops=20_000, input_bytes=200_000, ops=1)
_POOL = cost(input_bytes=100_000, ops=1)
COSTS = [
    cost(flops=402_020_000, input_bytes=6_300_000, ops=4),
    _CONV,
    _CONV,
    cost(flops=2_020_000, input_bytes=4_200_000, ops=2),
    _FC,
    _FC,
    _ADD,
    cost(),
    _POOL,
    _POOL,
]
SECONDS = {
    "": 4e-3,
    "conv": 1.6e-3,
    "block": 1e-3,
    "block.fc": 0.8e-3,
    "drop": 1e-6,
    "pool": 8e-6,
}


def on_paper() -> Session:
    return with_ceilings(traced(NODES, COSTS))


def measured(**changes: float) -> Session:
    session = ticked(on_paper(), SECONDS | changes)
    return apply(session, operator_times({CONV_OP: 1.9e-3, ADD: 40e-6}))


def looked_at(session: Session, at: float = 10.0) -> RooflineView:
    view = RooflineView()
    view.update(session, at)
    return view


def test_parts_are_leaf_modules_and_operators_outside_of_them() -> None:
    session = measured()
    assert session.tree is not None
    assert part_nodes(session.tree) == [CONV, FC, ADD, DROP, POOL]
    assert list(parts(session.tree, session.ceilings).nodes) == [CONV, FC, ADD, POOL]


def test_what_is_compiled_is_one_part() -> None:
    nodes = [*NODES]
    nodes[BLOCK] = node(ROOT, "block", "block", "Block", is_opaque=True)
    tree = traced(nodes, COSTS).tree
    assert tree is not None
    assert part_nodes(tree) == [CONV, BLOCK, DROP, POOL]


def test_a_module_around_one_that_is_never_called_is_a_part() -> None:
    nodes = [*NODES]
    nodes[FC] = node(BLOCK, "fc", "block.fc", "Linear", calls=0)
    tree = traced(nodes, COSTS).tree
    assert tree is not None
    assert part_nodes(tree) == [CONV, BLOCK, DROP, POOL]


def test_a_part_knows_its_least_time() -> None:
    session = measured()
    assert session.tree is not None
    found = parts(session.tree, session.ceilings)
    assert found.intensities == pytest.approx([200, 0.5, 0.1, 0])
    assert found.least == pytest.approx([1e-3, 200e-6, 10e-6, 5e-6])


def test_what_is_below_half_of_its_roof_is_counted() -> None:
    session = measured()
    assert session.tree is not None
    now = reached(session, parts(session.tree, session.ceilings))
    # conv reaches 62.5 %, fc 25 %, add 25 %, pool 62.5 %.
    assert now.seconds == pytest.approx([1.6e-3, 0.8e-3, 40e-6, 8e-6])
    assert (now.judged, now.below) == (4, 2)
    assert now.below_seconds == pytest.approx(0.84e-3)
    assert now.whole == pytest.approx(4e-3)


def test_roofs_say_what_computes_under_them() -> None:
    session = measured()
    assert session.tree is not None
    found = roofs(parts(session.tree, session.ceilings), session.ceilings)
    assert [(roof.dtype, roof.flops_per_second) for roof in found.compute] == [("f32", 4e11)]
    assert found.compute[0].flops == 402_020_000
    assert found.ridge == pytest.approx(20)


def test_every_part_of_a_real_session_agrees_with_its_bound() -> None:
    session = EMPTY
    for message in recorded():
        session = apply(session, message)
    assert session.tree is not None
    found = parts(session.tree, session.ceilings)
    now = reached(session, found)
    compared = 0
    for place, at in enumerate(found.nodes):
        spent = now.seconds[place]
        judged = bound(session, at)
        if spent and judged is not None and judged.measured:
            share = max(judged.compute_share or 0.0, judged.memory_share or 0.0)
            assert found.least[place] / spent == pytest.approx(share)
            assert found.kind(place, spent) == judged.kind
            compared += 1
    # 53 convolutions and as many norms, 17 activations, two poolings and one linear layer.
    assert compared >= 126


def test_a_part_stands_under_its_own_roof() -> None:
    view = looked_at(measured())
    assert view.parts is not None
    assert view.now is not None
    conv = node_roofline(view.session, view.parts, view.now, CONV)
    assert (conv.name, conv.kind, conv.roof_name) == ("conv", "compute", "f32")
    assert conv.achieved == pytest.approx(2.5e11)
    assert conv.roof == pytest.approx(4e11)
    assert conv.share == pytest.approx(0.625)
    assert conv.least_seconds == pytest.approx(1e-3)
    assert conv.gain == pytest.approx(0.6e-3 / 4e-3)
    linear = node_roofline(view.session, view.parts, view.now, FC)
    assert linear.roof == pytest.approx(1e10)
    assert linear.roof_name == "memory"


def test_a_block_stands_under_the_roofs_of_its_parts() -> None:
    view = looked_at(measured())
    assert view.parts is not None
    assert view.now is not None
    block = node_roofline(view.session, view.parts, view.now, BLOCK)
    assert not block.is_part
    assert block.least_seconds == pytest.approx(210e-6)  # Of fc and add.
    assert block.share == pytest.approx(0.21)
    assert block.gain == pytest.approx(0.79e-3 / 4e-3)


def test_a_node_without_flops_is_told_in_bytes() -> None:
    view = looked_at(measured())
    assert view.parts is not None
    assert view.now is not None
    pool = node_roofline(view.session, view.parts, view.now, POOL)
    assert (pool.unit, pool.intensity) == ("B/s", None)
    assert pool.achieved == pytest.approx(1.25e10)
    assert pool.roof == pytest.approx(2e10)


def test_what_is_faster_than_its_roof_gains_nothing() -> None:
    view = looked_at(measured(**{"pool": 2e-6}))
    assert view.parts is not None
    assert view.now is not None
    pool = node_roofline(view.session, view.parts, view.now, POOL)
    assert pool.share == pytest.approx(2.5)
    assert pool.gain is None
    assert "is in a cache" in pool.why


def test_without_times_nothing_is_reached() -> None:
    view = looked_at(on_paper())
    assert view.parts is not None
    assert view.now is not None
    conv = node_roofline(view.session, view.parts, view.now, CONV)
    assert (conv.achieved, conv.share, conv.gain) == (None, None, None)
    assert conv.roof == pytest.approx(4e11)
    assert conv.why == "not timed"
    assert view.order == []
    assert view.is_placed


def test_an_operator_is_named_by_its_module() -> None:
    tree = on_paper().tree
    assert tree is not None
    assert [name_of(tree, n) for n in (ROOT, FC, ADD)] == ["net", "block.fc", "block/add"]


def test_the_cursor_walks_by_time() -> None:
    view = looked_at(measured())
    assert view.walked(CONV, 1) == FC
    assert view.walked(FC, 1) == ADD
    assert view.walked(ADD, 1000) == POOL
    assert view.walked(POOL, -1000) == CONV


def test_the_cursor_enters_a_block_at_its_slowest_part() -> None:
    view = looked_at(measured())
    assert view.walked(BLOCK, 1) == FC
    assert view.walked(ROOT, 1) == CONV
    assert view.walked(DROP, 1) == CONV
    assert view.crossed(BLOCK, 1) == FC


def test_the_cursor_crosses_by_flops_a_byte() -> None:
    view = looked_at(measured())
    assert view.crossed(ADD, 1) == FC
    assert view.crossed(FC, 1) == CONV
    assert view.crossed(CONV, 1) == CONV
    assert view.crossed(FC, -1) == ADD
    assert view.crossed(POOL, 1) == ADD  # It has no FLOPs: from there to the first that has.


def test_the_order_waits_until_the_reader_rests() -> None:
    view = looked_at(measured(), at=10.0)
    conv_first = [0, 1, 2, 3]
    assert view.order == conv_first
    view.touch(12.0)
    slower = ticked(view.session, SECONDS | {"": 6.2e-3, "block": 3.2e-3, "block.fc": 3e-3}, at=2.0)
    view.update(slower, 16.9)
    assert view.order == conv_first
    assert view.first_row(FC, 2) == 0
    view.update(slower, 17.1)
    assert view.order == [1, 0, 2, 3]


def test_the_selected_row_keeps_its_line_in_a_new_order() -> None:
    view = looked_at(measured(), at=10.0)
    assert view.first_row(POOL, 2) == 2  # The second of two rows.
    slower = ticked(view.session, SECONDS | {"pool": 1e-3}, at=2.0)
    view.update(slower, 16.0)
    assert view.order == [0, 3, 1, 2]
    assert view.first_row(POOL, 2) == 0


def test_points_lie_where_the_axes_say() -> None:
    view = looked_at(measured())
    # 0.1 to 200 FLOP/B; add reaches 0.5 GFLOP/s, the roof with its room is at 600.
    assert (view.x, view.y) == (Axis(-1, 2.5), Axis(8.5, 12))
    placed = {(s.column, s.row): (s.size, s.kind) for s in view.spots(35, 35).spots}
    # Ten cells a decade. conv: log10 200 = 2.301 and log10 2.5e11 = 11.398;
    # fc: log10 0.5 = -0.301 and log10 2.5e9 = 9.398; add: log10 0.1 and log10 5e8 = 8.699.
    assert placed == {
        (33, 6): (2, "compute"),
        (6, 26): (2, "memory"),
        (0, 33): (1, "memory"),
    }


def test_points_of_one_cell_are_added_up() -> None:
    view = looked_at(measured())
    (only,) = {(s.size, s.kind) for s in view.spots(1, 1).spots}
    assert only == (2, "compute")


def test_axes_keep_still_while_times_change() -> None:
    view = looked_at(measured())
    before = (view.x, view.y)
    for factor in (0.8, 1.3, 1.1):
        quick = {path: seconds * factor for path, seconds in SECONDS.items()}
        view.update(ticked(view.session, quick), 11.0)
        assert (view.x, view.y) == before


def test_a_file_of_parameters_has_no_roofline() -> None:
    assert looked_at(EMPTY).parts is None
