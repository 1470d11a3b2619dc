"""Classes by what the thread did: blocked, Python, page faults; figures by hand."""

from __future__ import annotations

import math
from array import array

import pytest
from msgspec.structs import replace

from tests.small_model import ACT, CEILINGS, FC, ROOT, TRACED, folded, tick, with_thread_read
from tui_profiler.messages import ThreadTime, Unknown, WindowTimes
from tui_profiler.queries.cost.bound import bound, kinds_of, node_mix
from tui_profiler.queries.cost.bound_classes import KINDS, BoundKind
from tui_profiler.queries.cost.breakdown import bound_shares
from tui_profiler.session import Session, apply

TIMES = {ROOT: (1e-3, 0.2e-3), FC: (0.6e-3, 0.6e-3), ACT: (0.2e-3, 0.2e-3)}
READ = {ROOT: (0.2e-3, 0.0, 0.0), FC: (0.6e-3, 0.0, 0.0), ACT: (0.2e-3, 0.0, 0.0)}
FAULT = 1e-6


def measured(
    read: dict[int, tuple[float, float, float]],
    *,
    outside: dict[int, float] | None = None,
    waiting: float = 0.0,
    threads: int = 1,
) -> Session:
    """Return a session whose calls read their thread.

    Args:
        read: as of ``with_thread_read``.
        outside: by node, the share of its own time without an operator; no window without it.
        waiting: share of a forward that waits for a core; other times are longer by it.
        threads: of torch.
    """
    longer = 1.0 / (1.0 - waiting)
    times = {node: (whole * longer, own * longer) for node, (whole, own) in TIMES.items()}
    used = ThreadTime(1e-3 * longer, 1e-3, 1e-3 * longer * waiting, 0.0, 0.0, 1.0, 1.0)
    ticked = replace(with_thread_read(tick(times), read), thread=used)
    ceilings = replace(CEILINGS, fault_seconds=FAULT)
    session = folded((*TRACED, ceilings, ticked))
    assert session.environment is not None
    session = apply(session, replace(session.environment, threads=threads))
    return session if outside is None else apply(session, window(outside))


def window(outside: dict[int, float]) -> WindowTimes:
    """Return an operator window in which every module is twice as slow as usual."""
    own = {node: 2 * mine for node, (_, mine) in TIMES.items()}
    host = {node: own[node] * outside.get(node, 0.0) for node in own}
    own[ROOT] += own[FC] + own[ACT]
    host[ROOT] += host[FC] + host[ACT]
    nodes = sorted(own)
    return WindowTimes(
        1.0,
        array("I", nodes).tobytes(),
        array("f", (own[node] for node in nodes)).tobytes(),
        array("f", (host[node] for node in nodes)).tobytes(),
        array("f", bytes(4 * len(nodes))).tobytes(),
    )


def part(session: Session, node: int, kind: BoundKind) -> float:
    return node_mix(session, node)[KINDS.index(kind)]


@pytest.mark.parametrize("waiting", [0.0, 0.6])
def test_a_module_that_sleeps_is_blocked_however_busy_the_host_is(waiting: float) -> None:
    session = measured({**READ, FC: (0.1e-3, 0.5e-3, 0.0)}, outside={FC: 0.9}, waiting=waiting)
    found = bound(session, FC)
    assert found is not None
    assert found.kind == "blocked"
    assert found.mix[KINDS.index("blocked")] == pytest.approx(5 / 6, rel=1e-4)
    assert "83 % of its time is asleep: sleep, files, network or locks" in found.reason
    assert part(session, ROOT, "blocked") == pytest.approx(0.5e-3, rel=1e-4)
    assert kinds_of(session)(ROOT) == "blocked"


@pytest.mark.parametrize("waiting", [0.0, 0.6])
def test_time_on_a_core_outside_of_operators_is_python(waiting: float) -> None:
    session = measured(READ, outside={FC: 0.75, ACT: 0.0, ROOT: 0.0}, waiting=waiting)
    assert part(session, FC, "python") == pytest.approx(0.75 * 0.6e-3, rel=1e-4)
    assert part(session, ACT, "python") == 0.0
    assert kinds_of(session)(FC) == "python"


def test_python_that_calls_operators_and_modules_is_overhead() -> None:
    # An operator takes 10 us at least: of the call of a module, its operator and two modules inside
    # 10 times as long is overhead; what is longer is Python of the model.
    few, many = measured(READ, outside={ROOT: 1.0}), measured(READ, outside={FC: 0.5})
    assert part(few, ROOT, "python") == 0.0
    assert part(few, ROOT, "overhead") >= 0.2e-3 * (1 - 1e-5)
    assert part(many, FC, "python") == pytest.approx(0.3e-3, rel=1e-4)


def test_page_faults_are_their_number_times_the_cost_of_one() -> None:
    session = measured({**READ, FC: (0.6e-3, 0.0, 450.0)}, outside={FC: 0.0})
    assert part(session, FC, "faults") == pytest.approx(450 * FAULT, rel=1e-4)
    found = bound(session, FC)
    assert found is not None
    assert found.kind == "faults"
    assert found.reason == "75 % of its time is page faults"
    # They cannot take longer than the thread was on a core.
    most = measured({**READ, FC: (0.6e-3, 0.0, 4500.0)}, outside={FC: 0.0})
    assert part(most, FC, "faults") == pytest.approx(0.6e-3, rel=1e-4)


def test_on_several_threads_sleep_inside_of_operators_is_work_of_the_others() -> None:
    read = {**READ, FC: (0.2e-3, 0.4e-3, 0.0)}
    inside = {FC: 0.1}
    serial = measured(read, outside=inside)
    assert part(serial, FC, "blocked") == pytest.approx(0.4e-3, rel=1e-4)
    parallel = measured(read, outside=inside, threads=4)
    assert part(parallel, FC, "blocked") == pytest.approx(0.06e-3, rel=1e-4)
    assert part(measured(read, threads=4), FC, "blocked") == 0.0


def test_what_is_not_read_is_unknown_and_never_nothing() -> None:
    plain = folded((*TRACED, replace(CEILINGS, fault_seconds=FAULT), tick(TIMES)))
    shares = bound_shares(plain)
    assert [shares[kind].time_share for kind in ("python", "faults", "blocked")] == [None] * 3
    without_window = bound_shares(measured(READ))
    assert without_window["python"].time_share is None
    assert without_window["blocked"].time_share == 0.0
    without_cost = bound_shares(
        apply(measured(READ), replace(CEILINGS, fault_seconds=Unknown("not measured")))
    )
    assert without_cost["faults"].time_share is None


def test_a_kernel_without_schedstat_leaves_a_node_in_one_part() -> None:
    read = {**READ, FC: (0.1e-3, math.nan, 0.0)}
    session = measured(read, outside={FC: 0.9})
    assert part(session, FC, "blocked") == part(session, FC, "python") == 0.0
