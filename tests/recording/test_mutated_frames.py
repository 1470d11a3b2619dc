"""A sample of ``benchmarks/hostile/mutated_frames.py``: damage is refused or read as a message."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from benchmarks.hostile.mutated_frames import FIXTURE, hostile_sessions, outcomes
from tui_profiler.connection.wire import WireError, encode, message_decoder
from tui_profiler.messages import Heartbeat, Nodes, TraceStarted
from tui_profiler.session import EMPTY, apply
from tui_profiler.session.apply import MAX_NODES


def test_damaged_frames_are_survived_by_both_ends() -> None:
    told = outcomes(2_000, seed=3)
    assert sum(told.values()) == 2_000
    assert told["by the viewer, refused"] > 100
    assert told["by the program, refused"] > 100


def test_hostile_values_are_refused_or_reported() -> None:
    told = hostile_sessions(60, seed=5)
    assert told["frames refused"] > 50
    assert told["sessions reported"] > 20


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf, 1e300])
def test_a_time_that_is_no_time_is_refused(at: float) -> None:
    # Seconds are rounded and drawn: the viewer would end with an OverflowError.
    beat = encode(Heartbeat(at, 0.0))
    with pytest.raises(WireError, match="float"):
        list(message_decoder().feed(beat))


def test_a_tree_without_end_is_given_up() -> None:
    tree = next(
        message
        for message in message_decoder().feed(FIXTURE.read_bytes())
        if isinstance(message, Nodes)
    )
    many = replace(tree, nodes=tree.nodes * (MAX_NODES // len(tree.nodes) // 2))
    session = apply(EMPTY, TraceStarted("dispatch:fake", 1))
    for _ in range(3):
        session = apply(session, many)
    assert session.arriving is None
    assert session.failure is not None
    assert session.failure.what == "the trace has more than 1,000,000 nodes"
