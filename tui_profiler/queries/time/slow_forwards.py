"""Slow forwards: what was different in them, from counters.

1. A cause is a time: what the forward had more of than forwards have in the mean. It is a share of
   what the forward took longer, never a guess from its size.
2. Time on a core, waiting for a core, and neither (sleeping, a lock, a disk) make the forward. Of
   the time on a core, the garbage collector's is known; page faults and compilations are counted,
   so they are named where there were many more of them, with the time that they lie in.
3. A thread that sleeps, or waits for a lock or a disk, gives its core away: a voluntary context
   switch. Off the core without one it was interrupted, or its virtual machine was: CPU time is
   counted without steal (``update_rq_clock_task`` of Linux, kernel/sched/core.c).
4. Throttling is what counters of the machine say around the forward (``Surroundings``): a quota of
   CPU time is part of the waiting, a lower clock of the cores or of the model's GPU part of the
   time on a core, where a thread that waits for its GPU spins.
5. A program is named beside the waiting if, in the seconds around the forward, it used as much CPU
   time as a good part of what the forward waited, and not on other cores: else it could not have
   been in its way.
6. What no counter explains is said to be so.
"""

from array import array
from typing import Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.figures.units import duration, frequency, share
from tui_profiler.formatting.text import safe
from tui_profiler.queries.time.cores import own_pid
from tui_profiler.queries.time.forward_kinds import times_fit_costs
from tui_profiler.session import Session, Timings
from tui_profiler.session.history import gpu_of
from tui_profiler.session.slow_forward_context import Surroundings

CauseName: TypeAlias = Literal[
    "waiting",
    "quota",
    "blocked",
    "disk",
    "steal",
    "off a core",
    "collector",
    "compile",
    "page faults",
    "clock",
    "gpu clock",
    "on a core",
]
LEAST_PART = 0.1
"""Of what a forward or a step took longer: below it neither a cause nor a part is named."""
LEAST_FAULTS = 100
"""Page faults more than usual; fewer cost less than 0.1 ms."""
MOST_FAULT_SECONDS = 20e-6
"""Time on a core that one page fault may take: a page of 2 MiB is filled in 20 to 100 us."""
LOWER_CLOCK = 0.8
"""Of the usual clock, before the forward and after it: governors move it by less all the time."""
LOWER_GPU_CLOCK = 0.9
"""Of a GPU that says by what it is held down."""
LEAST_OF_WAITING = 0.25
"""Of what a forward waited, that a program used: rule 5."""
MOST_PROGRAMS = 2


class Cause(NamedTuple):
    """What a slow forward had more of than others."""

    name: CauseName
    seconds: float
    """More than in the mean."""
    words: str
    """Safe to show."""
    programs: tuple[messages.ProgramUse, ...] = ()
    """That used the cores meanwhile, of waiting."""


LEAST_LONGER = 1.1
"""Times the mean: a slowest forward that took less is not a slow one."""


def is_slow(session: Session, slow: messages.SlowForward) -> bool:
    """Return whether a forward took longer than those that the mean is of, which are like it."""
    usual = usual_seconds(session)
    return usual is not None and slow.seconds >= LEAST_LONGER * usual


def usual_seconds(session: Session) -> float | None:
    """Return what a forward like the recorded one takes in the mean; None if that is not known.

    Slow forwards are told of those like the recorded one only; times may be of all others.
    """
    if session.tick is not None and not session.tick.as_traced:
        return None
    found = session.host.per_forward(0) if session.host is not None else None
    return found or None


def as_session(session: Session, slow: messages.SlowForward) -> Session:
    """Return the session with the times of one forward in the place of means.

    Every time, of a call as well, is that of all calls in this forward.
    """
    timings = session.host
    if timings is None:
        return session
    tick = timings.tick
    nodes = memoryview(slow.nodes).cast("I")
    unwaited = array("f", (timings.own_unwaited(node) for node in nodes)).tobytes()
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
        # What is read of other forwards says what its own waiting was, not its CPU time.
        cpu_forwards=0,
        cpu_per_forward=b"",
        own_cpu_per_forward=b"",
        unwaited_per_forward=unwaited,
        own_unwaited_per_forward=unwaited,
        asleep_per_forward=b"",
        own_asleep_per_forward=b"",
        faults_per_forward=b"",
        own_faults_per_forward=b"",
    )
    # One forward is the whole that its shares are of.
    alone = replace(session, training=None, generation=None)
    return replace(alone, timings=Timings(one), host_operators=None)


def causes(session: Session, slow: messages.SlowForward) -> tuple[Cause, ...]:
    """Return what a slow forward had more of, the most first; none where nothing is known."""
    tick, used = session.tick, slow.thread
    usual = tick.thread if tick is not None else None
    if used is None or usual is None or not times_fit_costs(session):
        return ()
    longer = slow.seconds - usual.seconds
    if longer <= 0:
        return ()
    around = next((one for one in session.around_slow if one.forward == slow.forward), None)
    return thread_causes(session, used, usual, around)


def thread_causes(
    session: Session,
    used: messages.ThreadTime,
    usual: messages.ThreadTime,
    around: Surroundings | None = None,
) -> tuple[Cause, ...]:
    """Return what a thread had more of than usual, the most first.

    Args:
        session: of the program.
        used: what was slow, a forward or a step.
        usual: the mean.
        around: what counters of the machine said meanwhile, where that is known.
    """
    longer = used.seconds - usual.seconds
    if not _is_known(used, usual, "on_core"):
        return ()
    found = [*_off_core(session, used, usual, around), *_on_core(session, used, usual, around)]
    found = [one for one in found if one.seconds > 0 and one.seconds >= LEAST_PART * longer]
    return tuple(sorted(found, key=lambda one: -one.seconds))


def _off_core(
    session: Session,
    used: messages.ThreadTime,
    usual: messages.ThreadTime,
    around: Surroundings | None,
) -> list[Cause]:
    waiting, on_core = _more(used, usual, "waiting"), _more(used, usual, "on_core")
    if not _is_known(used, usual, "waiting"):
        off_core = used.seconds - usual.seconds - on_core
        words = f"{_lasting(off_core)} off the core: whether it waited for one is not known"
        return [Cause("off a core", off_core, words)]
    quota = min(_since(around, "quota_seconds"), max(waiting, 0.0))
    found = [
        Cause("quota", quota, f"CPU quota of its control group used up, {_lasting(quota)}"),
        _waiting(session, waiting - quota, around),
    ]
    off_core = used.seconds - usual.seconds - waiting - on_core
    major = _more(used, usual, "major_faults")
    if major >= 1:
        lasting = f"{_lasting(off_core)} off the core: read from a disk"
        return [*found, Cause("disk", off_core, f"{major:,.0f} major page faults, {lasting}")]
    if messages.known(used.voluntary_switches) == 0:
        stolen = min(_since(around, "stolen_seconds"), max(off_core, 0.0))
        rest = off_core - stolen
        by_others = f"other virtual machines took the core (steal), {_lasting(stolen)}"
        unknown = f"{_lasting(rest)} off the core without a context switch, cause unknown"
        return [*found, Cause("steal", stolen, by_others), Cause("off a core", rest, unknown)]
    if not all(_is_known(used, usual, one) for one in ("voluntary_switches", "major_faults")):
        return [*found, Cause("off a core", off_core, f"{_lasting(off_core)} off the core")]
    words = f"off the core {_lasting(off_core)}: sleep, lock, I/O"
    return [*found, Cause("blocked", off_core, words)]


def _waiting(session: Session, seconds: float, around: Surroundings | None) -> Cause:
    words = f"waiting for a core {_lasting(seconds)}"
    seen = around.programs if around is not None else None
    if seen is None:
        return Cause("waiting", seconds, words)
    own = own_pid(session)
    others = (one for one in seen.programs if one.pid != own and not one.elsewhere)
    by = [one for one in others if one.cores * seen.seconds >= LEAST_OF_WAITING * seconds]
    named = tuple(by[:MOST_PROGRAMS])
    if named:
        told = ", ".join(f"{safe(one.name)} (pid {one.pid}) {share(one.cores)}" for one in named)
        words += f", meanwhile {told} of a core"
    return Cause("waiting", seconds, words, named)


def _on_core(
    session: Session,
    used: messages.ThreadTime,
    usual: messages.ThreadTime,
    around: Surroundings | None,
) -> list[Cause]:
    collecting = max(_more(used, usual, "collecting"), 0.0)
    found = [Cause("collector", collecting, f"garbage collection {_lasting(collecting)}")]
    rest = _more(used, usual, "on_core") - collecting
    faults, compiled = _more(used, usual, "minor_faults"), _more(used, usual, "compiled")
    if compiled >= 1:
        frames = f"{compiled:,.0f} frame{'s' * (compiled >= 2)}"
        words = f"torch.compile compiled {frames}, {_lasting(rest)}"
        return [*found, Cause("compile", rest, words)]
    on_core = messages.known(used.on_core) or 0.0
    for one in (_clock(on_core, rest, around), _gpu_clock(session, on_core, rest, around)):
        if one is not None:
            found.append(one)
            rest -= one.seconds
    lasting = _lasting(rest)
    if faults >= LEAST_FAULTS and rest <= faults * MOST_FAULT_SECONDS:
        words = f"{faults:,.0f} page faults, {lasting} on a core"
        return [*found, Cause("page faults", rest, words)]
    return [*found, Cause("on a core", rest, f"{lasting} longer on a core, cause unknown")]


def _clock(on_core: float, longer: float, around: Surroundings | None) -> Cause | None:
    """Return what a lower clock of the cores made longer, as counters say; None where none does."""
    if around is None or longer <= 0:
        return None
    heat = _since(around, "heat_events") >= 1
    beside = [one for one in (around.before, around.after) if one is not None]
    told = [hertz for one in beside if (hertz := messages.known(one.frequency_hertz))]
    usual, hertz = around.usual_hertz, max(told, default=0.0)
    if hertz and usual and hertz < LOWER_CLOCK * usual:
        seconds = min(longer, on_core * (1.0 - hertz / usual))
        by_heat = ", throttled by heat" if heat else ""
        clocks = f"cores at {frequency(hertz)}, usually {frequency(usual)}{by_heat}"
        return Cause("clock", seconds, f"{clocks}, {_lasting(seconds)}")
    if not heat:
        return None
    seconds = min(longer, _since(around, "heat_seconds"))
    return Cause("clock", seconds, f"cores throttled by heat, {_lasting(seconds)}")


def _gpu_clock(
    session: Session, spent: float, longer: float, around: Surroundings | None
) -> Cause | None:
    """Return what a lower clock of the model's GPU made longer; None where nothing says so."""
    near, gpu = _nearest(around), None
    device = session.model.device if session.model is not None else "cpu"
    if around is not None and near is not None and device.startswith("cuda"):
        gpu = gpu_of(near, device)
    if around is None or not isinstance(gpu, messages.Gpu) or longer <= 0:
        return None
    hertz, usual = messages.known(gpu.clock_hertz), around.usual_gpu_hertz
    why = "" if isinstance(gpu.throttled_by, messages.Unknown) else gpu.throttled_by
    if not why or not hertz or not usual or hertz >= LOWER_GPU_CLOCK * usual:
        return None
    seconds = min(longer, spent * (1.0 - hertz / usual))
    clocks = f"GPU at {frequency(hertz)}, usually {frequency(usual)} ({safe(why)})"
    return Cause("gpu clock", seconds, f"{clocks}, {_lasting(seconds)}")


def _nearest(around: Surroundings | None) -> messages.Sample | None:
    """Return the sample that is nearest to a forward in time."""
    if around is None or around.after is None or around.before is None:
        return None if around is None else around.after or around.before
    is_after = around.after.at - around.ended <= around.began - around.before.at
    return around.after if is_after else around.before


def _since(around: Surroundings | None, counter: str) -> float:
    """Return what a counter of ``Throttle`` rose by around a forward; 0 where that is not known."""
    if around is None or around.before is None or around.after is None:
        return 0.0
    before, after = around.before.throttle, around.after.throttle
    if not isinstance(before, messages.Throttle) or not isinstance(after, messages.Throttle):
        return 0.0
    then: messages.Figure = getattr(before, counter)
    now: messages.Figure = getattr(after, counter)
    was, found = messages.known(then), messages.known(now)
    return 0.0 if was is None or found is None else max(found - was, 0.0)


def _lasting(seconds: float) -> str:
    return duration(max(seconds, 0.0))


def _is_known(used: messages.ThreadTime, usual: messages.ThreadTime, field: str) -> bool:
    return messages.known(getattr(used, field)) is not None and (
        messages.known(getattr(usual, field)) is not None
    )


def _more(used: messages.ThreadTime, usual: messages.ThreadTime, field: str) -> float:
    """Return how much more of a figure there was; 0 where one of both is not known."""
    now, before = messages.known(getattr(used, field)), messages.known(getattr(usual, field))
    return 0.0 if now is None or before is None else now - before


def slow_words(session: Session, slow: messages.SlowForward) -> str:
    """Say how slow one was and what was different: ``1.44 s, 9.3× the mean: waiting for …``."""
    usual = usual_seconds(session)
    times = f", {slow.seconds / usual:.1f}× the mean" if usual else ""
    found = causes(session, slow)
    why = ", ".join(one.words for one in found) if found else "cause unknown"
    return f"{duration(slow.seconds)}{times}: {why}"
