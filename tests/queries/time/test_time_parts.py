"""The parts of a node's time: named, from what was measured, and together its mean."""

from __future__ import annotations

import math
from array import array

import pytest
from msgspec.structs import replace

from tests.queries.sessions import cost_of, medians_alone, node_of, ticked, traced
from tests.small_model import operator_times
from tui_profiler.messages import Node, Region, RegionPart, ThreadTime, WindowTimes
from tui_profiler.queries.time.time_parts import HOST, OTHER, REST, UNDIVIDED, WAITING, time_parts
from tui_profiler.session import Session, apply

# 0 m (1 list (2 a), 3 b, 4 add, 5 mul, 6 add)
SECONDS = {"": 10e-3, "list.a": 3e-3, "b": 4e-3}


def session_of(*, opaque: bool = False) -> Session:
    nodes: list[Node] = []
    nodes.append(replace(node_of(-1, "m", "M", nodes), path="", is_opaque=opaque))
    nodes.append(replace(node_of(0, "list", "ModuleList", nodes), calls=0))
    nodes.append(replace(node_of(1, "a", "A", nodes), path="list.a"))
    nodes.append(node_of(0, "b", "B", nodes))
    for at, name in enumerate(("aten::add", "aten::mul", "aten::add")):
        nodes.append(replace(node_of(0, name, name, nodes), kind="op", path=f"/{at}"))
    session = ticked(traced(nodes, [cost_of(0, 1) for _ in nodes]), SECONDS)
    assert session.tick is not None
    # The helper takes off children only: the list is never called, what it holds is.
    return apply(session, replace(session.tick, own_mean_per_forward=floats(3e-3, 3e-3, 4e-3)))


def floats(*values: float) -> bytes:
    return array("f", values).tobytes()


def windowed(session: Session, *regions: Region) -> Session:
    """Open a window twice as slow: 6 ms are the root's own, of which 1.5 host and 0.5 other."""
    session = apply(session, operator_times({4: 1e-3, 5: 2e-3, 6: 1e-3}))
    times = WindowTimes(
        at=6.0,
        nodes=array("I", [0, 2, 3]).tobytes(),
        seconds=floats(20e-3, 6e-3, 8e-3),
        host=floats(4.5e-3, 1e-3, 2e-3),
        other=floats(2.5e-3, 1e-3, 1e-3),
        regions=regions,
    )
    return apply(session, times)


def told(session: Session, node: int = 0) -> dict[tuple[str, str], float]:
    found = time_parts(session, node)
    assert found is not None
    assert math.fsum(part.seconds for part in found.parts) == pytest.approx(found.whole, rel=1e-6)
    return {(part.kind, part.name): part.seconds for part in found.parts}


def test_before_a_window_self_time_is_one_part_with_a_name() -> None:
    assert told(session_of()) == {
        ("module", "b"): pytest.approx(4e-3),
        ("module", "list"): pytest.approx(3e-3),
        ("self", UNDIVIDED): pytest.approx(3e-3),
    }


def test_self_time_is_divided_as_the_window_was() -> None:
    # Of the window's own 6 ms: 2 add, 2 mul, 1.5 host, 0.5 other; of a forward's own 3 ms half.
    found = time_parts(windowed(session_of()), 0)
    assert found is not None
    assert found.is_divided
    assert told(windowed(session_of())) == {
        ("module", "b"): pytest.approx(4e-3),
        ("module", "list"): pytest.approx(3e-3),
        ("operator", "aten::add"): pytest.approx(1e-3, rel=1e-5),
        ("operator", "aten::mul"): pytest.approx(1e-3, rel=1e-5),
        ("host", HOST): pytest.approx(0.75e-3, rel=1e-5),
        ("other", OTHER): pytest.approx(0.25e-3, rel=1e-5),
    }


def test_an_opaque_module_has_the_operators_that_it_called() -> None:
    parts = (RegionPart("aten::addmm", 2, 4e-3), RegionPart("compiled code", 1, 1e-3))
    found = told(windowed(session_of(opaque=True), Region(0, "compiled", parts)))
    names = {name for kind, name in found if kind == "operator"}
    assert names == {"aten::addmm", "compiled code"}


def test_a_container_that_is_never_called_is_what_it_holds() -> None:
    assert told(session_of(), 1) == {("module", "a"): pytest.approx(3e-3)}


def test_an_operator_and_a_node_without_times_have_no_parts() -> None:
    assert time_parts(windowed(session_of()), 4) is None
    nodes: list[Node] = []
    nodes += [node_of(-1, "m", "M", nodes)]
    assert time_parts(traced(nodes, [cost_of(0, 1)]), 0) is None


def test_waiting_for_a_core_is_a_part_of_the_self_time() -> None:
    session = windowed(session_of())
    assert session.tick is not None
    # A fifth of the forward: of the self time of 3 ms 0.6.
    thread = ThreadTime(10e-3, 8e-3, 2e-3, 0.0, 0.0, 0.0, 0.0)
    found = told(apply(session, replace(session.tick, thread=thread)))
    assert found["waiting", WAITING] == pytest.approx(0.6e-3, rel=1e-5)
    assert found["host", HOST] == pytest.approx(0.25 * 2.4e-3, rel=1e-5)


def test_medians_of_older_recordings_leave_a_rest_that_says_so() -> None:
    session = session_of()
    assert session.tick is not None
    tick = medians_alone(session.tick, own=floats(1e-3, 3e-3, 4e-3))
    assert told(apply(session, tick))["rest", REST] == pytest.approx(2e-3, rel=1e-5)
