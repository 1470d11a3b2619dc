"""Slow forwards: what was different in them, from counters of their thread.

1. A cause is a time: what the forward had more of than forwards have in the mean. It is a share of
   what the forward took longer, never a guess from its size.
2. Time on a core, waiting for a core, and neither (sleeping, a lock, a disk) make the forward. Of
   the time on a core, the garbage collector's is known; page faults and compilations are counted,
   so they are named where there were many more of them, with the time that they lie in.
3. What no counter explains is said to be so.
"""

from __future__ import annotations

from array import array
from typing import Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from tui_profiler.figures.units import duration
from tui_profiler.messages import SlowForward, ThreadTime, known
from tui_profiler.queries.time.forward_kinds import times_fit_costs
from tui_profiler.session import Session, Timings

CauseName: TypeAlias = Literal[
    "waiting", "blocked", "disk", "collector", "compile", "page faults", "on a core"
]
LEAST_PART = 0.1
"""Of what a forward took longer: below it a cause is not named."""
LEAST_FAULTS = 100
"""Page faults more than usual; fewer cost less than 0.1 ms."""
MOST_FAULT_SECONDS = 20e-6
"""Time on a core that one page fault may take: a page of 2 MiB is filled in 20 to 100 us."""


class Cause(NamedTuple):
    """What a slow forward had more of than others."""

    name: CauseName
    seconds: float
    """More than in the mean."""
    words: str


def usual_seconds(session: Session) -> float | None:
    """Return what a forward takes in the mean; None before there are times."""
    found = session.timings.per_forward(0) if session.timings is not None else None
    return found or None


def as_session(session: Session, slow: SlowForward) -> Session:
    """Return the session with the times of one forward in the place of means.

    Every time, of a call as well, is that of all calls in this forward.
    """
    tick = session.tick
    if tick is None:
        return session
    whole = memoryview(slow.whole).cast("f")
    count = len(whole)
    one = replace(
        tick,
        forwards=1,
        latency_p50=slow.seconds,
        latency_p95=slow.seconds,
        window=1,
        nodes=slow.nodes,
        calls=b"\1\0\0\0\0\0\0\0" * count,
        total=array("d", whole).tobytes(),
        own=array("d", memoryview(slow.own).cast("f")).tobytes(),
        last=slow.whole,
        p50=slow.whole,
        p95=slow.whole,
        maximum=slow.whole,
        per_forward=slow.whole,
        own_per_forward=slow.own,
        mean_per_forward=slow.whole,
        own_mean_per_forward=slow.own,
        mean_forwards=1,
        outliers=0,
        thread=slow.thread,
        left_out=0,
    )
    return replace(session, timings=Timings(one), operators=None)


def causes(session: Session, slow: SlowForward) -> tuple[Cause, ...]:
    """Return what a slow forward had more of, the most first; none where nothing is known."""
    tick, used = session.tick, slow.thread
    usual = tick.thread if tick is not None else None
    if used is None or usual is None or not times_fit_costs(session):
        return ()
    longer = slow.seconds - usual.seconds
    if longer <= 0:
        return ()
    found = [one for one in _all(used, usual) if one.seconds >= LEAST_PART * longer]
    return tuple(sorted(found, key=lambda one: -one.seconds))


def _all(used: ThreadTime, usual: ThreadTime) -> list[Cause]:
    waiting = _more(used, usual, "waiting")
    on_core = _more(used, usual, "on_core")
    collecting = max(_more(used, usual, "collecting"), 0.0)
    blocked = used.seconds - usual.seconds - waiting - on_core
    found = [
        Cause("waiting", waiting, f"waiting for a core {_lasting(waiting)}"),
        Cause("collector", collecting, f"garbage collection {_lasting(collecting)}"),
    ]
    major = _more(used, usual, "major_faults")
    if major >= 1:
        words = (
            f"{major:,.0f} major page faults, {_lasting(blocked)} off the core: read from a disk"
        )
        found.append(Cause("disk", blocked, words))
    else:
        words = f"off the core {_lasting(blocked)}: sleep, lock, I/O"
        found.append(Cause("blocked", blocked, words))
    rest = on_core - collecting
    faults, compiled = _more(used, usual, "minor_faults"), _more(used, usual, "compiled")
    lasting = _lasting(rest)
    if compiled >= 1:
        frames = f"{compiled:,.0f} frame{'s' * (compiled >= 2)}"
        found.append(Cause("compile", rest, f"torch.compile compiled {frames}, {lasting}"))
    elif faults >= LEAST_FAULTS and rest <= faults * MOST_FAULT_SECONDS:
        found.append(Cause("page faults", rest, f"{faults:,.0f} page faults, {lasting} on a core"))
    else:
        found.append(Cause("on a core", rest, f"{lasting} longer on a core, cause unknown"))
    return found


def _lasting(seconds: float) -> str:
    return duration(max(seconds, 0.0))


def _more(used: ThreadTime, usual: ThreadTime, field: str) -> float:
    """Return how much more of a figure there was; 0 where one of both is not known."""
    now, before = known(getattr(used, field)), known(getattr(usual, field))
    return 0.0 if now is None or before is None else now - before


def slow_words(session: Session, slow: SlowForward) -> str:
    """Say how slow one was and what was different: ``1.44 s, 9.3× the mean: waiting for …``."""
    usual = usual_seconds(session)
    times = f", {slow.seconds / usual:.1f}× the mean" if usual else ""
    found = causes(session, slow)
    why = ", ".join(one.words for one in found) if found else "cause unknown"
    return f"{duration(slow.seconds)}{times}: {why}"
