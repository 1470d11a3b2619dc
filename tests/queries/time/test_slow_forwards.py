"""Slow forwards: which are kept, what is said of them, and pauses whose cause is known."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from benchmarks.times.slow_forwards import NAMED, measured
from tests.machine_session import GPU
from tests.queries.sessions import resnet
from tests.small_model import FACTS, SAMPLE
from tui_profiler.messages import (
    Hello,
    Message,
    Pressure,
    ProgramsSeen,
    ProgramUse,
    Sample,
    SlowForward,
    ThreadTime,
    Throttle,
    Unknown,
)
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.queries.time.slow_forwards import (
    as_session,
    causes,
    is_slow,
    slow_words,
    usual_seconds,
)
from tui_profiler.reports.json.report import json_report
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


def test_the_only_forward_and_one_that_is_shorter_are_not_slow() -> None:
    session = with_usual()
    usual = usual_seconds(session)
    assert usual is not None
    assert not is_slow(session, slow(None, usual))
    assert not is_slow(session, slow(None, 0.6 * usual))
    assert is_slow(session, slow(None, 1.2 * usual))


def test_a_slow_forward_is_not_compared_with_the_mean_of_other_forwards() -> None:
    """The recorded kind took 62 ms, the mean is of another kind: neither 0.6 times nor 6 times."""
    session = with_usual()
    assert session.tick is not None
    others = apply(session, replace(session.tick, as_traced=False))
    one = slow(None, 99.0)
    assert is_slow(session, one)
    assert not is_slow(others, one)
    assert "× the mean" not in slow_words(others, one)
    found = json.loads(json_report(replace(others, slow=(one,))))
    assert found["latency"]["slowest"] is None


CAUSES: list[tuple[ThreadTime | None, list[str]]] = [
    # 0.1 s longer; of it waiting 0.09.
    (ThreadTime(0.14, 0.04, 0.092, 2.0, 0.0, 0.0, 9.0, 0.001, 0.0), ["waiting", "on a core"]),
    (ThreadTime(0.14, 0.03, 0.002, 2.0, 0.0, 5.0, 1.0, 0.001, 0.0), ["blocked"]),
    (ThreadTime(0.14, 0.03, 0.002, 2.0, 40.0, 5.0, 1.0, 0.001, 0.0), ["disk"]),
    (ThreadTime(0.14, 0.13, 0.002, 2.0, 0.0, 0.0, 1.0, 0.096, 0.0), ["collector"]),
    (ThreadTime(0.14, 0.13, 0.002, 2.0, 0.0, 0.0, 1.0, 0.001, 2.0), ["compile"]),
    (ThreadTime(0.14, 0.13, 0.002, 2e4, 0.0, 0.0, 1.0, 0.001, 0.0), ["page faults"]),
    # It gave its core away to nothing: no sleep, no lock.
    (ThreadTime(0.14, 0.03, 0.002, 2.0, 0.0, 0.0, 0.0, 0.001, 0.0), ["off a core"]),
    (ThreadTime(0.14, 0.03, 0.002, 2.0, 0.0, Unknown("no"), 0.0, 0.001, 0.0), ["off a core"]),
    # It may have waited for a core, or for a lock.
    (ThreadTime(0.14, 0.03, Unknown("no"), 2.0, 0.0, 5.0, 1.0, 0.001, 0.0), ["off a core"]),
    (ThreadTime(0.14, Unknown("no"), 0.092, 2.0, 0.0, 5.0, 1.0, 0.001, 0.0), []),
    # 150 page faults do not take 0.1 s.
    (ThreadTime(0.14, 0.13, 0.002, 150.0, 0.0, 0.0, 1.0, 0.001, 0.0), ["on a core"]),
    (ThreadTime(0.14, 0.13, Unknown("no"), 2.0, 0.0, 0.0, 1.0, 0.001, 0.0), ["on a core"]),
    (None, []),
]


@pytest.mark.parametrize(("used", "expected"), CAUSES)
def test_the_cause_is_what_there_was_more_of(used: ThreadTime | None, expected: list[str]) -> None:
    session, one = with_usual(), slow(used)
    assert [cause.name for cause in causes(session, one)] == expected
    if not expected:
        assert slow_words(session, one).endswith("cause unknown")


@pytest.mark.parametrize("of", ["used", "usual"])
@pytest.mark.parametrize("field", [*ThreadTime.__struct_fields__[1:]])
@pytest.mark.parametrize(("used", "expected"), [case for case in CAUSES if case[0] is not None])
def test_without_a_figure_no_other_cause_is_named(
    used: ThreadTime, expected: list[str], field: str, of: str
) -> None:
    """It may be that the thread was off a core, or longer on one, of unknown cause."""
    unknown = {field: Unknown("made unknown by the test")}
    usual = replace(USUAL, **unknown) if of == "usual" else USUAL
    found = causes(with_usual(usual), slow(replace(used, **unknown) if of == "used" else used))
    assert {cause.name for cause in found} <= {*expected, "off a core", "on a core"}


WAITED = ThreadTime(0.14, 0.03, 0.102, 2.0, 0.0, 0.0, 9.0, 0.001, 0.0)
COMPUTED = ThreadTime(0.14, 0.13, 0.002, 2.0, 0.0, 0.0, 1.0, 0.001, 0.0)
BEGAN = 10.25


def sample(
    at: float,
    quota: float = 0.0,
    heat: tuple[float, float] = (0, 0),
    stolen: float = 0.0,
    **more: Any,
) -> Sample:
    seconds, events = heat
    throttle = Throttle(quota, 0.0, seconds, events, stolen)
    return replace(SAMPLE, at=at, throttle=throttle, **{"frequency_hertz": 3e9} | more)


def programs(
    at: float | None,
    *used: tuple[int, str, float],
    elsewhere: tuple[int, ...] = (),
) -> ProgramsSeen:
    unknown = Unknown("no")
    found = tuple(ProgramUse(pid, *one, 0, pid in elsewhere) for pid, *one in used)
    return ProgramsSeen(2.0, found, 2.0, 9, Pressure(unknown, unknown, unknown), at)


def told(used: ThreadTime, *before: Message, after: tuple[Message, ...] = ()) -> Session:
    """Return a session with a slow forward that began at 10.25 and took 0.14 s."""
    session = with_usual()
    for message in (Hello(1, 42, ()), FACTS, *before, replace(slow(used), began=BEGAN), *after):
        session = apply(session, message)
    return session


def named(session: Session) -> dict[str, float]:
    return {one.name: one.seconds for one in causes(session, session.slow[0])}


def test_what_a_group_waited_for_its_quota_is_told_apart_from_waiting() -> None:
    session = told(WAITED, sample(10.0, 3.0), after=(sample(11.0, 3.06), sample(12.0, 9.0)))
    assert named(session) == pytest.approx({"quota": 0.06, "waiting": 0.04})
    assert "CPU quota of its control group used up, 60.0 ms" in slow_words(session, session.slow[0])
    # No more than it waited, however long others of its group did.
    all_of_it = told(WAITED, sample(10.0, 3.0), after=(sample(11.0, 7.0),))
    assert named(all_of_it) == pytest.approx({"quota": 0.1})
    # Nothing that was counted before it or long after.
    earlier = told(WAITED, sample(9.0, 1.0), sample(10.0, 3.0), after=(sample(11.0, 3.0),))
    assert named(earlier) == pytest.approx({"waiting": 0.1})
    for unknown in (replace(SAMPLE, at=11.0), sample(11.0, quota=Unknown("no"))):  # type: ignore[arg-type] # figure
        assert named(told(WAITED, sample(10.0), after=(unknown,))) == pytest.approx(
            {"waiting": 0.1}
        )


def test_a_clock_that_was_lower_before_and_after_made_the_time_on_a_core_longer() -> None:
    usual = [sample(float(at)) for at in range(8)]
    low = {"frequency_hertz": 2.0e9}
    session = told(COMPUTED, *usual, sample(10.0, **low), after=(sample(11.0, **low),))
    # A third of 0.13 s on a core.
    assert named(session) == pytest.approx({"clock": 0.13 / 3, "on a core": 0.1 - 0.13 / 3})
    words = slow_words(session, session.slow[0])
    assert "cores at 2.0 GHz, usually 3.0 GHz" in words
    assert "cause unknown" in words
    only_after = told(COMPUTED, *usual, sample(10.0), after=(sample(11.0, **low),))
    assert named(only_after) == pytest.approx({"on a core": 0.1})


def test_heat_is_a_cause_where_its_counters_rose() -> None:
    session = told(COMPUTED, sample(10.0, heat=(1.0, 5)), after=(sample(11.0, heat=(1.08, 6)),))
    assert named(session) == pytest.approx({"clock": 0.08, "on a core": 0.02})
    assert "cores throttled by heat, 80.0 ms" in slow_words(session, session.slow[0])
    still = told(COMPUTED, sample(10.0, heat=(1.0, 5)), after=(sample(11.0, heat=(1.0, 5)),))
    assert named(still) == pytest.approx({"on a core": 0.1})


def test_steal_is_a_cause_where_its_counter_rose_and_nothing_was_waited_for() -> None:
    def during(used: ThreadTime, stolen: float) -> Session:
        return told(used, sample(10.0, stolen=3.0), after=(sample(11.0, stolen=stolen),))

    off_core = ThreadTime(0.14, 0.03, 0.002, 2.0, 0.0, 0.0, 0.0, 0.001, 0.0)
    session = during(off_core, 3.08)
    assert named(session) == pytest.approx({"steal": 0.08, "off a core": 0.02})
    words = slow_words(session, session.slow[0])
    assert "other virtual machines took the core (steal), 80.0 ms, 20.0 ms off the core" in words
    assert words.endswith("cause unknown")
    assert named(during(off_core, 9.0)) == pytest.approx({"steal": 0.1})
    # A thread that gave its core away slept, whatever was stolen elsewhere meanwhile.
    assert named(during(replace(off_core, voluntary_switches=1.0), 3.08)) == pytest.approx(
        {"blocked": 0.1}
    )


@pytest.mark.parametrize(
    ("device", "why", "hertz", "expected"),
    [
        ("cuda:0", "temperature", 0.9e9, {"gpu clock": 0.065, "on a core": 0.035}),
        ("cuda:0", "", 0.9e9, {"on a core": 0.1}),
        ("cuda:0", Unknown("no turn yet"), 0.9e9, {"on a core": 0.1}),
        ("cuda:0", "power limit", 1.7e9, {"on a core": 0.1}),
        ("cpu", "temperature", 0.9e9, {"on a core": 0.1}),
    ],
)
def test_a_gpu_that_says_why_its_clock_is_lower_is_a_cause(
    device: str, why: str | Unknown, hertz: float, expected: dict[str, float]
) -> None:
    usual = [sample(float(at), gpus=(replace(GPU, clock_hertz=1.8e9),)) for at in range(8)]
    low = sample(11.0, gpus=(replace(GPU, clock_hertz=hertz, throttled_by=why),))
    session = with_usual()
    for message in (
        replace(FACTS, device=device),
        *usual,
        replace(slow(COMPUTED), began=BEGAN),
        low,
    ):
        session = apply(session, message)
    assert named(session) == pytest.approx(expected)


def test_a_program_is_named_that_used_the_cores_meanwhile() -> None:
    neighbour = (77, "trainer\x1b[2J", 0.9)
    seen = programs(11.0, neighbour, (42, "python", 0.8), (78, "idle", 0.01))
    session = told(WAITED, programs(9.0, (9, "before", 2.0)), after=(seen,))
    assert session.hello is not None
    assert session.hello.pid == 42  # The model's own process is not beside itself.
    [cause] = causes(session, session.slow[0])
    assert [one.pid for one in cause.programs] == [77]
    words = slow_words(session, session.slow[0])
    named_so = r"meanwhile trainer\x1b[2J (pid 77) 90 % of a core"
    assert words.endswith(f"waiting for a core 100 ms, {named_so}")
    assert json.loads(json_report(session))["latency"]["slowest"]["causes"] == [
        {
            "cause": "waiting",
            "seconds": pytest.approx(0.1),
            "programs": [{"pid": 77, "name": "trainer\x1b[2J", "cores": 0.9}],
        }
    ]


@pytest.mark.parametrize(
    "seen",
    [
        programs(11.0, (77, "little", 0.01)),  # 20 ms in 2 s: it waited 100.
        programs(11.0, (77, "elsewhere", 1.0), elsewhere=(77,)),
        programs(13.5, (77, "later", 2.0)),
        programs(10.3, (77, "earlier", 2.0)),
        programs(None, (77, "undated", 2.0)),
    ],
)
def test_a_program_that_could_not_have_been_in_the_way_is_not_named(seen: ProgramsSeen) -> None:
    session = told(WAITED, after=(seen,))
    [cause] = causes(session, session.slow[0])
    assert (cause.name, cause.programs) == ("waiting", ())


def test_what_was_told_around_a_forward_is_kept_as_long_as_it_is() -> None:
    session = told(WAITED, sample(10.0, 3.0), after=(sample(11.0, 3.1),))
    for at in range(400):
        session = apply(session, sample(12.0 + at, 50.0 + at))
    assert named(session) == pytest.approx({"quota": 0.1})
    for number in range(20):
        faster = replace(slow(WAITED, 0.12, 100 + number), began=500.0 + number)
        session = apply(session, faster)
    assert len(session.around_slow) == len({one.forward for one in session.slow}) == 9
    assert named(session) == pytest.approx({"quota": 0.1})
    # A program that restarts its count of forwards repeats the same numbers.
    for _ in range(20):
        session = apply(session, faster)
    assert len(session.around_slow) <= 9
    # Forwards of older recordings have no time: nothing is put beside them.
    older = apply(with_usual(), slow(WAITED))
    assert older.around_slow == ()


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
    """A sample of ``benchmarks/times/slow_forwards.py``: on a busy machine they wait as well."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(3):
            session, _ = measured(cause, 300)
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
