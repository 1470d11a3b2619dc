"""What counters say of the model, by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.machine_session import ALLOCATOR, COUNTERS, FULL, measured
from tests.small_model import ACT, CONV, CONV_OP, FC
from tui_profiler.messages import Cache, Unknown
from tui_profiler.queries.cost import machine

NOT_RUNNING = Unknown("no second of forwards was sampled lately")


def test_parallel_efficiency_is_busy_cores_by_threads_while_forwards_ran() -> None:
    idle = replace(FULL, activity="idle", process_cpu=0.0)
    busy = replace(FULL, process_cpu=1.5)
    more = replace(FULL, process_cpu=1.7)

    # Of (idle to busy), (busy to more), (more to idle) only the one in the middle ran throughout.
    assert machine.parallel_efficiency(measured(idle, busy, more, idle)) == pytest.approx(1.7 / 2)


def test_threads_are_never_busier_than_all_of_the_time() -> None:
    # Two threads of operators, and a third that counts.
    busy = replace(FULL, process_cpu=2.04)

    assert machine.parallel_efficiency(measured(busy, busy)) == 1.0


def test_parallel_efficiency_is_not_known_while_nothing_runs() -> None:
    idle = replace(FULL, activity="idle")

    assert machine.parallel_efficiency(measured(idle, idle)) == NOT_RUNNING
    assert machine.parallel_efficiency(measured(FULL)) == NOT_RUNNING


def test_shares_of_counters() -> None:
    assert machine.miss_share(COUNTERS) == pytest.approx(0.25)
    assert machine.instructions_per_cycle(COUNTERS) == pytest.approx(3)
    assert machine.last_level_miss_share(COUNTERS) == COUNTERS.last_level_misses
    assert machine.miss_share(replace(COUNTERS, cache_references=0.0)) == Unknown(
        "nothing was counted"
    )
    assert machine.miss_share(None) == Unknown("this recording is older than the figure")


def test_fragmentation_is_what_cannot_be_given_back() -> None:
    assert machine.fragmentation(ALLOCATOR) == pytest.approx(0.25)


def test_a_working_set_is_inputs_weights_and_outputs_of_one_call() -> None:
    session = measured()
    second = Cache(2, 1 << 14, 2, 1)

    # 768 + 432 + 1,024 bytes; 1,024 + 10,280 + 40; 40 + 40.
    assert machine.working_set(session, CONV) == machine.WorkingSet(2224, second)
    assert machine.working_set(session, CONV_OP) == machine.WorkingSet(2224, second)
    assert machine.working_set(session, FC) == machine.WorkingSet(11344, second)
    assert machine.working_set(session, ACT) == machine.WorkingSet(80, Cache(1, 1 << 10, 1, 2))


def test_what_no_cache_holds_is_in_memory() -> None:
    session = measured()
    assert session.environment is not None
    small = replace(session.environment, caches=(Cache(1, 64, 1, 2),))

    assert machine.working_set(replace(session, environment=small), FC) == machine.WorkingSet(
        11344, None
    )


def test_caches_of_the_processor_say_nothing_of_a_gpu() -> None:
    assert machine.working_set(measured(device="cuda:0"), CONV) == Unknown(
        "it does not run on the CPU"
    )
