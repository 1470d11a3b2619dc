"""Times of operators in a usual forward: a part of the mean self time of their module."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from tests.queries.sessions import session_of, ticked
from tests.training_session import column, step_parts, trained, training_step
from tui_profiler.messages import OperatorTimes, WindowTimes
from tui_profiler.queries.compare.side import side_of
from tui_profiler.queries.time.base import share
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.queries.time.operator_seconds import operator_seconds
from tui_profiler.queries.time.time_parts import time_parts
from tui_profiler.queries.tree.columns import figure
from tui_profiler.session import Session, apply

MODEL = """
net Net 0 100
  a Linear 10 60
    aten::addmm aten.addmm.default 10 60
    aten::relu aten.relu.default 0 0
  b Linear 10 40
    aten::mm aten.mm.default 10 40
"""
ROOT, A, ADDMM, RELU, B, MM = range(6)
SECONDS = {"": 0.1, "a": 0.06, "b": 0.03}
MEANS = {ADDMM: 0.06, RELU: 0.02, MM: 0.015}
"""In windows: of ``a`` more than its whole 60 ms."""
LAST = {ADDMM: 0.04, RELU: 0.02, MM: 0.01}


def measured() -> Session:
    return ticked(session_of(MODEL), SECONDS)


def windowed(session: Session, *, has_windows: bool = True) -> Session:
    """Return the session after windows, the last of which took twice as long as a forward."""
    times = OperatorTimes(
        at=6.0,
        windows=5,
        forward_seconds=0.2,
        unmatched=0,
        why_none="",
        nodes=array("I", MEANS).tobytes(),
        calls=array("I", [1] * len(MEANS)).tobytes(),
        per_forward=column(0.5, 0.25, 0.125),
        last=column(*LAST.values()),
        mean_per_forward=column(*MEANS.values()),
        own_per_forward=column(*(each / 2 for each in MEANS.values())),
    )
    session = apply(session, times)
    if not has_windows:
        return session
    shares = WindowTimes(
        at=6.0,
        nodes=array("I", (ROOT, A, B)).tobytes(),
        seconds=column(0.2, 0.08, 0.08),
        host=column(0.12, 0.02, 0.06),
        other=column(0.01, 0.0, 0.01),
        regions=(),
    )
    return apply(session, shares)


def test_operators_have_the_part_of_their_module_that_they_had_in_the_last_window() -> None:
    session = windowed(measured())

    # Of a, 60 of 80 ms in the window: three quarters of 60 ms, by their means 3 : 1.
    assert node_seconds(session, ADDMM) == pytest.approx(0.06 * 0.75 * 0.75)
    assert node_seconds(session, RELU) == pytest.approx(0.06 * 0.75 * 0.25)
    assert node_seconds(session, MM) == pytest.approx(0.03 * 10 / 80)
    assert figure(session, ADDMM, "self") == pytest.approx(0.06 * 0.75 * 0.75 / 2)


def test_without_the_times_of_modules_in_windows_they_fill_their_module_at_most() -> None:
    session = windowed(measured(), has_windows=False)

    assert node_seconds(session, ADDMM) == pytest.approx(0.06 * 0.75)
    assert node_seconds(session, RELU) == pytest.approx(0.06 * 0.25)
    assert node_seconds(session, MM) == pytest.approx(0.015)


def test_they_are_parts_of_their_module_on_its_screen_and_in_a_comparison() -> None:
    session = windowed(measured())
    parts = time_parts(session, A)
    assert parts is not None

    named = {part.name: part.seconds for part in parts.parts if part.kind == "operator"}
    assert named == pytest.approx({"aten::addmm": 0.06 * 0.5625, "aten::relu": 0.06 * 0.1875})
    assert sum(part.seconds for part in parts.parts) == pytest.approx(parts.whole)
    side = side_of("a", session)
    assert side.seconds(ADDMM) == pytest.approx(0.06 * 0.5625)


def test_over_a_run_they_are_parts_of_the_mean_of_the_run() -> None:
    """The last ten forwards took far longer: the last tick has twice the mean of the run."""
    session = session_of(MODEL)
    for turn in range(1, 9):
        times = 2.0 if turn == 8 else 1.0
        spent = {path: seconds * times for path, seconds in SECONDS.items()}
        session = ticked(session, spent, at=float(turn), forwards=10 * turn)
    session = windowed(session)
    side = side_of("a", session)

    assert node_seconds(session, A) == pytest.approx(0.12)
    assert side.seconds(A) == pytest.approx(0.06)
    inside = [side.seconds(ADDMM), side.seconds(RELU)]
    assert inside == pytest.approx([0.06 * 0.5625, 0.06 * 0.1875])


def test_in_a_step_they_have_their_part_of_the_forward_of_their_module() -> None:
    step = replace(
        training_step(step_parts(forward=0.2, backward=0.4)),
        nodes=array("I", (ROOT, A, B)).tobytes(),
        forward=column(0.2, 0.16, 0.04),
        own_forward=column(0.0, 0.16, 0.04),
        backward=column(0.4, 0.2, 0.2),
        own_backward=column(0.0, 0.2, 0.2),
        recomputed=column(0.0, 0.0, 0.0),
        own_recomputed=column(0.0, 0.0, 0.0),
    )
    session = trained(step, windowed(measured()))

    assert figure(session, ADDMM, "forward") == pytest.approx(0.16 * 0.5625)
    assert share(session, ADDMM) == pytest.approx(0.16 * 0.5625)
    assert share(session, A) == pytest.approx(0.36)
    assert figure(session, ADDMM, "backward") is None


def test_the_operators_of_a_module_that_is_not_timed_belong_to_the_one_around_it() -> None:
    session = windowed(ticked(session_of(MODEL), {"": 0.1, "b": 0.03}), has_windows=False)
    operators = operator_seconds(session)
    assert operators is not None

    assert operators.module(ADDMM) == ROOT
    assert node_seconds(session, ADDMM) == pytest.approx(0.07 * 0.75)
