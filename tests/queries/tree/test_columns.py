"""What each column says of a node, and how columns are chosen; figures worked out by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.machine_session import measured
from tests.queries.sessions import cost_of, node_of, resnet, traced
from tests.small_model import CONV
from tui_profiler.messages import Node, Tensor
from tui_profiler.queries.panel.provenance import why
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.queries.tree.columns import (
    COLUMN_NAMES,
    COLUMN_WORDS,
    ColumnChoice,
    ColumnName,
    figure,
    shape_text,
)
from tui_profiler.queries.tree.focus import SORT_KEYS, SORT_LABELS, sort_keys


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("params", 9408),
        ("macs", 118e6),
        ("flops", 236e6),
        ("bytes", 4 * 9408),
        ("intensity", 236e6 / (4 * 9408)),
        ("activations", 0),
        ("seconds", 0.00093),
        ("self", 0.00093),
        ("mean", 0.00093),
        ("p95", 0.00093 * 1.22),
        ("in", None),
        ("calls", 1),
        ("share", 0.00093 / 0.0365),
        ("bar", 0.00093 / 0.0365),
        # 236 MFLOP at 400 GFLOP/s are 0.59 ms; 38 KB at 20 GB/s and one operator far less.
        ("bound", 0),
        ("energy", None),
    ],
)
def test_a_column_says_its_figure(column: ColumnName, expected: float | None) -> None:
    session = resnet()
    assert session.tree is not None
    node = session.tree.find("conv1")
    assert node is not None
    found = figure(session, node, column)
    assert found == (expected if expected is None else pytest.approx(expected, rel=1e-6))


def test_a_shape_is_of_the_first_tensor_and_says_how_many_more() -> None:
    nodes: list[Node] = []
    node = replace(
        node_of(-1, "m", "M", nodes),
        inputs=(Tensor((8, 10), "float32", 320), Tensor((3,), "int64", 24)),
        outputs=(Tensor((), "float32", 4),),
    )
    session = traced([node], [cost_of(0, 0)])
    assert (shape_text(node, "in"), shape_text(node, "out")) == ("8×10 +1", "scalar")
    assert (figure(session, 0, "in"), figure(session, 0, "out")) == (80, 1)
    nothing = replace(node, inputs=(), outputs=())
    assert shape_text(nothing, "in") == ""
    assert figure(traced([nothing], [cost_of(0, 0)]), 0, "in") is None


def test_own_time_is_without_modules_inside() -> None:
    session = resnet()
    assert session.tree is not None
    node = session.tree.find("layer1.0")
    assert node is not None
    assert figure(session, node, "self") == pytest.approx(0.0032 - 0.003, rel=1e-4)


def test_before_the_first_times_only_paper_speaks() -> None:
    session = resnet(measured=False)
    figures = Figures()
    figures.update(session)
    said = {name: figures.value(1, name) for name in ("self", "mean", "calls", "energy", "flops")}  # type: ignore[arg-type] # columns
    assert said == {
        "self": "pending",
        "mean": "pending",
        "calls": 1,
        "energy": "unavailable",
        "flops": 236e6,
    }


def test_energy_is_a_share_of_the_forward_s_and_marked_as_an_estimate() -> None:
    session = measured()
    figures = Figures()
    figures.update(session)
    # A forward is 100 mJ, and as estimate a node takes its share of the time.
    share = figure(session, CONV, "share")
    assert share is not None
    assert figure(session, CONV, "energy") == pytest.approx(0.1 * share)
    assert figures.is_estimate(CONV, "energy")
    assert not figures.is_estimate(CONV, "flops")


def test_every_column_has_words_and_an_order() -> None:
    assert set(COLUMN_WORDS) == set(COLUMN_NAMES)
    assert set(SORT_LABELS) == set(SORT_KEYS)


def test_the_sort_goes_through_the_columns_that_are_shown() -> None:
    assert sort_keys(("self", "bar", "params")) == ("order", "self", "params", "name")


def test_a_column_is_shown_hidden_and_carried() -> None:
    choice = ColumnChoice.of(("macs", "bar"))
    assert choice.order[:3] == ("macs", "bar", "params")
    choice = choice.moved(2).toggled()
    assert choice.columns == ("macs", "bar", "params")
    choice = choice.carried(-2)
    assert (choice.columns, choice.cursor) == (("params", "macs", "bar"), 0)
    assert choice.carried(-1).columns == choice.columns
    choice = choice.toggled()
    assert choice.columns == ("macs", "bar")


def test_one_column_always_stays() -> None:
    choice = ColumnChoice.of(("macs",))
    assert choice.toggled().columns == ("macs",)


def test_the_cursor_stays_among_the_columns() -> None:
    choice = ColumnChoice.of(("macs",))
    assert choice.moved(-5).cursor == 0
    assert choice.moved(99).cursor == len(COLUMN_NAMES) - 1


def test_every_column_is_there_once() -> None:
    order = ColumnChoice.of(("energy", "params")).order
    assert sorted(order) == sorted(COLUMN_NAMES)


def test_why_speaks_of_energy_only_where_it_is_shown() -> None:
    assert "energy" not in why(measured(), CONV)
    assert why(measured(), CONV, ("energy",)).startswith("energy: estimated by its share")
    assert why(resnet(), 1, ("energy",)).startswith("energy: unavailable, no sample")
