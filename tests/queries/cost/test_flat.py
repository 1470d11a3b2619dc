"""Flat tables: modules by self time, by class, operators by name; every sum by hand."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from tests.queries.sessions import cost_of, node_of, traced
from tests.small_model import (
    ACT,
    ACT_OP,
    CONV,
    FC,
    MEASURED,
    ROOT,
    TRACED,
    WITH_OWN,
    folded,
    operator_times,
    tick,
)
from tests.small_model import CONV_OP as SMALL_CONV_OP
from tests.small_model import FC_OP as SMALL_FC_OP
from tui_profiler.messages import DeviceTimes, MemoryWindow, Node, Unknown, Weight
from tui_profiler.queries.cost.flat import (
    CALLED as CALLED_WORK,
)
from tui_profiler.queries.cost.flat import (
    NO_SELF_TIME,
    NO_WINDOW,
    NOT_CALLED,
    columns_of,
    flat_table,
    in_order,
    interrupted_words,
    usual_columns,
)
from tui_profiler.queries.time.node_seconds import CPU_OF_CALLS
from tui_profiler.session import Session, apply

TREE = """
net Net
  embed Table
  blocks ModuleList
    0 Block
      fc Linear
      inner Block
        fc Linear
    1 Block
      fc Linear
      inner Block
        fc Linear
  head Tied
  unused Linear
"""
SECONDS = {
    "": (10.0, 1.0),
    "embed": (1.0, 1.0),
    "blocks.0": (4.0, 1.0),
    "blocks.0.fc": (1.0, 1.0),
    "blocks.0.inner": (2.0, 0.5),
    "blocks.0.inner.fc": (1.5, 1.5),
    "blocks.1": (3.5, 0.5),
    "blocks.1.fc": (1.25, 1.25),
    "blocks.1.inner": (1.75, 0.5),
    "blocks.1.inner.fc": (1.25, 1.25),
    "head": (0.5, 0.5),
}
"""Total and self time. Two equal siblings; a class inside itself; a container and a module that are
not called."""


def nested() -> Session:
    """Return the tree; ``head`` shares its only weight with ``embed``, both blocks theirs."""
    nodes: list[Node] = []
    above: list[int] = []
    for line in TREE.strip("\n").splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name, kind = line.split()
        del above[depth:]
        parent = above[-1] if above else -1
        nodes.append(_with_weights(node_of(parent, name, kind, nodes)))
        above.append(len(nodes) - 1)
    session = traced(nodes, [cost_of(0, 0) for _ in nodes])
    times = {index: SECONDS[node.path] for index, node in enumerate(nodes) if node.path in SECONDS}
    return apply(session, tick(times))


def _with_weights(node: Node) -> Node:
    calls = 0 if node.name in ("blocks", "unused") else 1
    own: dict[str, tuple[Weight, ...]] = {
        "embed": (Weight("weight", (50, 4), "float32", 800, False),),
        "head": (
            Weight("weight", (50, 4), "float32", 800, False, shared_with="embed.weight"),
            Weight("bias", (50,), "float32", 200, False),
            Weight("steps", (7,), "float32", 28, True),
        ),
        "fc": (Weight("weight", (4, 4), "float32", 64, False),),
    }
    return replace(node, calls=calls, weights=own.get(node.name, ()))


def test_self_times_of_all_modules_are_the_forward() -> None:
    table = flat_table(nested(), "module")

    assert table.seconds == pytest.approx(10.0)
    own = [row.own for row in table.rows if not isinstance(row.own, Unknown)]
    assert sum(own) == pytest.approx(10.0)
    assert [row.name for row in table.rows[:3]] == [
        "blocks.0.inner.fc",
        "blocks.1.fc",
        "blocks.1.inner.fc",
    ]


def test_a_module_that_was_not_measured_has_a_reason_and_goes_last() -> None:
    table = flat_table(nested(), "module")

    blocks, unused = (row for row in table.rows if row.name in ("blocks", "unused"))
    assert (blocks.own, blocks.share) == (Unknown(NOT_CALLED), Unknown(NOT_CALLED))
    assert blocks.total == pytest.approx(7.5)
    assert isinstance(unused.total, Unknown)
    assert {row.name for row in table.rows[-2:]} == {"blocks", "unused"}


def test_the_total_of_a_class_counts_only_the_outermost() -> None:
    [block] = [row for row in flat_table(nested(), "class").rows if row.name == "Block"]

    assert len(block.nodes) == 4
    assert block.calls == 4
    assert block.total == pytest.approx(4.0 + 3.5)
    # 4 - 1 - 2, 2 - 1.5, 3.5 - 1.25 - 1.75, 1.75 - 1.25
    assert block.own == pytest.approx(1.0 + 0.5 + 0.5 + 0.5)
    assert block.share == pytest.approx(0.25)


def test_a_class_adds_up_those_of_its_modules_that_were_measured() -> None:
    [linear] = [row for row in flat_table(nested(), "class").rows if row.name == "Linear"]

    assert (len(linear.nodes), linear.calls) == (5, 4)
    assert linear.own == linear.total == pytest.approx(1.0 + 1.5 + 1.25 + 1.25)


def test_shared_parameters_are_the_first_owners_in_the_root() -> None:
    session = nested()
    assert session.tree is not None
    owned = {row.name: row.parameters for row in flat_table(session, "module").rows}
    assert (owned["embed"], owned["head"], owned["blocks.1.fc"]) == (200, 50, 16)
    head = session.tree.find("head")
    assert head is not None

    [alone] = flat_table(session, "module", head).rows

    assert alone.parameters == 250


def test_another_root_lists_what_is_in_it_as_shares_of_the_forward() -> None:
    session = nested()
    assert session.tree is not None
    block = session.tree.find("blocks.1")
    assert block is not None
    table = flat_table(session, "module", block)

    assert table.seconds == pytest.approx(3.5)
    assert {row.name for row in table.rows} == {
        "blocks.1",
        "blocks.1.fc",
        "blocks.1.inner",
        "blocks.1.inner.fc",
    }
    whole = flat_table(session, "module").seconds
    assert isinstance(whole, float)
    shares = [row.share for row in table.rows if isinstance(row.share, float)]
    assert sum(shares) == pytest.approx(3.5 / whole)


def test_figures_of_modules_are_those_of_their_own_operators() -> None:
    rows = {row.nodes: row for row in flat_table(folded(MEASURED), "module").rows}

    assert [row[0] for row in rows] == [CONV, FC, ACT, ROOT]
    # The model's own operator has no formula; it reads and writes 40 bytes.
    unknown = Unknown("not counted: mine::strange")
    assert (rows[ROOT,].macs, rows[ROOT,].flops) == (unknown, unknown)
    assert (rows[ROOT,].bytes_moved, rows[ROOT,].parameters) == (80, 0)
    assert (rows[CONV,].macs, rows[CONV,].flops, rows[CONV,].parameters) == (6912, 13824, 108)
    assert rows[CONV,].bytes_moved == 768 + 432 + 1024
    assert rows[CONV,].input == (1, 3, 8, 8)
    assert rows[CONV,].output == (1, 4, 8, 8)
    assert sum(row.parameters for row in rows.values()) == 2678
    assert rows[CONV,].share == pytest.approx(0.5)


def test_operators_of_one_name_are_one_row() -> None:
    session = apply(folded(MEASURED), operator_times({SMALL_CONV_OP: 0.0004, SMALL_FC_OP: 0.0002}))
    rows = {row.name: row for row in flat_table(session, "operator").rows}

    assert list(rows) == ["aten::convolution", "aten::addmm", "aten::relu_", "mine::strange"]
    convolution = rows["aten::convolution"]
    assert convolution.total == pytest.approx(0.0004)
    # Of what the windows saw: they are other forwards than those of the mean.
    assert convolution.share == pytest.approx(2 / 3)
    assert convolution.own == Unknown(NO_SELF_TIME)
    assert rows["aten::relu_"].total == Unknown("not seen in any operator window")


def test_operators_have_self_times_and_those_that_they_call_are_rows() -> None:
    table = flat_table(apply(folded(MEASURED), WITH_OWN), "operator")
    rows = {row.name: row for row in table.rows}

    assert [row.name for row in table.rows[:3]] == [
        "aten::mkldnn_convolution",
        "aten::addmm",
        "aten::relu_",
    ]
    assert table.seconds == pytest.approx(750e-6)
    own = [row.own for row in table.rows if not isinstance(row.own, Unknown)]
    assert sum(own) == pytest.approx(750e-6)
    convolution, relu, inner = (
        rows[f"aten::{name}"] for name in ("convolution", "relu_", "mkldnn_convolution")
    )
    assert (convolution.total, convolution.own) == pytest.approx((400e-6, 100e-6))
    assert convolution.share == pytest.approx(100 / 750)
    # One of the tree, and two that addmm calls.
    assert (relu.calls, relu.nodes, relu.callers) == (3, (ACT_OP,), (SMALL_FC_OP,))
    assert (relu.total, relu.own) == pytest.approx((120e-6, 120e-6))
    assert (inner.nodes, inner.callers, inner.calls) == ((), (SMALL_CONV_OP,), 1)
    assert inner.flops == inner.allocated == Unknown(CALLED_WORK)
    assert (inner.input, inner.output, inner.key) == (None, None, (inner.name, SMALL_CONV_OP))


def test_in_another_root_only_what_it_calls_is_a_row() -> None:
    session = apply(folded(MEASURED), WITH_OWN)
    names = {row.name for row in flat_table(session, "operator", FC).rows}
    assert names == {"aten::addmm", "aten::relu_"}
    names = {row.name for row in flat_table(session, "operator", CONV).rows}
    assert names == {"aten::convolution", "aten::_convolution", "aten::mkldnn_convolution"}


def test_allocated_bytes_and_gpu_times_are_of_the_outermost_nodes() -> None:
    session = nested()
    assert session.tree is not None
    at = {path: session.tree.find(path) or 0 for path in SECONDS}
    blocks = [at[path] for path in ("blocks.0", "blocks.0.inner", "blocks.1", "blocks.1.inner")]
    nodes, bytes_ = array("I", blocks).tobytes(), array("Q", [100, 90, 30, 20]).tobytes()
    window = MemoryWindow(1.0, 0, 0, 100, 4, nodes, bytes_, bytes_)
    seconds = array("f", [0.5, 0.25, 0.125, 0.0625]).tobytes()
    totals = array("d", [1.0] * 4).tobytes()
    device = DeviceTimes(1.0, 4, 0, 0, "", nodes, bytes_, totals, seconds, seconds)
    session = apply(apply(session, window), device)

    [block] = [row for row in flat_table(session, "class").rows if row.name == "Block"]
    assert (block.allocated, block.gpu) == (130, pytest.approx(0.625))
    [embed] = [row for row in flat_table(session, "class").rows if row.name == "Table"]
    assert embed.allocated == Unknown("not seen in the window")
    assert embed.gpu == Unknown("not timed on the GPU")
    assert {"allocated", "gpu"} <= {*usual_columns(flat_table(session, "class"))}


def test_what_has_no_figure_has_a_reason_and_no_column_until_it_is_chosen() -> None:
    table = flat_table(apply(folded(MEASURED), WITH_OWN), "operator")
    modules = flat_table(folded(MEASURED), "module")

    assert {row.cpu for row in table.rows} == {Unknown(CPU_OF_CALLS)}
    assert {row.gpu for row in modules.rows} == {Unknown("the model does not run on a GPU")}
    assert "no operator window" in str({row.allocated for row in modules.rows})
    for one in (table, modules):
        assert {"cpu", "gpu", "allocated"} <= {*columns_of(one.by)}
        assert {"cpu", "gpu", "allocated"}.isdisjoint(usual_columns(one))


def test_windows_that_took_far_longer_than_forwards_are_said_to_be_interrupted() -> None:
    # A forward takes 1 ms in the mean.
    for seconds, said in ((0.0014, ""), (0.65, "650.0× a forward's mean: the windows were")):
        session = apply(folded(MEASURED), operator_times({SMALL_CONV_OP: seconds}))
        table = flat_table(session, "operator")
        assert interrupted_words(session, table).startswith(said)
        assert bool(interrupted_words(session, table)) == bool(said)
        assert table.seconds == pytest.approx(seconds)
        assert table.rows[0].share == pytest.approx(1.0)
    assert interrupted_words(session, flat_table(session, "module")) == ""


def test_operators_are_sums_of_means_which_add_up() -> None:
    times = operator_times({SMALL_CONV_OP: 0.0004, SMALL_FC_OP: 0.0002})
    means = array("f", [0.0005, 0.0003]).tobytes()

    session = apply(folded(MEASURED), replace(times, mean_per_forward=means))

    convolution, addmm, *_ = flat_table(session, "operator").rows
    assert (convolution.total, addmm.total) == pytest.approx((0.0005, 0.0003))
    # A column of another length is refused whole.
    session = apply(folded(MEASURED), replace(times, mean_per_forward=means[:4]))
    assert session.operators is None


def test_without_operator_windows_operators_have_a_reason() -> None:
    rows = flat_table(folded(MEASURED), "operator").rows

    assert {row.total for row in rows} == {Unknown(NO_WINDOW)}
    assert rows[0].name == "aten::convolution"  # Most FLOPs.


def test_on_paper_modules_are_in_the_order_of_their_flops() -> None:
    table = flat_table(folded(TRACED), "module")

    assert [row.nodes[0] for row in table.rows] == [CONV, FC, ACT, ROOT]
    assert {type(row.own) for row in table.rows} == {Unknown}
    assert "not measured" in str(table.seconds)


def test_rows_are_ordered_by_any_column() -> None:
    rows = flat_table(folded(MEASURED), "module").rows

    assert [row.nodes[0] for row in in_order(rows, "parameters")][:2] == [FC, CONV]
    assert [row.name for row in in_order(rows, "name")] == ["", "act", "conv", "fc"]
    assert in_order(rows, "total")[0].nodes == (ROOT,)
