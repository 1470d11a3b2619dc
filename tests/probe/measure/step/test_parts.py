from __future__ import annotations

import math

from tui_profiler.probe.measure.step.steps import Span, divide


def test_parts_add_up_and_the_innermost_span_has_the_time() -> None:
    spans = [
        Span("optimizer", 1.0, 9.0),
        Span("forward", 2.0, 3.0),
        Span("backward", 3.0, 7.0),
        Span("communication", 6.0, 7.5),
        Span("data", 10.0, 12.0),
    ]
    found = divide(0.0, 14.0, spans)
    assert found.seconds == {
        "other": 1.0 + 1.0 + 2.0,
        "optimizer": 1.0 + 2.0,
        "forward": 1.0,
        "backward": 3.0,
        "communication": 1.0,
        "data": 2.0,
    }
    assert math.isclose(sum(found.seconds.values()), 14.0)
    assert found.other == [(0.0, 1.0), (9.0, 10.0), (12.0, 14.0)]


def test_a_span_that_began_before_the_step_counts_from_its_beginning() -> None:
    found = divide(5.0, 6.0, [Span("data", 4.0, 5.5)])
    assert found.seconds == {"other": 0.5, "data": 0.5}


def test_a_step_without_spans_is_other() -> None:
    assert divide(1.0, 3.0, []).seconds == {"other": 2.0}
