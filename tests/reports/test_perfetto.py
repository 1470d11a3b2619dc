"""The Perfetto trace, read by the classes that are made from Perfetto's own schema."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    CounterDescriptor,
    TracePacket,
    TrackEvent,
)

from demo_models.hostile import NAMES
from tests.hostile import TEXTS
from tests.machine_session import FULL, GPU
from tests.reports.reading import read_trace as read
from tests.reports.real_sessions import real_session
from tests.small_model import CONV, DONE, FACTS, FC, MEASURED, NODES, TRACED, folded, operator_times
from tests.training_session import step_parts, trained, training_step
from tui_profiler.formatting.text import printable
from tui_profiler.messages import Nodes, TraceStarted
from tui_profiler.reports.perfetto.packets import message
from tui_profiler.reports.perfetto.trace import perfetto_trace
from tui_profiler.session import EMPTY, Session

BEGIN, END = TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END
COUNTER = TrackEvent.TYPE_COUNTER


def slices(packets: list[TracePacket], thread: str) -> list[tuple[str, int, int, int]]:
    """Return (name, depth, start, stop) of the slices of a thread, in the order they begin."""
    track = next(
        p.track_descriptor.uuid for p in packets if thread in p.track_descriptor.thread.thread_name
    )
    found: list[list] = []
    stack: list[list] = []
    for packet in packets:
        event = packet.track_event
        if event.track_uuid != track or not packet.HasField("track_event"):
            continue
        if event.type == BEGIN:
            stack.append([event.name, len(stack), packet.timestamp, -1])
            found.append(stack[-1])
        elif event.type == END:
            stack.pop()[3] = packet.timestamp
    return [tuple(one) for one in found]


def counters(packets: list[TracePacket]) -> dict[str, list[float]]:
    named = {p.track_descriptor.uuid: p.track_descriptor.name for p in packets}
    found: dict[str, list[float]] = {}
    for packet in packets:
        event = packet.track_event
        if event.type == COUNTER and packet.HasField("track_event"):
            is_double = event.HasField("double_counter_value")
            value = event.double_counter_value if is_double else event.counter_value
            found.setdefault(named[event.track_uuid], []).append(value)
    return found


def trace(session: Session) -> list[TracePacket]:
    return read(perfetto_trace(session, 1))


def test_on_paper_slices_are_the_tree_and_as_long_as_their_flops() -> None:
    session = folded(TRACED)
    assert [
        (name, depth, stop - start) for name, depth, start, stop in slices(trace(session), "FLOP")
    ] == [
        ("net", 0, 18965),  # The operator without a formula is one long, so that it is there.
        ("conv", 1, 13824),
        ("aten::convolution", 2, 13824),
        ("fc", 1, 5130),
        ("aten::addmm", 2, 5130),
        ("act", 1, 10),
        ("aten::relu_", 2, 10),
        ("mine::strange", 1, 1),
    ]


def test_on_paper_it_says_that_its_axis_is_no_time() -> None:
    assert trace(folded(TRACED))[0].track_descriptor.process.process_name == (
        "net.py:build (on paper: 1 ns is 1 FLOP, not time)"
    )


def test_measured_slices_are_as_long_as_the_median_of_a_forward() -> None:
    session = folded((*MEASURED, operator_times({2: 0.0004, 4: 0.0003})))
    found = slices(trace(session), "main thread")
    assert [(name, depth) for name, depth, _, _ in found] == [
        *(("net", 0), ("conv", 1), ("aten::convolution", 2)),
        *(("fc", 1), ("aten::addmm", 2), ("act", 1)),
    ]
    lengths = [stop - start for _, _, start, stop in found]
    # The operator inside fc was timed as longer than fc itself: it is drawn within it.
    assert lengths == pytest.approx([1e6, 5e5, 4e5, 2.5e5, 2.5e5, 1.5e5], abs=2)


def test_a_measured_forward_ends_when_it_was_seen_to_end() -> None:
    found = slices(trace(folded(MEASURED)), "main thread")
    assert max(stop for *_, stop in found) == 5_000_000_000  # ``at`` of the tick.


def test_children_lie_within_their_parents_one_after_the_other() -> None:
    for session in (real_session("demo:cnn"), real_session("demo:decoder"), folded(MEASURED)):
        stack: list[tuple[int, int]] = []
        before: dict[int, int] = {}
        for _, depth, start, stop in slices(trace(session), "one forward"):
            del stack[depth:]
            assert start < stop
            if stack:
                assert stack[-1][0] <= start
                assert stop <= stack[-1][1]
            assert start >= before.get(depth, 0) or not stack
            before[depth] = stop
            stack.append((start, stop))


def test_every_called_node_of_a_real_model_has_its_slice() -> None:
    session = real_session("demo:cnn")
    assert session.tree is not None
    pairs = zip(session.tree.nodes, session.tree.costs, strict=True)
    # An identity is called and runs nothing: there is nothing to draw.
    called = [node.name for node, cost in pairs if node.kind == "op" or cost.ops]
    assert [name for name, *_ in slices(trace(session), "FLOP")] == called


def test_what_is_alive_is_a_counter_along_the_forward() -> None:
    session = real_session("demo:cnn")
    assert session.tree is not None
    assert session.tree.memory is not None
    memory = session.tree.memory
    packets = trace(session)
    assert counters(packets) == {
        "alive in tensors (predicted)": [memory.steps.start_bytes, *memory.live]
    }
    unit = next(p for p in packets if p.track_descriptor.HasField("counter"))
    assert unit.track_descriptor.counter.unit == CounterDescriptor.UNIT_SIZE_BYTES


def test_measured_counters_are_those_that_are_known() -> None:
    found = counters(trace(folded((*MEASURED, replace(FULL, gpus=(GPU,))))))
    assert found["cores busy"][0] == 1.5  # Half of one and all of the other.
    assert found["process: resident"][0] == 2.0**28
    assert found["latency p50"] == [1.0]
    assert "package power" not in counters(trace(folded(MEASURED)))
    assert found["gpu 0: NVIDIA Fake: power"] == [312.5]
    assert found["gpu 0: NVIDIA Fake: utilisation"] == [37.0]


def test_stages_have_the_times_of_the_session() -> None:
    assert slices(trace(folded(MEASURED)), "stages") == [
        ("import torch", 0, 100_000_000, 1_600_000_000)
    ]


STEP_PARTS = step_parts(data=0.25, backward=1.0, other=0.75)
STEP = replace(training_step(STEP_PARTS, 2.0), at=9.0)


def test_a_step_has_its_parts_and_in_the_backward_its_modules() -> None:
    found = slices(trace(trained(STEP, folded(MEASURED))), "training step")

    assert [(name, depth, start / 1e9, stop / 1e9) for name, depth, start, stop in found] == [
        ("step", 0, 7.0, 9.0),
        ("data", 1, 7.0, 7.25),
        ("backward", 1, 7.25, 8.25),
        # The model has 0.5 s, fc 0.25 s of it; fc is run again for 0.125 s.
        ("net", 2, 7.625, 8.25),
        ("fc", 3, 7.875, 8.25),
        ("other", 1, 8.25, 9.0),
    ]


def test_of_two_modules_the_last_called_has_its_backward_first() -> None:
    columns = {
        "nodes": array("I", (0, CONV, FC)).tobytes(),
        "backward": array("f", (0.5, 0.25, 0.125)).tobytes(),
        **dict.fromkeys(
            ("forward", "own_forward", "own_backward", "recomputed", "own_recomputed"), bytes(12)
        ),
    }
    session = trained(replace(STEP, **columns), folded(MEASURED))
    found = slices(trace(session), "training step")

    at = {name: (start / 1e9, stop / 1e9) for name, _, start, stop in found}
    assert (at["fc"], at["conv"]) == ((7.875, 8.0), (8.0, 8.25))
    assert at["net"] == (7.75, 8.25)


def test_modules_that_are_longer_than_the_backward_are_shortened_into_it() -> None:
    parts = step_parts(backward=0.25, other=1.75)
    found = slices(trace(trained(replace(STEP, parts=parts), folded(MEASURED))), "training step")

    at = {name: (start / 1e9, stop / 1e9) for name, _, start, stop in found}
    assert at["backward"] == at["net"] == (7.0, 7.25)
    assert at["fc"] == (7.1, 7.25)


def test_a_slice_of_the_forward_has_its_backward_beside_it() -> None:
    begun = [
        (one.track_event.name, {note.name for note in one.track_event.debug_annotations})
        for one in trace(trained(STEP, folded(MEASURED)))
        if one.track_event.type == BEGIN
    ]
    told = [name for name, notes in begun if {"flops", "backward_seconds"} <= notes]
    assert told == ["net", "fc"]


def test_times_of_a_gpu_are_not_laid_into_the_backward_of_a_thread() -> None:
    found = slices(trace(trained(replace(STEP, on_device=True), folded(MEASURED))), "training step")

    assert [name for name, *_ in found] == ["step", "data", "backward", "other"]


def test_without_a_step_there_is_no_thread_of_it() -> None:
    assert not any(
        "training step" in one.track_descriptor.thread.thread_name
        for one in trace(folded(MEASURED))
    )


def test_several_models_are_one_trace() -> None:
    sessions = (folded(TRACED), real_session("demo:cnn"), folded(MEASURED))
    made = b"".join(perfetto_trace(one, at) for at, one in enumerate(sessions, start=1))
    processes = [
        p.track_descriptor.process for p in read(made) if p.track_descriptor.HasField("process")
    ]
    assert [one.pid for one in processes] == [1, 2, 3]


@pytest.mark.parametrize("name", [*TEXTS, *NAMES.values()])
def test_a_hostile_name_stays_in_its_place(name: str) -> None:
    nodes = tuple(replace(node, name=name, type=name, path=name) for node in NODES[:3])
    tree = folded(TRACED).tree
    assert tree is not None
    facts = replace(FACTS, name=name)
    messages = (facts, TraceStarted(3, "dispatch:fake"), Nodes(nodes, tree.costs[:3]), DONE)
    packets = trace(folded(messages))
    begun = [p.track_event for p in packets if p.track_event.type == BEGIN]
    assert begun[0].name == printable(name)
    assert {one.string_value for one in begun[0].debug_annotations} >= {printable(name)}
    assert len(packets) == len(
        trace(
            folded(
                (FACTS, TraceStarted(3, "dispatch:fake"), Nodes(NODES[:3], tree.costs[:3]), DONE)
            )
        )
    )


def test_parameters_alone_have_no_forward_and_say_so() -> None:
    tree = folded(TRACED).tree
    assert tree is not None
    messages = (FACTS, TraceStarted(3, "parameters"), Nodes(NODES[:3], tree.costs[:3]), DONE)
    events = [p.track_event for p in trace(folded(messages)) if p.HasField("track_event")]
    assert [one.type for one in events] == [TrackEvent.TYPE_INSTANT]


def test_without_a_tree_there_is_no_trace() -> None:
    with pytest.raises(ValueError, match="not traced"):
        perfetto_trace(EMPTY, 1)


def test_numbers_are_written_as_the_format_has_them() -> None:
    packet = TracePacket()
    packet.ParseFromString(message((8, 2**63 + 1), (10, 2**32 - 1)))
    assert (packet.timestamp, packet.trusted_packet_sequence_id) == (2**63 + 1, 2**32 - 1)
    event = TrackEvent()
    event.ParseFromString(message((30, -5), (23, "half \ud800")))
    assert (event.counter_value, event.name) == (-5, "half ?")
