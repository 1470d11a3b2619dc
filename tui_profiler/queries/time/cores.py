"""Who has the cores: the thread that runs forwards, this process, the other programs."""

from collections.abc import Iterator
from typing import NamedTuple

from tui_profiler.figures.units import share
from tui_profiler.messages import (
    Figure,
    Gpu,
    GpuProgramsUnknown,
    GpuProgramUse,
    ProgramsSeen,
    ProgramUse,
    ThreadTime,
    Unknown,
    known,
)
from tui_profiler.messages.hardware import NOT_RECORDED
from tui_profiler.session import Session

_THROTTLED_SECONDS = 10.0
_BELOW = 0.005
"""Of a core: who takes less is not told."""
_NO_MATCH = Unknown("programs cannot be matched to this GPU: a UUID is missing")


class CoresUsed(NamedTuple):
    """Cores that are busy, of those that this process may use."""

    cores: int
    this: Figure
    """This process's: CPU seconds per second."""
    others: Figure
    """All others' together."""


def cores_used(session: Session) -> CoresUsed | None:
    """Return who keeps the cores busy, None before the first sample."""
    sample = session.sample
    if sample is None or not sample.cores:
        return None
    this = sample.process_cpu
    if isinstance(this, Unknown):
        return CoresUsed(len(sample.cores), this, this)
    busy = sum(core.utilisation for core in sample.cores)
    return CoresUsed(len(sample.cores), this, max(busy - this, 0.0))


def other_programs(session: Session) -> tuple[ProgramUse, ...]:
    """Return the other processes that take most, the most first."""
    if session.programs is None:
        return ()
    own, seen = own_pid(session), session.programs.programs
    return tuple(one for one in seen if one.pid != own and one.cores >= _BELOW)


def own_pid(session: Session) -> int | None:
    """Return the process of the model, None before it has said so."""
    return session.hello.pid if session.hello is not None else None


def gpu_programs(session: Session, gpu: Gpu) -> tuple[GpuProgramUse, ...]:
    """Return the processes that use a GPU, most memory first."""
    seen = session.programs
    if seen is None or isinstance(seen.gpu_programs, Unknown):
        return ()
    return tuple(one for one in seen.gpu_programs if _is_of(one, gpu, seen))


def _is_of(one: GpuProgramUse | GpuProgramsUnknown, gpu: Gpu, seen: ProgramsSeen) -> bool:
    """Return whether both are the same GPU.

    The viewer's number may differ from the probe's: it counts only where neither has a UUID, or
    the viewer has none of any GPU, as in older recordings.
    """
    if one.uuid and gpu.uuid:
        return one.uuid == gpu.uuid
    return one.gpu == gpu.index and not one.uuid and not (gpu.uuid and _has_uuids(seen))


def _has_uuids(seen: ProgramsSeen) -> bool:
    return any(one.uuid for one in _on_gpus(seen))


def _on_gpus(seen: ProgramsSeen) -> Iterator[GpuProgramUse | GpuProgramsUnknown]:
    yield from () if isinstance(seen.gpu_programs, Unknown) else seen.gpu_programs
    yield from seen.gpu_programs_unknown


def gpu_programs_unknown(session: Session, gpu: Gpu) -> Unknown | None:
    """Return why it is not known who computes on a GPU; None if it is, or nobody looked."""
    seen = session.programs
    if seen is None or seen.gpu_programs == NOT_RECORDED:
        return None
    if isinstance(seen.gpu_programs, Unknown):
        return seen.gpu_programs
    for unread in seen.gpu_programs_unknown:
        if _is_of(unread, gpu, seen):
            return unread.why
    for one in _on_gpus(seen):
        if one.gpu == gpu.index and bool(one.uuid) != bool(gpu.uuid) and not _is_of(one, gpu, seen):
            return _NO_MATCH
    return None


class Throttled(NamedTuple):
    """Shares of the last seconds; 0 where no counter moved."""

    by_quota: float
    """In which tasks of a control group had used up its CPU quota; of several cores together."""
    by_heat: float
    """In which cores were held down by heat; likewise."""
    by_steal: float
    """In which the hypervisor ran something else on them; likewise."""


def throttled(session: Session) -> Throttled:
    """Return how much the cores of this process were throttled lately."""
    samples = session.history.samples
    told = [
        one for one in samples if one.throttle and one.at >= samples[-1].at - _THROTTLED_SECONDS
    ]
    if not told:
        return Throttled(0.0, 0.0, 0.0)
    first, last = told[0], told[-1]
    seconds = last.at - first.at
    counters = ("quota_seconds", "heat_seconds", "stolen_seconds")
    risen = (known(getattr(last.throttle, name)) for name in counters)
    before = (known(getattr(first.throttle, name)) for name in counters)
    rates = (
        max(now - then, 0.0) / seconds if now is not None and then is not None and seconds else 0.0
        for now, then in zip(risen, before, strict=True)
    )
    return Throttled(*rates)


def thread_time(session: Session) -> ThreadTime | Unknown:
    """Return what the thread that runs forwards used in one, in the mean of all the last ones.

    Forwards that took far longer are in it: they may be those that waited.
    """
    tick = session.tick
    if tick is None:
        return Unknown("no forward was measured")
    used = tick.thread_of_all or tick.thread
    return NOT_RECORDED if used is None else used


def share_of_forward(used: ThreadTime, seconds: Figure) -> Figure:
    """Return a time of the thread's as a share of the forward, 0 to 1."""
    if isinstance(seconds, Unknown):
        return seconds
    return min(seconds / used.seconds, 1.0) if used.seconds > 0 else Unknown("no time passed")


def waiting_of_forward(session: Session) -> Figure:
    """Return the share of a forward in which its thread waits for a core, 0 to 1."""
    used = thread_time(session)
    return used if isinstance(used, Unknown) else share_of_forward(used, used.waiting)


def thread_words(session: Session) -> tuple[str, ...]:
    """Say what the thread used in a forward, by lines; none where there is no figure."""
    used = thread_time(session)
    if isinstance(used, Unknown):
        return ()
    on_core, waiting = (share_of_forward(used, each) for each in (used.on_core, used.waiting))
    cores = f"on a core {_share(on_core)} of a forward, waiting for one {_share(waiting)}"
    faults = f"{_count(used.minor_faults)} minor, {_count(used.major_faults)} major page faults"
    switches = (
        f"{_count(used.voluntary_switches)} voluntary,"
        f" {_count(used.involuntary_switches)} involuntary context switches"
    )
    return cores, f"{faults}; {switches}, per forward"


def _share(figure: Figure) -> str:
    return f"– ({figure.reason})" if isinstance(figure, Unknown) else share(figure)


def _count(figure: Figure) -> str:
    if isinstance(figure, Unknown):
        return "–"
    return f"{figure:,.0f}" if figure >= 10 or figure == 0 else f"{figure:.2g}"
