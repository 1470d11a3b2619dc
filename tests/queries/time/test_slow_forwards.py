"""Slow forwards: which are kept, what is said of them, and pauses whose cause is known."""

from __future__ import annotations

from array import array

import pytest
import torch
from msgspec.structs import replace

from benchmarks.slow_forwards import NAMED, measured
from tests.queries.sessions import resnet
from tui_profiler.messages import SlowForward, ThreadTime, Unknown
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.queries.time.slow_forwards import as_session, causes, slow_words
from tui_profiler.session import Session, apply

USUAL = ThreadTime(0.04, 0.03, 0.002, 2.0, 0.0, 0.1, 1.0, 0.001, 0.0)


def with_usual(usual: ThreadTime | None = USUAL) -> Session:
    session = resnet()
    assert session.tick is not None
    return apply(session, replace(session.tick, thread=usual))


def slow(used: ThreadTime | None, seconds: float = 0.14, number: int = 7) -> SlowForward:
    """A forward of 0.14 s whose root took 0.1 s itself and whose node 1 took 0.04."""
    return SlowForward(
        2.0,
        number,
        seconds,
        used,
        array("I", [0, 1]).tobytes(),
        array("f", [seconds, 0.04]).tobytes(),
        array("f", [seconds - 0.04, 0.04]).tobytes(),
    )


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        # 0.1 s longer; of it waiting 0.09.
        (ThreadTime(0.14, 0.04, 0.092, 2.0, 0.0, 0.0, 9.0, 0.001, 0.0), ["waiting", "on a core"]),
        (ThreadTime(0.14, 0.03, 0.002, 2.0, 0.0, 5.0, 1.0, 0.001, 0.0), ["blocked"]),
        (ThreadTime(0.14, 0.03, 0.002, 2.0, 40.0, 5.0, 1.0, 0.001, 0.0), ["disk"]),
        (ThreadTime(0.14, 0.13, 0.002, 2.0, 0.0, 0.0, 1.0, 0.096, 0.0), ["collector"]),
        (ThreadTime(0.14, 0.13, 0.002, 2.0, 0.0, 0.0, 1.0, 0.001, 2.0), ["compile"]),
        (ThreadTime(0.14, 0.13, 0.002, 2e4, 0.0, 0.0, 1.0, 0.001, 0.0), ["page faults"]),
        # 150 page faults do not take 0.1 s.
        (ThreadTime(0.14, 0.13, 0.002, 150.0, 0.0, 0.0, 1.0, 0.001, 0.0), ["on a core"]),
        (ThreadTime(0.14, 0.13, Unknown("no"), 2.0, 0.0, 0.0, 1.0, 0.001, 0.0), ["on a core"]),
        (None, []),
    ],
)
def test_the_cause_is_what_there_was_more_of(used: ThreadTime | None, expected: list[str]) -> None:
    session, one = with_usual(), slow(used)
    assert [cause.name for cause in causes(session, one)] == expected
    if not expected:
        assert slow_words(session, one).endswith("cause unknown")


def test_the_seconds_of_causes_are_what_was_longer() -> None:
    used = ThreadTime(0.14, 0.06, 0.072, 2.0, 0.0, 0.0, 1.0, 0.001, 0.0)
    found = causes(with_usual(), slow(used))
    assert [(one.name, pytest.approx(one.seconds)) for one in found] == [
        ("waiting", 0.07),
        ("on a core", 0.03),
    ]
    said = slow_words(with_usual(), slow(used))
    assert said.startswith("140 ms, 3.8× the mean: waiting for a core 70.0 ms")


def test_without_usual_figures_no_cause_is_named() -> None:
    used = ThreadTime(0.14, 0.06, 0.072, 2.0, 0.0, 0.0, 1.0, 0.001, 0.0)
    assert causes(with_usual(None), slow(used)) == ()


def test_a_slow_forward_has_its_own_times_by_node() -> None:
    session = as_session(with_usual(), slow(None))
    assert node_seconds(session, 0) == pytest.approx(0.14)
    assert node_seconds(session, 1) == pytest.approx(0.04)
    assert session.timings is not None
    assert session.timings.own_per_forward(0) == pytest.approx(0.1)
    assert session.operators is None


def test_the_slowest_and_the_last_eight_are_kept() -> None:
    session = with_usual()
    seconds = [0.2, 0.9, *[0.3] * 10]
    for number, each in enumerate(seconds, 1):
        session = apply(session, slow(None, each, number))
    slowest, *last = session.slow
    assert (slowest.forward, slowest.seconds) == (2, 0.9)
    assert [one.forward for one in last] == [12, 11, 10, 9, 8, 7, 6, 5]
    broken = replace(slow(None, 5.0), whole=b"\0")
    assert apply(session, broken).slow == session.slow


@pytest.mark.parametrize("cause", ["sleep", "faults", "collect"])
def test_a_pause_in_every_fiftieth_forward_is_named(cause: str) -> None:
    """A sample of ``benchmarks/slow_forwards.py``: on a busy machine they wait as well."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(3):
            session = measured(cause, 300)
            found = {one.name for slowest in session.slow for one in causes(session, slowest)}
            if NAMED[cause] in found:
                break
        else:
            pytest.fail(f"{[slow_words(session, one) for one in session.slow]}")
    finally:
        torch.set_num_threads(threads)
    # It adds up, as every forward does.
    one = session.slow[0]
    whole, own = memoryview(one.whole).cast("f"), memoryview(one.own).cast("f")
    assert sum(own) == pytest.approx(whole[list(memoryview(one.nodes).cast("I")).index(0)])
