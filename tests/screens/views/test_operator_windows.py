"""What a panel says of an operator window: host time, what is inside of an opaque module."""

from __future__ import annotations

from array import array

from screens.views.inspector.pane import window_lines
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look
from tests.screens.panel_session import CONV2, CONV_OP, live
from tui_profiler.messages import DeviceTimes, Region, RegionPart, WindowTimes
from tui_profiler.session import Session, apply

CALLS = [0.9e-3] * 34


def floats(*values: float) -> bytes:
    return array("f", values).tobytes()


def times(*regions: Region) -> WindowTimes:
    nodes = array("I", [0, CONV2]).tobytes()
    return WindowTimes(
        6.0, nodes, floats(4e-3, 1e-3), floats(0.4e-3, 0.25e-3), floats(0.2e-3, 0.01e-3), regions
    )


def shown(session: Session, node: int, cells: int = 48) -> list[str]:
    lines = window_lines(Look(session, node, 39.0, cells))
    assert {line_width(line) for line in lines} <= {cells}
    return [text(line) for line in lines]


def test_the_share_of_host_time_is_shown() -> None:
    assert shown(apply(live(CALLS), times()), CONV2) == [
        " time ──────────────────── last operator window ",
        " host     25 %   other 1.0 %         of 1.00 ms ",
    ]


def test_an_opaque_module_says_what_it_ran_inside() -> None:
    parts = [RegionPart(f"aten::op{index}", 2, 1e-3) for index in range(7)]
    region = Region(CONV2, "compiled", (RegionPart("evil\x1b[31m", 1, 2e-3), *parts))
    lines = shown(apply(live(CALLS), times(region)), CONV2)
    assert len(lines) == 2 + 5 + 1
    assert "\x1b" not in "".join(lines)
    assert lines[3].split() == ["aten::op0", "2", "×", "1.00", "ms"]
    assert lines[-1].strip() == "3 more"


def test_the_time_on_a_gpu_stands_beside() -> None:
    nodes, wide = array("I", [CONV2]).tobytes(), b"\0" * 8
    message = DeviceTimes(1.0, 3, 0, 0, "", nodes, wide, wide, floats(2e-3), floats(2e-3))
    lines = shown(apply(live(CALLS), message), CONV2)
    assert lines[1].split()[:4] == ["on", "GPU", "2.00", "ms"]


def test_nothing_is_said_of_what_no_window_saw() -> None:
    assert shown(live(CALLS), CONV2) == []
    assert shown(apply(live(CALLS), times()), CONV_OP) == []


def test_columns_that_do_not_agree_change_nothing() -> None:
    session = live(CALLS)
    short = WindowTimes(6.0, b"\1\0\0\0", b"", b"", b"")
    odd = DeviceTimes(1.0, 3, 0, 0, "", b"\1\0\0\0", b"\0", b"\0", b"\0", b"\0")
    assert apply(session, short).windows is None
    assert apply(session, odd).device is None
