"""What each column says of a node, and how columns are chosen; figures worked out by hand."""

from __future__ import annotations

from typing import get_type_hints

import pytest
from msgspec.structs import replace

from tests.machine_session import measured
from tests.queries.sessions import cost_of, node_of, resnet, traced
from tests.small_model import CONV, with_cpu_times
from tests.training_session import step_parts, trained, training_step
from tui_profiler.messages import Node, Tensor, Tick
from tui_profiler.queries.panel.provenance import why
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.queries.tree.columns import (
    COLUMN_NAMES,
    COLUMN_WORDS,
    OF_A_STEP,
    ColumnName,
    figure,
    shape_text,
    step_columns,
)
from tui_profiler.queries.tree.focus import SORT_KEYS, SORT_LABELS, sort_keys
from tui_profiler.session import apply


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
        ("cpu", None),
        ("mean", 0.00093),
        ("p95", 0.00093 * 1.22),
        ("in", None),
        ("calls", 1),
        ("share", 0.00093 / 0.0365),
        ("bar", 0.00093 / 0.0365),
        # 236 MFLOP at 400 GFLOP/s are 0.59 ms; 38 KB at 20 GB/s and one operator far less.
        ("bound", 0),
        ("energy", None),
        ("forward", None),
        ("step", None),
    ],
)
def test_a_column_says_its_figure(column: ColumnName, expected: float | None) -> None:
    session = resnet()
    assert session.tree is not None
    node = session.tree.find("conv1")
    assert node is not None
    found = figure(session, node, column)
    assert found == (expected if expected is None else pytest.approx(expected, rel=1e-6))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("forward", 0.125),
        ("backward", 0.25),
        ("recompute", 0.125),
        ("step", 0.25),
    ],
)
def test_a_column_of_the_step_says_its_figure(column: ColumnName, expected: float) -> None:
    told = replace(training_step(step_parts(other=1.0), seconds=2.0), recompute=0.125)
    session = trained(told, resnet())
    assert figure(session, 3, column) == expected
    assert figure(session, 4, column) is None
    nothing = bytes(len(told.backward))
    without = trained(replace(told, why_no_backward="compiled", backward=nothing), resnet())
    assert figure(without, 3, column) == (expected if column == "forward" else None)
    assert step_columns(session) == {*OF_A_STEP} - {"backward_bound"}
    assert step_columns(without) == {"forward", "gradients"}
    assert step_columns(resnet()) == set()


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


def test_cpu_time_of_what_is_not_called_itself_is_that_of_what_is_inside() -> None:
    session = resnet()
    assert session.tree is not None
    assert session.tick is not None
    nodes = memoryview(session.tick.nodes).cast("I")
    layer = session.tree.find("layer1")
    assert layer is not None
    inside = range(layer + 1, session.tree.ends[layer])
    blocks = [node for node in session.tree.children(layer) if node in nodes]
    cpu = dict.fromkeys(blocks, (0.002, 0.0001))
    ticked = apply(session, with_cpu_times(session.tick, {0: (0.03, 0.001), **cpu}))
    assert figure(ticked, 0, "cpu") == pytest.approx(0.03)
    assert figure(ticked, blocks[0], "cpu") == pytest.approx(0.002)
    assert figure(ticked, inside[-1], "cpu") is None
    bare = replace(
        ticked.tick,
        **{  # type: ignore[type-var] # a tick
            name: b"".join(
                getattr(ticked.tick, name)[place * size : (place + 1) * size]
                for place, node in enumerate(nodes)
                if node != layer
            )
            for name, size in _sizes(session.tick)
        },
    )
    unseen = apply(session, bare)
    assert figure(unseen, layer, "cpu") == pytest.approx(0.002 * len(blocks))


def _sizes(tick: Tick) -> list[tuple[str, int]]:
    """Return the columns of a tick, and the bytes of one entry."""
    names = [name for name, kind in get_type_hints(Tick).items() if kind is bytes]
    wide = ("calls", "total", "own")
    return [(name, 8 if name in wide else 4) for name in names]


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


def test_why_speaks_of_energy_only_where_it_is_shown() -> None:
    assert "energy" not in dict(why(measured(), CONV))
    assert (
        dict(why(measured(), CONV, ("energy",)))["energy"] == "estimated by its share of the time"
    )
    assert dict(why(resnet(), 1, ("energy",)))["energy"].startswith("unavailable, no sample")


def test_why_says_of_how_many_steps_the_figures_are() -> None:
    session = trained(replace(training_step(step_parts(other=1.0)), outliers=2), resnet())
    assert dict(why(session, 3))["step"] == (
        "measured, mean of 20 recorded steps, 2 outliers left out"
    )
    assert dict(why(session, 4))["step"] == "unavailable, not called in recorded steps"
    assert "step" not in dict(why(resnet(), 3))
