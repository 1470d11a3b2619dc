"""Times of a model on a GPU: its kernels', not those of the thread that enqueues them."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tests.small_model import (
    ACT,
    CONV,
    CONV_OP,
    FACTS,
    FC,
    MEASURED,
    ROOT,
    TICK,
    WITH_OWN,
    device_times,
    folded,
    operator_times,
    with_cpu_times,
)
from tui_profiler.findings.evidence.time_share import BUSY_GPU, NOT_ASKED, host
from tui_profiler.messages import Message, SlowForward, ThreadTime, WindowTimes
from tui_profiler.queries.cost.bound import bound
from tui_profiler.queries.cost.flat import flat_table
from tui_profiler.queries.panel.provenance import operator_time_words
from tui_profiler.queries.time.base import share
from tui_profiler.queries.time.gpu_times import gpu_words, host_seconds, why_not_timed_on_gpu
from tui_profiler.queries.time.node_seconds import ENQUEUED, node_seconds, root_seconds
from tui_profiler.queries.time.slow_forwards import usual_seconds
from tui_profiler.queries.time.time_parts import ON_GPU as SELF_ON_GPU
from tui_profiler.queries.time.time_parts import time_parts
from tui_profiler.reports.json.report import json_report
from tui_profiler.session import Session, apply

ON_GPU = replace(FACTS, device="cuda:0")
SECONDS = {ROOT: (0.004, 0.0002), CONV: (0.003, 0.003), FC: (0.0005, 0.0005), ACT: (0.0003, 0.0003)}
"""Other than the host's, in another order of length."""
BEHIND = device_times(SECONDS)
CAUGHT_UP = device_times(SECONDS, caught_up=49)


def on_gpu(*said: Message) -> Session:
    return folded((*MEASURED, ON_GPU, *said))


def test_times_of_modules_are_those_of_the_gpu() -> None:
    session = on_gpu(BEHIND)

    assert session.is_timed_on_gpu
    assert root_seconds(session) == pytest.approx(0.004)
    assert node_seconds(session, CONV) == pytest.approx(0.003)
    assert share(session, FC) == pytest.approx(0.125)
    assert host_seconds(session) == pytest.approx(0.001)
    assert session.tick is not None
    assert session.tick.latency_p50 == pytest.approx(0.004)
    assert (session.tick.forwards, session.tick.mean_forwards) == (50, 50)


def test_latencies_of_the_host_are_not_kept_among_those_of_the_gpu() -> None:
    host = on_gpu(*(replace(TICK, at=float(at), forwards=100 + at) for at in range(10, 20)))
    assert len(host.history.latencies) > 9
    gpu = apply(host, BEHIND)
    assert [one.p50 for one in gpu.history.latencies] == [pytest.approx(0.004)]
    later = apply(
        apply(gpu, replace(TICK, at=30.0, forwards=200)),
        device_times(SECONDS, at=30.0, forwards=90),
    )
    assert {one.p50 for one in later.history.latencies} == {gpu.history.latencies[0].p50}
    assert len(later.history.latencies) == 2


def test_a_tick_of_the_host_changes_nothing_until_the_gpu_has_said_more() -> None:
    later = on_gpu(BEHIND, replace(TICK, at=6.0, forwards=200))
    assert root_seconds(later) == pytest.approx(0.004)
    assert len(later.history.ticks) == 1
    slower = {node: (2 * whole, 2 * own) for node, (whole, own) in SECONDS.items()}

    newest = apply(later, device_times(slower, at=6.0, forwards=90))

    assert root_seconds(newest) == pytest.approx(0.008)
    assert [one.tick.forwards for one in newest.history.ticks] == [50, 90]


def test_without_times_that_add_up_those_of_the_host_stay() -> None:
    old = replace(BEHIND, mean_forwards=0, mean_per_forward=b"", own=b"", last=b"", p50=b"")
    old = replace(old, p95=b"", maximum=b"", own_mean_per_forward=b"")
    failed = replace(BEHIND, why_none="CUDA error: lost")

    for session in (on_gpu(old), on_gpu(failed), on_gpu(BEHIND, failed)):
        assert not session.is_timed_on_gpu
        assert root_seconds(session) == pytest.approx(0.001)
    assert why_not_timed_on_gpu(on_gpu(failed)) == "CUDA error: lost"
    assert why_not_timed_on_gpu(folded(MEASURED)) == ""


def test_operators_are_timed_on_the_host_alone() -> None:
    session = on_gpu(operator_times({CONV_OP: 0.0004}), WITH_OWN, BEHIND)

    assert node_seconds(session, CONV_OP) is None
    assert operator_time_words(session, CONV_OP) == f"unavailable: {ENQUEUED}"
    rows = {row.name: row.own for row in flat_table(session, "operator").rows}
    of_host = {
        row.name: row.own for row in flat_table(folded((*MEASURED, WITH_OWN)), "operator").rows
    }
    assert rows == of_host
    [conv] = [row for row in flat_table(session, "module").rows if row.nodes == (CONV,)]
    assert conv.own == pytest.approx(0.003)


def test_the_time_of_a_module_on_a_gpu_is_not_divided() -> None:
    half = b"\0\0\0\x3f" * 4
    window = WindowTimes(5.0, TICK.nodes, b"\0\0\x80\x3f" * 4, half, half)
    found = time_parts(on_gpu(WITH_OWN, window, BEHIND), CONV)

    assert found is not None
    assert [(part.name, part.seconds) for part in found.parts] == [
        (SELF_ON_GPU, pytest.approx(0.003))
    ]


def test_a_gpu_with_work_queued_has_no_overhead_and_one_that_waits_nothing_else() -> None:
    """The fully connected layer moves 11 kB at 1 GB/s: 11 µs of 500; an operator takes 10 µs."""
    behind, caught_up = on_gpu(BEHIND), on_gpu(CAUGHT_UP)

    assert (found := bound(behind, ACT)) is not None
    assert found.kind == "unexplained"
    assert (found := bound(caught_up, ACT)) is not None
    assert found.kind == "overhead"
    assert found.reason.startswith("the GPU waits for the host")
    short = {**SECONDS, ACT: (40e-6, 40e-6)}
    assert (found := bound(on_gpu(device_times(short)), ACT)) is not None
    assert found.kind == "unexplained"  # On the host it would be overhead: 10 of 40 µs.
    assert (found := bound(folded(MEASURED), ACT)) is not None


def test_it_is_said_where_the_gpu_waits_for_the_host() -> None:
    assert gpu_words(on_gpu(CAUGHT_UP)) == (
        "timed with CUDA events; the host takes 1.00 ms to enqueue a forward",
        "waits for the host: caught up at the end of 98 % of 50 forwards",
    )
    assert gpu_words(on_gpu(BEHIND))[1].startswith("does not wait for the host: work still")
    assert gpu_words(folded(MEASURED)) == ()


def test_of_few_forwards_nothing_is_concluded() -> None:
    session = on_gpu(replace(BEHIND, asked=7, caught_up=0))

    assert gpu_words(session)[1] == "whether it waits for the host is not known: 7 forwards"
    assert host(session) == NOT_ASKED
    short = {**SECONDS, ACT: (40e-6, 40e-6)}
    asked = on_gpu(replace(device_times(short), asked=7))
    assert (found := bound(asked, ACT)) is not None
    assert found.kind == "overhead"  # As by the roofs: an operator takes 10 of the 40 µs.


def test_python_overhead_is_a_part_of_a_forward_only_where_the_gpu_waits_for_it() -> None:
    nodes = TICK.nodes
    part = b"\0\0\x80\x3d" * 4  # 1/16 s of 1 s each.
    window = WindowTimes(5.0, nodes, b"\0\0\x80\x3f" * 4, part, part)

    assert host(on_gpu(window, BEHIND)) == BUSY_GPU
    found = host(on_gpu(window, CAUGHT_UP))
    assert not isinstance(found, type(BUSY_GPU))
    assert found.python == pytest.approx(0.004 / 16)


def test_slow_forwards_are_held_against_the_host() -> None:
    thread = ThreadTime(0.002, 0.002, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    slow = SlowForward(6.0, 7, 0.002, thread, TICK.nodes, TICK.p50, TICK.own_per_forward, 5.0)
    session = on_gpu(BEHIND, slow)

    assert usual_seconds(session) == pytest.approx(0.001)


def test_cpu_time_of_the_thread_stays() -> None:
    cpu = with_cpu_times(TICK, {CONV: (0.0004, 0.0004)})
    session = folded((*MEASURED, ON_GPU, cpu, BEHIND))

    assert session.timings is not None
    assert session.timings.own_cpu_per_forward(CONV) == pytest.approx(0.0004)
    assert session.timings.waiting == 0.0


def test_the_json_report_says_whose_times_they_are() -> None:
    found = json.loads(json_report(on_gpu(CAUGHT_UP)))
    plain = json.loads(json_report(folded(MEASURED)))

    assert found["latency"]["gpu"] == {
        "forwards": 50,
        "dropped": 0,
        "captured": 0,
        "waits_for_host_share": pytest.approx(0.98),
        "host_mean_s": pytest.approx(0.001),
    }
    assert found["layers"][0]["timing"]["mean_per_forward_s"] == pytest.approx(0.004)
    assert plain["latency"]["gpu"] is None
