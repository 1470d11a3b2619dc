"""Memory over one forward: columns, places and blocks; who is alive; predicted and measured."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.fixtures.record import recorded
from tests.fixtures.record_memory import recorded_with_memory
from tests.machine_session import ALLOCATOR
from tests.recording.files import fold
from tests.small_model import (
    ACT,
    ACT_OP,
    CONV,
    CONV_OP,
    DONE,
    FACTS,
    FC,
    FC_OP,
    NODES,
    SAMPLE,
    STRANGE_OP,
    TRACED,
    folded,
)
from tui_profiler.messages import (
    NO_FORWARD,
    Allocator,
    MemorySteps,
    MemoryWindow,
    Message,
    Playback,
    TraceStarted,
    Unknown,
)
from tui_profiler.queries.cost.memory_compared import NO_WINDOW, comparison
from tui_profiler.queries.forward.memory import (
    INPUTS,
    AliveTensor,
    alive_at,
    blocks,
    columns,
    first_step,
    module_at,
    peak_step,
    place,
    recorded_peak,
    shape_of,
    steps_of,
    weight_bytes,
    weight_tensors,
)
from tui_profiler.session import Session, Tree
from tui_profiler.session.columns import Memory


def columns_of(
    live: Sequence[int],
    nodes: Sequence[int],
    whole: Sequence[int] | None = None,
    tensors: Sequence[tuple[int, int, int, int]] = (),
    input_bytes: int = 0,
) -> MemorySteps:
    """Steps; a tensor is (maker, bytes, first, last)."""
    makers, sizes, first, last = zip(*tensors, strict=True) if tensors else ((), (), (), ())
    return MemorySteps(
        calls=len(live),
        each=1,
        input_bytes=input_bytes,
        start_bytes=input_bytes,
        nodes=array("I", nodes).tobytes(),
        ordinals=array("I", range(len(live))).tobytes(),
        live=array("Q", live).tobytes(),
        whole=array("q", live if whole is None else whole).tobytes(),
        makers=array("i", makers).tobytes(),
        sizes=array("Q", sizes).tobytes(),
        first=array("I", first).tobytes(),
        last=array("I", last).tobytes(),
    )


# The convolution needs 512 bytes of scratch; fc's output (40 bytes, 64 with alignment) is changed
# in place by the activation, and what is strange makes another.
SMALL = columns_of(
    live=(1792, 1856, 1856, 832),
    nodes=(CONV_OP, FC_OP, ACT_OP, STRANGE_OP),
    whole=(2304, 1856, 1856, 832),
    tensors=((CONV_OP, 1024, 0, 2), (FC_OP, 64, 1, 2), (STRANGE_OP, 64, 3, 3)),
    input_bytes=768,
)


def session_with(steps: MemorySteps) -> Session:
    return folded((*TRACED[:-1], steps, DONE))


def small() -> tuple[Tree, Memory]:
    session = session_with(SMALL)
    memory = steps_of(session)
    assert isinstance(memory, Memory)
    assert session.tree is not None
    return session.tree, memory


def row(count: int) -> Memory:
    return Memory(columns_of(range(count), [0] * count))


def test_the_peak_is_where_tensors_and_scratch_are_at_their_most():
    assert peak_step(small()[1]) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 107, 108, 109, 1000])
@pytest.mark.parametrize("cells", [1, 2, 9, 50, 108])
def test_every_step_is_in_a_column_that_keeps_its_most(count: int, cells: int):
    memory = row(count)
    drawn = columns(memory, cells)
    assert len(drawn) == cells
    assert max(column.live for column in drawn) == count - 1
    before = 0
    for step in range(count):
        first, last = place(memory, step, cells)
        assert before <= first <= last < cells
        # A step's own columns hold it, and its neighbours where they are merged.
        assert all(step <= drawn[at].live <= step + count // cells for at in range(first, last + 1))
        before = first
    assert place(memory, 0, cells)[0] == 0
    assert place(memory, count - 1, cells)[1] == cells - 1


def test_a_node_begins_at_its_first_step_and_a_step_belongs_to_a_module():
    tree, memory = small()
    assert [first_step(tree, memory, node) for node in (0, CONV, FC, FC_OP, ACT)] == [0, 0, 1, 1, 2]
    assert [module_at(tree, memory, step) for step in range(4)] == [CONV, FC, ACT, 0]


def test_a_module_without_an_operator_has_no_step():
    tree, _ = small()
    memory = Memory(columns_of((1, 2), (CONV_OP, CONV_OP)))
    assert first_step(tree, memory, FC) is None


def test_blocks_begin_where_their_first_operator_runs():
    tree, memory = small()
    assert [(b.name, b.first, b.steps) for b in blocks(tree, memory)] == [
        ("conv", 0, 1),
        ("fc", 1, 1),
        ("act", 2, 1),
    ]


def test_resnet_is_divided_by_its_stages():
    session = fold(recorded_with_memory())
    memory = steps_of(session)
    assert isinstance(memory, Memory)
    assert session.tree is not None
    names = [block.name for block in blocks(session.tree, memory)]
    assert names[:5] == ["conv1", "bn1", "relu", "maxpool", "layer1"]
    assert names[-1] == "fc"


def test_who_is_alive_adds_up_at_every_step():
    _, memory = small()
    for step, live in enumerate(memory.live):
        found = alive_at(memory, step, 1)
        assert sum(one.bytes for one in found.tensors) + found.others_bytes == live == found.live
    found = alive_at(memory, 1, 2)
    assert found.tensors == (AliveTensor(CONV_OP, 1024), AliveTensor(INPUTS, 768))
    assert (found.others, found.others_bytes, found.workspace) == (1, 64, 0)
    assert alive_at(memory, 0, 9).workspace == 512


def test_of_a_real_model_who_is_alive_adds_up_too():
    session = fold(recorded_with_memory())
    memory = steps_of(session)
    assert isinstance(memory, Memory)
    for step, live in enumerate(memory.live):
        found = alive_at(memory, step, 10_000)
        assert (sum(one.bytes for one in found.tensors), found.others_bytes) == (live, 0)


def test_a_tensor_is_told_with_its_shape_only_where_that_is_certain():
    tree, _ = small()
    found = shape_of(tree, AliveTensor(CONV_OP, 1024))
    assert found is not None
    assert found.shape == (1, 4, 8, 8)
    aligned = shape_of(tree, AliveTensor(FC_OP, 64))  # 40 bytes
    assert aligned is not None
    assert aligned.shape == (1, 10)
    assert shape_of(tree, AliveTensor(FC_OP, 4096)) is None
    given = shape_of(tree, AliveTensor(INPUTS, 768))
    assert given is not None
    assert given.name == "x"


def test_weights_are_counted_once():
    tree, _ = small()
    assert (weight_bytes(tree), weight_tensors(tree)) == (10712, 3)


def test_an_older_recording_says_why_there_are_no_steps_and_keeps_the_peak():
    messages: list[Message] = [*recorded(), Playback(0.0, True, 0.0, 1.0, 0.0, "host", True)]
    session = fold(messages)
    assert steps_of(session) == Unknown("this recording is older than this figure")
    assert session.tree is not None
    found = recorded_peak(session.tree, 3)
    assert found is not None
    assert sum(one.bytes for one in found.tensors) + found.others_bytes == found.live


def test_what_has_no_forward_or_no_operators_says_so():
    started = TraceStarted(len(NODES), "parameters")
    messages = [started if isinstance(m, TraceStarted) else m for m in TRACED]
    assert steps_of(folded(tuple(messages))) == Unknown(NO_FORWARD)
    nothing = steps_of(session_with(columns_of((), ())))
    assert nothing == Unknown("no operator of this forward was seen")
    assert isinstance(steps_of(folded(())), Unknown)


def test_on_the_processor_nothing_is_measured_but_the_process():
    cpu = Allocator("cpu", *[Unknown("torch does not count it")] * 7)
    sample = replace(SAMPLE, allocators=(cpu,), process_peak_bytes=2.0**30)
    found = comparison(folded((*TRACED, sample)))
    assert found is not None
    assert [(p.label, p.predicted) for p in (*found.parts, found.peak)] == [
        ("weights", 10712.0),
        ("activations", 2048.0),
        ("workspace", 512.0),
        ("peak", 13272.0),
    ]
    assert found.peak.measured == NO_WINDOW
    assert found.process.measured == 2.0**30
    assert (found.off_by, found.reserved) == (None, None)


def test_a_window_with_memory_events_fills_the_measured_column() -> None:
    one, two = array("I", [0]).tobytes(), array("Q", [4000]).tobytes()
    window = MemoryWindow(1.0, 10_000, 512, 4000, 7, one, two, two)
    found = comparison(folded((*TRACED, window)))
    assert found is not None
    assert found.peak.measured == 14_512
    assert found.off_by == pytest.approx(13_272 / 14_512 - 1)
    assert found.parts[0].measured == 10_000
    assert isinstance(found.parts[1].measured, Unknown)
    assert folded((*TRACED, window, replace(window, peak=b""))).memory_window is not None
    session = folded((*TRACED, window))
    assert session.memory_window is not None
    assert (session.memory_window.allocated(0), session.memory_window.peak(1)) == (4000, None)


def test_on_a_gpu_the_allocators_most_stands_beside_the_peak():
    allocator = replace(ALLOCATOR, peak_allocated_bytes=10618.0)
    sample = replace(SAMPLE, allocators=(allocator,))
    session = folded((*TRACED, replace(FACTS, device="cuda:0"), sample))
    found = comparison(session)
    assert found is not None
    assert (found.peak.predicted, found.peak.measured) == (13272.0, 10618.0)
    assert found.off_by == pytest.approx(0.25, abs=0.001)
    assert found.reserved is not None
    assert found.reserved.measured == 1200.0
    assert isinstance(found.parts[0].measured, Unknown)


def test_where_scratch_is_not_predicted_the_peak_is_at_least_the_rest():
    peak = replace(DONE.peak_memory, workspace=Unknown("modelled for the CPU only"))
    found = comparison(folded((*TRACED[:-1], replace(DONE, peak_memory=peak))))
    assert found is not None
    assert (found.peak.predicted, found.is_least) == (12760.0, True)


def test_without_a_sample_nothing_is_measured_yet():
    found = comparison(folded(TRACED))
    assert found is not None
    assert isinstance(found.peak.measured, Unknown)
    assert isinstance(found.process.measured, Unknown)
